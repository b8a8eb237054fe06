"""Pieces of the interactive page: tables in, HTML out."""
