"""The words of a text under maps: tables, chart, page and terminal."""
