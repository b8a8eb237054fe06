"""Plots through matplotlib: PDF, SVG and PNG for papers, the same bytes from the same description."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from threading import RLock
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import NullFormatter, NullLocator

from oneword.checks import printable, shortened
from oneword.files import write_own
from oneword.plot.description import Axis, Heat, Mark, Panel, Plot, keys_of, shared, span, ticks
from oneword.plot.look import MARKS, PRINT

COLUMN, PAGE = 3.25, 6.75  # inches: the width of a column of a two-column paper, and of both
HEIGHT, LINE, LETTER = 2.1, 0.13, 0.058  # inches: of a panel, and of a line and a letter of its legend
NAMED = 60  # words: axes with more count instead
NARROW = 18  # words that have room in a column
LONGEST = 16  # letters of a name beside an axis
WRITTEN = 12  # columns of a heat map: cells of larger ones have no numbers
DARK_CELL = 0.71  # share of the largest value: white is easier to read on what is darker, black on the rest
BAR = 0.72  # width of a bar
DASHES: dict[str, Any] = {"solid": "-", "dash": (0, (5, 2)), "dot": (0, (1, 1.5))}

# Of matplotlib. Its own font goes into every file: into a PDF as TrueType, so that its text can be searched; into an
# SVG as outlines, for who opens an SVG may not have the font, and another one is wider or lacks ‖ and √.
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.8,
    "image.cmap": "Blues",
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "oneword",  # else the names inside an SVG differ from run to run
    "figure.dpi": 150,
    "savefig.dpi": 300,
}
# No dates and no versions inside the files.
METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None, "Creator": None, "Format": None, "Type": None},
    "png": {"Software": None},
}


_ALONE = RLock()  # matplotlib's settings are those of the process: one thread draws at a time


@contextmanager
def styled(style: dict[Any, Any] = STYLE) -> Iterator[None]:
    """What is drawn or saved inside the block has the style, whatever other threads draw."""
    with _ALONE, matplotlib.rc_context(style):
        yield


class Drawing(Figure):
    """A figure whose files have their fonts inside, also when `savefig` is called by someone else."""

    def savefig(self, fname: Any, **options: Any) -> None:
        with styled():
            super().savefig(fname, **options)


@contextmanager
def drawing(width: float, height: float, style: dict[Any, Any] = STYLE) -> Iterator[Drawing]:
    """A figure of that size in inches; what is drawn inside the block has the style."""
    with styled(style):
        yield Drawing(figsize=(width, height), layout="constrained")


def placed(figure: Figure) -> Figure:
    """The figure with its parts where they are, for all formats."""
    if isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine):
        with styled():
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
    return figure


def save(figure: Figure, folder: Path, name: str, formats: Iterable[str] = tuple(METADATA)) -> list[Path]:
    """Write a figure in these formats (PDF, SVG and PNG), each file whole or not at all; gives their paths."""
    paths = []
    placed(figure)
    for suffix in formats:
        content = io.BytesIO()
        figure.savefig(content, format=suffix, metadata=METADATA[suffix])
        paths.append(folder / f"{name}.{suffix}")
        write_own(paths[-1], content.getvalue())
    return paths


def draw(plot: Plot) -> Drawing:
    """A plot for print: a column wide for one panel, a page wide for more; at most three panels side by side."""
    count = len(plot.panels)
    columns = len(plot.widths) or {1: 1, 2: 2, 4: 2}.get(count, 3)
    rows = -(-count // columns)
    page = plot.page or columns > 1 or any(len(panel.x.names) > NARROW for panel in plot.panels)
    room = PAGE / columns if page else COLUMN
    together = plot.one_legend()
    lines = max(sum(len(_folded(mark.label, room).splitlines()) for mark in keys_of(panel)) for panel in plot.panels)
    height = (HEIGHT if math.isnan(plot.height) else plot.height) + max(
        _names_room(panel, room) for panel in plot.panels
    )
    height += 0 if together and page else LINE * lines
    with drawing(PAGE if page else COLUMN, rows * height) as figure:
        ratios = list(plot.widths) or None
        parts: list[SubFigure] = list(figure.subfigures(rows, columns, squeeze=False, width_ratios=ratios).ravel())[
            :count
        ]
        common = shared(plot)
        for part, panel, title in zip(parts, plot.panels, _titles(plot, room), strict=True):
            axes = part.subplots()
            axes.set_title(plain(title), loc="left")
            draw_panel(axes, panel, common, room=room)
        if together:
            _legend(figure, parts[0], plot.panels[0], PAGE if page else COLUMN)
        else:
            for part, panel in zip(parts, plot.panels, strict=True):
                _legend(part, part, panel, room, lines)
    placed(figure)
    return figure


def draw_panel(
    axes: Axes,
    panel: Panel,
    y_span: tuple[float, float] | None,
    colours: Mapping[str, str] = PRINT,
    room: float = COLUMN,
) -> None:
    """One panel without its title: marks, scales and names; `room` is its width in inches."""
    axes.set_xlabel(formula(panel.x.label))
    axes.set_ylabel(formula(panel.y.label))
    if panel.heat is not None:
        _draw_heat(axes, panel.heat)
        return
    for mark in panel.marks:
        _draw_mark(axes, mark, colours)
    x_span = span(panel.x, panel.marks, of_x=True)
    _scale(axes, panel.x, x_span, "x")
    _scale(axes, panel.y, y_span or span(panel.y, panel.marks, of_x=False), "y")
    if turned(panel.x, room):
        steep = room / len(panel.x.names) < 1.3 * LINE
        for name in axes.get_xticklabels():
            name.set(
                rotation=90 if steep else 50,
                ha="center" if steep else "right",
                rotation_mode="default" if steep else "anchor",
            )


def _draw_mark(axes: Axes, mark: Mark, colours: Mapping[str, str]) -> None:
    colour, label, size = (
        colours[mark.look.colour],
        formula(mark.label) or None,
        matplotlib.rcParams["lines.markersize"],
    )
    marker = MARKS.get(mark.look.mark, "")
    if mark.whiskers:
        middle = np.array(mark.x if mark.horizontal else mark.y)
        away = np.abs(np.array([mark.low, mark.high]) - middle)
        away = {"xerr" if mark.horizontal else "yerr": np.where(np.isnan(away), 0, away)}
        width = matplotlib.rcParams["lines.linewidth"] * 1.2
        capsize = 0.6 * size if mark.form == "bars" else 0
        axes.errorbar(mark.x, mark.y, **away, fmt="none", ecolor=colour, alpha=0.6, elinewidth=width, capsize=capsize)
    if mark.form == "band":
        axes.fill_between(mark.x, mark.y, mark.top, color=colour, alpha=0.18, lw=0, label=label)
    elif mark.form == "bars":
        bars = axes.barh if mark.horizontal else axes.bar
        where, value = (mark.y, mark.x) if mark.horizontal else (mark.x, mark.y)
        bars(where, value, BAR * _apart(where), color=colour, label=label)
    elif mark.form == "levels":
        half = BAR / 2
        starts, ends = [x - half for x in mark.x], [x + half for x in mark.x]
        width = 1.5 * matplotlib.rcParams["lines.linewidth"]
        axes.hlines(mark.y, starts, ends, colour, DASHES[mark.dash], label=label or "_", lw=width)
    elif mark.form == "dots":
        labelled, dash = bool(mark.label), marker == "_"
        axes.plot(
            mark.x, mark.y, ls="", marker=marker, ms=size * (1.3 if dash else 0.92 if labelled else 0.53), mec=colour,
            mew=0.26 * size if dash else 0.4, mfc=colour if labelled else "none", label=label,
            alpha=1 if dash else 0.75 if labelled else 0.6,
        )  # fmt: skip
    else:
        marked = mark.form == "points"
        axes.plot(
            mark.x, mark.y, color=colour, ls=DASHES[mark.dash], marker=marker if marked else "", label=label,
            mec=colours["paper"] if marked and marker not in ("_", ".") else colour,
            mew=(0.3 if marker == "_" else 0.1) * size,
        )  # fmt: skip


def _apart(places: Sequence[float]) -> float:
    """The distance of bars: 1, or less where those of two series share a place."""
    return 0.5 if any(place % 1 for place in places) else 1.0


def _scale(axes: Axes, axis: Axis, limits: tuple[float, float], which: str) -> None:
    line = axes.xaxis if which == "x" else axes.yaxis
    (axes.set_xscale if which == "x" else axes.set_yscale)("log" if axis.log else "linear")
    (axes.set_xlim if which == "x" else axes.set_ylim)(*(limits[::-1] if axis.reverse else limits))
    labelled = ticks(axis, *limits)
    if len(axis.names) > NAMED:
        labelled = (), ()
    if labelled is not None:
        line.set_ticks(labelled[0], [plain(shortened(name, LONGEST) if axis.names else name) for name in labelled[1]])
        line.set_minor_locator(NullLocator())
        line.set_minor_formatter(NullFormatter())


def _draw_heat(axes: Axes, heat: Heat) -> None:
    """Shades from 0 to the end of the scale, names where there is room for them, numbers where they can be read."""
    weights = np.array(heat.weights, dtype=float)
    image = axes.imshow(weights, vmin=0, vmax=heat.end, aspect="auto" if heat.rows else "equal")
    for axis, names in ((axes.xaxis, heat.tokens), (axes.yaxis, heat.row_names)):
        if len(names) <= NAMED:
            axis.set_ticks(range(len(names)), [plain(shortened(name, LONGEST)) for name in names])
            axis.set_tick_params(labelsize=7 if len(names) <= 24 else 5)
    if len(heat.tokens) <= NAMED and not all(name.isdigit() for name in heat.tokens):
        axes.tick_params(axis="x", rotation=90)
    axes.spines[:].set_visible(False)
    if weights.shape[1] <= WRITTEN:
        for (i, j), x in np.ndenumerate(weights):
            if not np.isnan(x):
                ink = "white" if x > DARK_CELL * heat.end else "black"
                axes.text(j, i, f"{x:.2f}".removeprefix("0"), ha="center", va="center", fontsize=6, color=ink)
    if heat.label:
        axes.figure.colorbar(image, ax=axes, label=heat.label, shrink=1.0 if heat.rows else 0.8)


def turned(axis: Axis, room: float) -> bool:
    """Whether names would touch each other beside each other in so many inches."""
    if not axis.names or len(axis.names) > NAMED:
        return False
    widest = max(len(line) for name in axis.names for line in shortened(name, LONGEST).splitlines())
    return widest * len(axis.names) * LETTER > 0.85 * room


def _names_room(panel: Panel, room: float) -> float:
    """Inches that turned names need below a panel."""
    return LETTER * max(len(shortened(name, LONGEST)) for name in panel.x.names) if turned(panel.x, room) else 0.0


def _titles(plot: Plot, room: float) -> list[str]:
    """Titles in lines that have room; as many lines above every panel of a row, so that axes stand side by side."""
    width = round((room - 0.15) / LETTER)
    titles = ["\n".join(fill(line, width) for line in panel.title.splitlines()) for panel in plot.panels]
    most = max(title.count("\n") for title in titles)
    return ["\n" * (most - title.count("\n")) + title for title in titles]


def _legend(where: Figure | SubFigure, of: SubFigure, panel: Panel, room: float, lines: int = 0) -> None:
    """Under a part; `lines` is how many it has at least, so that axes beside each other end at one height."""
    by_label = {label: handle for handle, label in zip(*of.axes[0].get_legend_handles_labels(), strict=True)}
    labels = [formula(mark.label) for mark in keys_of(panel)]
    handles: list[Any] = [by_label[label] for label in labels]
    if not labels:
        return
    lengths = [len(mark.label) for mark in keys_of(panel)]
    columns = 1 if max(lengths) > 14 else 2
    if room == PAGE:
        columns = next(count for count in (5, 4, 3, 2, 1) if _legend_width(lengths, count) <= PAGE or count == 1)
    if room < PAGE:
        labels = [_folded(label, room) for label in labels]
        missing = lines - sum(len(label.splitlines()) for label in labels) if columns == 1 else 0
        handles, labels = [*handles, *[Line2D([], [], ls="")] * missing], [*labels, *[" "] * missing]
    where.legend(handles, labels, loc="outside lower center", ncols=columns)


def _legend_width(lengths: Sequence[int], columns: int) -> float:
    """Inches of a legend in so many columns, from the letters of its labels."""
    return sum(0.45 + LETTER * max(each) for each in np.array_split(lengths, columns) if len(each))


def _folded(label: str, room: float) -> str:
    """A label of the legend in lines that have room in so many inches, its mark beside it; the slope stays in one."""
    width = round((room - 0.45) / LETTER)
    if len(label) <= width:
        return label
    *before, last = label.split(": ")
    return "\n".join(fill(part, width) for part in (*(each + ":" for each in before), last))


def plain(text: object) -> str:
    """A text as text: matplotlib would read $…$ as a formula."""
    return printable(str(text), keep="\n").replace("$", r"\$")


NOTATION = re.compile(r"\bS(?:_([A-Za-z-]+)|\^(\([a-z]\)))")  # S_RF is S with RF below it, S^(m) with (m) above


def formula(label: str) -> str:
    """A label of ours in matplotlib's notation for formulas."""
    return NOTATION.sub(lambda m: rf"$S_{{\text{{{m[1]}}}}}$" if m[1] else f"$S^{{{m[2]}}}$", plain(label))
