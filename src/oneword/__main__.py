"""`python -m oneword`."""

from oneword.cli import main

main()
