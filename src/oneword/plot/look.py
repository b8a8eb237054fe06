"""The colours of every page and every figure, each under the name of its role, for light and for dark.

Hues are those of M. Okabe and K. Ito, *Color Universal Design* (2008), with a darker grey: distinct for every kind of
colour vision. On dark paper they are lighter. Pages read them as CSS variables (`--blue`), figures are drawn in light.
"""

from __future__ import annotations

from dataclasses import dataclass

LIGHT = {
    "paper": "#fdfdfb",
    "raised": "#f4f3ee",  # cards, quoted texts
    "ink": "#1c1d21",
    "muted": "#5f616a",  # notes, axes
    "grid": "#e4e3dd",
    "accent": "#0068a6",  # links, focus
    "holds": "#00694c",
    "fails": "#b23c00",
    "open": "#6547a8",
    "word": "#e69f00",  # the shade of a word that is sensitive
    "heat": "#56b4e9",  # the darkest cell of a heat map with numbers
    "deep": "#005f99",  # of one without
    "blue": "#0072b2",
    "vermilion": "#d55e00",
    "green": "#009e73",
    "purple": "#cc79a7",
    "orange": "#e69f00",
    "sky": "#56b4e9",
    "grey": "#5c5c5c",
}
DARK = {
    "paper": "#16171b",
    "raised": "#202228",
    "ink": "#e9e8e4",
    "muted": "#a5a7b0",
    "grid": "#34363f",
    "accent": "#62bbee",
    "holds": "#4cc9a0",
    "fails": "#ff8a5c",
    "open": "#c3b0f5",
    "word": "#e69f00",
    "heat": "#00639c",
    "deep": "#62bbee",
    "blue": "#3b8ae6",
    "vermilion": "#e5651a",
    "green": "#62b78a",
    "purple": "#c974ab",
    "orange": "#f0b83a",
    "sky": "#4cc4f5",
    "grey": "#bdbdbd",
}
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
