"""The plates as figures for a paper: PDF, SVG and PNG, the same bytes from the same table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import NullFormatter, NullLocator

from oneword.errors import FileFormatError
from oneword.report.panels import Axis, Mark, Panel, Plate, shared, span, ticks
from oneword.report.paper.plates import plates
from oneword.report.saving import save_figure
from oneword.report.style import STYLE, plain

COLUMN, PAGE = 3.4, 7.0  # inches: one column of a two-column page, and both
HEIGHT, LINE = 2.1, 0.13  # of a panel, and of a line of its legend
DASHES: dict[str, Any] = {"solid": "-", "dash": (0, (5, 2)), "dot": (0, (1, 1.5))}


def draw_all(table: pd.DataFrame, out: Path, fits: pd.DataFrame | None = None) -> list[Path]:
    """Draw every figure whose rows are there into the folder `out`; `fits` adds slopes (see `experiments.fit.fits`)."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileFormatError(f"expected a folder that can be made, got {out} ({error.strerror})") from None
    files = []
    for plate in plates(table, fits):
        if plate.panels:
            files += save_figure(draw(plate), out, plate.id)
    return files


def draw(plate: Plate) -> Figure:
    """One plate: a column wide for one panel, a page wide for more; never more than three panels side by side."""
    count = len(plate.panels)
    columns = {1: 1, 2: 2, 4: 2}.get(count, 3)
    rows = -(-count // columns)
    with matplotlib.rc_context({**STYLE, "font.size": 8, "axes.titlesize": 8, "legend.fontsize": 7}):
        keys = [[(mark.label, mark.look) for mark in panel.marks if mark.label] for panel in plate.panels]
        together = all(key == keys[0] for key in keys)  # one legend for all panels that say the same
        height = HEIGHT + (0 if together and count > 1 else LINE * max(map(len, keys)))
        figure = Figure(figsize=(COLUMN if columns == 1 else PAGE, rows * height), layout="constrained")
        parts: list[SubFigure] = list(figure.subfigures(rows, columns, squeeze=False).ravel())[:count]
        common = shared(plate)
        for part, panel in zip(parts, plate.panels, strict=True):
            _draw(part.subplots(), panel, common)
        if together:
            _legend(figure, parts[0])
        else:
            for part in parts:
                _legend(part, part)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # placed once, for all formats
    return figure


def _draw(axes: Axes, panel: Panel, y_span: tuple[float, float] | None) -> None:
    axes.set_title(plain(panel.title), loc="left")
    axes.set_xlabel(plain(panel.x.label))
    axes.set_ylabel(plain(panel.y.label))
    if panel.heat is not None:
        tokens = [plain(token) for token in panel.heat.tokens]
        axes.imshow(panel.heat.weights, cmap="Blues", vmin=0)
        axes.set_xticks(range(len(tokens)), tokens, rotation=60, ha="right", rotation_mode="anchor")
        axes.set_yticks(range(len(tokens)), tokens)
        axes.spines[:].set_visible(False)
        return
    for mark in panel.marks:
        _add(axes, mark)
    _scale(axes, panel.x, span(panel.x, panel.marks, of_x=True), "x")
    _scale(axes, panel.y, y_span or span(panel.y, panel.marks, of_x=False), "y")


def _add(axes: Axes, mark: Mark) -> None:
    color, label = mark.look.color, plain(mark.label) or None
    if mark.form == "band":
        axes.fill_between(mark.x, mark.y, mark.top, color=color, alpha=0.18, lw=0, label=label)
    elif mark.form == "dots":
        labelled = bool(mark.label)
        axes.plot(
            mark.x, mark.y, ls="", marker=mark.look.marker, ms=3.5 if labelled else 2, mec=color, mew=0.4,
            mfc=color if labelled else "none", alpha=0.75 if labelled else 0.6, label=label,
        )  # fmt: skip
    else:
        marked = mark.form == "points"
        axes.plot(
            mark.x, mark.y, color=color, lw=1.1, ls=DASHES[mark.dash], marker=mark.look.marker if marked else "",
            ms=4, mec="white" if marked and mark.look.marker not in ("x", "_", ".") else color, mew=0.4, label=label,
        )  # fmt: skip


def _scale(axes: Axes, axis: Axis, limits: tuple[float, float], which: str) -> None:
    line = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log" if axis.log else "linear")
    (axes.set_xlim if which == "x" else axes.set_ylim)(*limits)
    labelled = ticks(axis, *limits)
    if labelled is not None:
        line.set_ticks(labelled[0], [plain(name) for name in labelled[1]])
        line.set_minor_locator(NullLocator())
        line.set_minor_formatter(NullFormatter())


def _legend(where: Figure | SubFigure, of: SubFigure) -> None:
    handles, labels = of.axes[0].get_legend_handles_labels()
    if not labels:
        return
    wide = isinstance(where, Figure) and where.get_figwidth() > COLUMN
    columns = min(5, len(labels)) if wide else 1 if max(map(len, labels)) > 14 else 2
    where.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False, handlelength=1.8)
