"""Texts as matrices: words, the rows of X that carry them, and synthetic texts for theory."""
