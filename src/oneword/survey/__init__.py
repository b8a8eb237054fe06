"""A survey: every word of one or many texts, under several maps and seeds, as one tidy table."""
