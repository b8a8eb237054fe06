"""Text is data: what words, file names, labels and columns hold is shown, never obeyed."""

from __future__ import annotations

import pytest

from oneword.checks import printable


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("\x1b[31mred\x1b]8;;file:///x\x07", r"\x1b[31mred\x1b]8;;file:///x\x07"),
        ("two\r\nlines\ta\bb\x00", r"two\r\nlines\ta\x08b\x00"),
        ("\x9b2J\x85\x7f", r"\x9b2J\x85\x7f"),
        ("abc\u202edcba\u2066\u2029", r"abc\u202edcba\u2066\u2029"),
        ("half \ud800 a pair", r"half \ud800 a pair"),
        ("naïve 中文 עברית 👩‍👧 −1", "naïve 中文 עברית 👩‍👧 −1"),
    ],
)
def test_what_a_terminal_would_obey_is_shown(given: str, shown: str) -> None:
    assert printable(given) == shown
