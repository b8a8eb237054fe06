"""What is drawn, apart from how: a plate is a figure, its panels hold marks in the units of the data.

`plates` makes them from a table of results; the page draws them with plotly, `paper_figures` with matplotlib.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from oneword.report.style import Look

Numbers = tuple[float, ...]
MOST_TICKS = 7


@dataclass(frozen=True)
class Mark:
    """Dots, a line, a line with marks, or a band between `y` and `top`; without a label it is not in the legend."""

    form: str  # "dots" | "line" | "points" (a line with marks) | "band"
    x: Numbers
    y: Numbers
    look: Look
    label: str = ""
    top: Numbers = ()
    dash: str = "solid"  # "solid" | "dash" | "dot"


@dataclass(frozen=True)
class Heat:
    """Weights from each token (row) to each token (column)."""

    tokens: tuple[str, ...]
    weights: tuple[Numbers, ...]


@dataclass(frozen=True)
class Axis:
    """`names` put words in the place of numbers, at 0, 1, 2, …; `low` and `high` widen what the marks need."""

    label: str
    log: bool = False
    at: Numbers = ()
    names: tuple[str, ...] = ()
    low: float = math.nan
    high: float = math.nan


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x: Axis
    y: Axis
    marks: tuple[Mark, ...] = ()
    heat: Heat | None = None


@dataclass(frozen=True)
class Plate:
    """A figure; without panels, `missing` says which rows it would be made of."""

    id: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    missing: str = ""
    share_y: bool = False


def numbers(values: Iterable[float]) -> Numbers:
    """Plain numbers with the digits that a picture can show."""
    return tuple(float(f"{value:.6g}") for value in values)


def span(axis: Axis, marks: Sequence[Mark], *, of_x: bool) -> tuple[float, float]:
    """What the axis must show, with a little room around it."""
    values = np.concatenate([m.x if of_x else (*m.y, *m.top) for m in marks] or [()])
    values = np.append(values, [axis.low, axis.high]).astype(float)
    values = values[np.isfinite(values) & ((values > 0) | (not axis.log))]
    if axis.names:
        return -0.5, len(axis.names) - 0.5
    if not len(values):
        return (0.1, 10.0) if axis.log else (0.0, 1.0)
    low, high = float(values.min()), float(values.max())
    if axis.log:
        room = max(0.04 * math.log(high / low), 0.05)
        return low * math.exp(-room), high * math.exp(room)
    room = 0.04 * (high - low) or 0.5
    return (low if axis.low == low else low - room), (high if axis.high == high else high + room)


def shared(plate: Plate) -> tuple[float, float] | None:
    """The y-axis that all panels have in common, if they have one."""
    if not plate.share_y or not plate.panels:
        return None
    spans = [span(panel.y, panel.marks, of_x=False) for panel in plate.panels]
    return min(low for low, _ in spans), max(high for _, high in spans)


def ticks(axis: Axis, low: float, high: float) -> tuple[Numbers, tuple[str, ...]] | None:
    """Where the axis is labelled, and with what; None leaves it to the library (a linear axis)."""
    if axis.names:
        return numbers(range(len(axis.names))), axis.names
    if not axis.log:
        return None
    at = _apart([value for value in axis.at if low <= value <= high], low, high)
    if not at or len(axis.at) > MOST_TICKS:
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        grids = [
            [step * 10.0**decade for decade in decades for step in steps if low <= step * 10.0**decade <= high]
            for steps in _STEPS
        ]
        at = next((grid for grid in grids if _apart(grid, low, high) == grid), grids[-1])
    return numbers(at), tuple(f"{value:g}" for value in numbers(at))


# Of a logarithmic axis, fine to coarse.
_STEPS = (
    (1, 1.2, 1.4, 1.6, 1.8, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9),
    (1, 1.5, 2, 3, 4, 5, 7),
    (1, 1.5, 2, 3, 5, 7),
    (1, 2, 5),
    (1, 3),
    (1,),
)


def _apart(values: Sequence[float], low: float, high: float) -> list[float]:
    """The values far enough from each other for their labels not to touch; the last one stays."""
    kept: list[float] = []
    for value in reversed(values):
        if not kept or math.log(kept[-1] / value) > 0.115 * math.log(high / low):
            kept.append(value)
    return kept[::-1]
