"""The plates as figures for a paper: PDF, SVG and PNG, the same bytes from the same table."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter, NullLocator

from oneword.errors import FileFormatError
from oneword.report.drawing import Drawing, drawing, placed
from oneword.report.heat import draw_heat
from oneword.report.panels import Axis, Mark, Panel, Plate, shared, span, ticks
from oneword.report.paper.plates import plates
from oneword.report.saving import save_figure
from oneword.report.style import COLUMN, PAGE, formula, plain

HEIGHT, LINE, LETTER = 2.1, 0.13, 0.058  # inches: of a panel, and of a line and a letter of its legend
DASHES: dict[str, Any] = {"solid": "-", "dash": (0, (5, 2)), "dot": (0, (1, 1.5))}


def draw_all(table: pd.DataFrame, out: Path, fits: pd.DataFrame | None = None) -> list[Path]:
    """Draw every figure whose rows are there into `out`; `fits` adds slopes (see `experiments.rows.fits`)."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileFormatError(f"expected a folder that can be made, got {out} ({error.strerror})") from None
    files = []
    for plate in plates(table, fits):
        if plate.panels:
            files += save_figure(draw(plate), out, plate.id)
    return files


def draw(plate: Plate) -> Drawing:
    """One plate: a column wide for one panel, a page wide for more; never more than three panels side by side."""
    count = len(plate.panels)
    columns = {1: 1, 2: 2, 4: 2}.get(count, 3)
    rows = -(-count // columns)
    keys = [[(mark.label, mark.look) for mark in panel.marks if mark.label] for panel in plate.panels]
    together = all(key == keys[0] for key in keys)  # one legend for all panels that say the same
    room = COLUMN if columns == 1 else PAGE / columns
    lines = max(sum(len(_folded(label, room).splitlines()) for label, _ in key) for key in keys)
    height = HEIGHT + (0 if together and count > 1 else LINE * lines)
    with drawing(COLUMN if columns == 1 else PAGE, rows * height) as figure:
        parts: list[SubFigure] = list(figure.subfigures(rows, columns, squeeze=False).ravel())[:count]
        common = shared(plate)
        for part, panel in zip(parts, plate.panels, strict=True):
            _draw(part.subplots(), panel, common)
        if together:
            _legend(figure, parts[0], COLUMN if columns == 1 else PAGE)
        else:
            for part in parts:
                _legend(part, part, room, lines)
    placed(figure)
    return figure


def _draw(axes: Axes, panel: Panel, y_span: tuple[float, float] | None) -> None:
    axes.set_title(plain(panel.title), loc="left")
    axes.set_xlabel(formula(panel.x.label))
    axes.set_ylabel(formula(panel.y.label))
    if panel.heat is not None:
        weights = np.array(panel.heat.weights)
        draw_heat(axes, weights, panel.heat.tokens, panel.heat.tokens, float(weights.max()))
        return
    for mark in panel.marks:
        _add(axes, mark)
    _scale(axes, panel.x, span(panel.x, panel.marks, of_x=True), "x")
    _scale(axes, panel.y, y_span or span(panel.y, panel.marks, of_x=False), "y")


def _add(axes: Axes, mark: Mark) -> None:
    color, label = mark.look.color, formula(mark.label) or None
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
            mark.x, mark.y, color=color, ls=DASHES[mark.dash], marker=mark.look.marker if marked else "",
            mec="white" if marked and mark.look.marker not in ("x", "_", ".") else color, mew=0.4, label=label,
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


def _legend(where: Figure | SubFigure, of: SubFigure, room: float, lines: int = 0) -> None:
    """Under a part; `lines` is how many it has at least, so that axes beside each other end at one height."""
    handles, labels = of.axes[0].get_legend_handles_labels()
    if not labels:
        return
    columns = min(5, len(labels)) if room == PAGE else 1 if max(map(len, labels)) > 14 else 2
    if room < PAGE:
        labels = [_folded(label, room) for label in labels]
        missing = lines - sum(len(label.splitlines()) for label in labels) if columns == 1 else 0
        handles, labels = [*handles, *[Line2D([], [], ls="")] * missing], [*labels, *[" "] * missing]
    where.legend(handles, labels, loc="outside lower center", ncols=columns)


def _folded(label: str, room: float) -> str:
    """A label of the legend in lines that have room in so many inches, its mark beside it; the slope stays in one."""
    width = round((room - 0.45) / LETTER)
    if len(label) <= width:
        return label
    *before, last = label.split(": ")
    return "\n".join(fill(part, width) for part in (*(each + ":" for each in before), last))
