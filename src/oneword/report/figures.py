"""Figures, in matplotlib: drawn for print, readable without colour."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from oneword.report.drawing import drawing
from oneword.report.heat import shortened
from oneword.report.style import BLACK, COLUMN, PAGE, SKY, VERMILION, plain

NAMED_WORDS = 60  # above this many, the axis counts positions instead of naming words
NARROW = 18  # words that have room in a column


def per_word(table: pd.DataFrame, title: str = "") -> Figure:
    """Sensitivity of every word: the attained value, the certificate above it, random changes below."""
    table = table.sort_values("position")
    x = np.arange(len(table))
    with drawing(COLUMN if len(table) <= NARROW else PAGE, 2.6) as figure:
        axes = figure.subplots()
        axes.bar(x, table["value"], color=SKY, width=0.8, label="attained (S ≥)")
        marks = (("upper", VERMILION, "_", 6, "certified (S ≤)"), ("baseline", BLACK, ".", 3.5, "random change"))
        for column, color, marker, size, label in marks:
            if table[column].notna().any():
                axes.plot(x, table[column], color=color, ls="", marker=marker, markersize=size, label=label)
        axes.set(ylabel="word sensitivity S", xlim=(-0.7, len(table) - 0.3))
        axes.set_ylim(bottom=0)
        if len(table) <= NAMED_WORDS:
            axes.set_xticks(x, [plain(shortened(word)) for word in table["word"]], rotation=90)
        else:
            axes.set_xlabel("position of the changed word")
        axes.set_title(plain(title), loc="left", wrap=True)
        handles, labels = axes.get_legend_handles_labels()
        order = sorted(range(len(labels)), key=lambda k: labels[k])  # attained, certified, random
        figure.legend(
            [handles[k] for k in order],
            [labels[k] for k in order],
            loc="outside lower center",
            ncols=3,
            columnspacing=1.0,
        )
    return figure
