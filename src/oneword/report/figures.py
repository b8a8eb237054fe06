"""Figures, in matplotlib: drawn for print, readable without colour."""

from __future__ import annotations

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from oneword.report.style import BLACK, SKY, STYLE, VERMILION, plain

NAMED_WORDS = 60  # above this many, the axis counts positions instead of naming words


def per_word(table: pd.DataFrame, title: str = "") -> Figure:
    """Sensitivity of every word: the attained value, the certificate above it, random changes below."""
    table = table.sort_values("position")
    x = np.arange(len(table))
    named = len(table) <= NAMED_WORDS
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(min(10, max(3.6, 0.13 * len(table) + 2)), 3.0), layout="constrained")
        axes = figure.subplots()
        axes.bar(x, table["value"], color=SKY, width=0.8, label="attained (S ≥)")
        marks = (("upper", VERMILION, "_", 7, "certified (S ≤)"), ("baseline", BLACK, ".", 4, "random change"))
        for column, color, marker, size, label in marks:
            if table[column].notna().any():
                axes.plot(x, table[column], color=color, ls="", marker=marker, markersize=size, label=label)
        axes.set_ylabel("word sensitivity")
        axes.set_ylim(bottom=0)
        axes.set_xlim(-0.7, len(table) - 0.3)
        if named:
            axes.set_xticks(x, [plain(word) for word in table["word"]], rotation=90)
        else:
            axes.set_xlabel("position of the changed word")
        axes.set_title(title, loc="left", fontsize=9)
        handles, labels = axes.get_legend_handles_labels()
        order = sorted(range(len(labels)), key=lambda k: labels[k])  # attained, certified, random
        figure.legend(
            [handles[k] for k in order],
            [labels[k] for k in order],
            loc="outside lower center",
            ncols=3,
            frameon=False,
            fontsize=8,
        )
    return figure
