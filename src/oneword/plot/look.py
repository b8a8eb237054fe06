"""The colours of every page and every figure, each under the name of its role, for light and for dark.

Hues are those of M. Okabe and K. Ito, *Color Universal Design* (2008), with a darker grey: distinct for every kind of
colour vision. On dark paper they are lighter. Pages read them as CSS variables (`--blue`), figures are drawn in light.
"""

from __future__ import annotations

from dataclasses import dataclass

PALETTE = {  # by role: on light paper, on dark
    "paper": ("#fdfdfb", "#16171b"),
    "raised": ("#f4f3ee", "#202228"),  # cards, quoted texts
    "ink": ("#1c1d21", "#e9e8e4"),
    "muted": ("#5f616a", "#a5a7b0"),  # notes, axes
    "grid": ("#e4e3dd", "#34363f"),
    "accent": ("#0068a6", "#62bbee"),  # links, focus
    "holds": ("#00694c", "#4cc9a0"),
    "fails": ("#b23c00", "#ff8a5c"),
    "open": ("#6547a8", "#c3b0f5"),
    "word": ("#e69f00", "#e69f00"),  # the shade of a word that is sensitive
    "heat": ("#56b4e9", "#00639c"),  # the darkest cell of a heat map with numbers
    "deep": ("#005f99", "#62bbee"),  # of one without
    "blue": ("#0072b2", "#3b8ae6"),
    "vermilion": ("#d55e00", "#e5651a"),
    "green": ("#009e73", "#62b78a"),
    "purple": ("#cc79a7", "#c974ab"),
    "orange": ("#e69f00", "#f0b83a"),
    "sky": ("#56b4e9", "#4cc4f5"),
    "grey": ("#5c5c5c", "#bdbdbd"),
}
LIGHT, DARK = ({role: both[k] for role, both in PALETTE.items()} for k in (0, 1))
PRINT = LIGHT | {"paper": "#ffffff", "ink": "#000000", "muted": "#000000"}  # figures; pages have a softer black
TINTS = {"light": 78, "dark": 46}  # per cent of `word` in the strongest shade: text on it stays readable
SERIES = ("blue", "vermilion", "green", "purple", "orange", "grey")  # curves beside each other, in this order


@dataclass(frozen=True)
class Look:
    """How one series is named and drawn: a colour of the palette by its role, and a mark of `MARKS`."""

    name: str
    colour: str
    mark: str = ""


# Marks by their plain names, with those of matplotlib.
MARKS = {
    "circle": "o",
    "square": "s",
    "triangle-up": "^",
    "diamond": "D",
    "triangle-down": "v",
    "pentagon": "p",
    "hexagon": "h",
    "cross": "P",
    "star": "*",
    "x": "X",
    "triangle-left": "<",
    "triangle-right": ">",
    "dash": "_",
    "dot": ".",
}


def series_look(index: int, name: str) -> Look:
    """The look of the next of several series that have none of their own: colours and marks in order."""
    marks = [mark for mark in MARKS if mark not in ("dash", "dot")]
    return Look(name, SERIES[index % len(SERIES)], marks[index % len(marks)])
