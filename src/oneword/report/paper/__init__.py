"""The paper's evidence: its figures, its page, and the rows each of them is about."""
