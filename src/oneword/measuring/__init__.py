"""How `sensitivity` measures: what was asked for, sets that are searched, sets that are tried word by word."""
