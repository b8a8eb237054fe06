"""Bars of every word, on pages and for print: the worst change found with its upper bound, the best real word.

The two have axes of their own: the best real word often does a tenth of what the worst vector does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from oneword.checks import shortened
from oneword.plot import Axis, Look, Mark, Panel, Plot, numbers

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NAMED = 60  # words: above this many, bars have no names
LONGEST = 14  # letters of a name that are shown

Line = Mapping[str, Any]
WORD = Look("best real word", "word")
CHANGE = Look("worst change found (S ≥)", "sky")
UPPER = Look("upper bound (S ≤)", "vermilion")
RANDOM = Look("random: mean real word, mean random Δ", "ink")
# Of one measurement, by the column of its table.
MEASURED = {
    "value": Look("attained (S ≥)", "sky"),
    "upper": Look("certified (S ≤)", "vermilion", "dash"),
    "baseline": Look("random change", "ink", "dot"),
}


def chart(words: Sequence[str], lines: Sequence[Line | None]) -> Plot:
    """One map or model: a bar a word, None where a word was not measured."""
    over_words = {"best_word": ("bars", WORD), "random_word": ("levels", RANDOM)}
    over_changes = {"value": ("bars", CHANGE), "upper": ("levels", UPPER), "random": ("levels", RANDOM)}
    wanted = {"all changes": over_changes}
    if any(line is not None and not math.isnan(line["random_word"]) for line in lines):
        wanted = {"real words": over_words, **wanted}
    names = Axis("", names=tuple(shortened(word, LONGEST) for word in words))
    panels = tuple(
        Panel("", names, Axis(f"S, {which}", low=0), _marks(lines, columns)) for which, columns in wanted.items()
    )
    return Plot("words", "", "", panels, stacked=True)


def size(plot: Plot) -> dict[str, float]:
    """The width of a chart and the height of each of its panels, in pixels: a few a word."""
    names = plot.panels[0].x.names
    labelled = len(names) <= NAMED
    step = min(72.0, max(24.0, 840 / len(names))) if labelled else 3.8
    below = 6.5 * max(map(len, names)) if labelled else 0
    return {"width": 56 + step * len(names), "height": 150 + below / len(plot.panels)}


def per_word(table: pd.DataFrame, title: str = "") -> Figure:
    """Sensitivity of every word: the attained value, the certificate above it, random changes below."""
    table = table.sort_values("position")
    places = numbers(range(len(table)))
    marks = tuple(
        Mark("bars" if column == "value" else "dots", places, numbers(table[column]), look, look.name)
        for column, look in MEASURED.items()
        if column == "value" or table[column].notna().any()
    )
    words = Axis("", names=tuple(map(str, table["word"])))
    from oneword.plot.print import draw  # matplotlib takes a third of a second to import

    return draw(Plot("words", "", "", (Panel(title, words, Axis("word sensitivity S", low=0), marks),), height=1.8))


def _marks(lines: Sequence[Line | None], columns: Mapping[str, tuple[Any, Look]]) -> tuple[Mark, ...]:
    marks = []
    for column, (form, look) in columns.items():
        there = [(k, line[column]) for k, line in enumerate(lines) if line and not math.isnan(line[column])]
        if there:
            x, y = numbers(k for k, _ in there), numbers(v for _, v in there)
            marks.append(Mark(form, x, y, look, look.name, dash="dot" if look is UPPER else "solid"))
    return tuple(marks)
