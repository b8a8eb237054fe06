"""Two texts side by side: tables, figures, page and terminal."""
