"""Trained models at texts: tables, figures, page and terminal."""
