"""The words of one measurement as a figure, drawn for print and readable without colour."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from oneword.plot import Axis, Look, Mark, Panel, Plot, numbers
from oneword.plot.print import draw

LOOKS = {
    "value": Look("attained (S ≥)", "sky"),
    "upper": Look("certified (S ≤)", "vermilion", "dash"),
    "baseline": Look("random change", "ink", "dot"),
}


def per_word(table: pd.DataFrame, title: str = "") -> Figure:
    """Sensitivity of every word: the attained value, the certificate above it, random changes below."""
    table = table.sort_values("position")
    places = numbers(range(len(table)))
    marks = tuple(
        Mark("bars" if column == "value" else "dots", places, numbers(table[column]), look, look.name)
        for column, look in LOOKS.items()
        if column == "value" or table[column].notna().any()
    )
    words = Axis("", names=tuple(map(str, table["word"])))
    return draw(Plot("words", "", "", (Panel(title, words, Axis("word sensitivity S", low=0), marks),), height=1.8))
