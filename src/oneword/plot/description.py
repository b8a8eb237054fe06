"""What is drawn, apart from how: a plot is one or more panels, a panel holds marks in the units of the data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from oneword.plot.look import Look

Numbers = tuple[float, ...]
MOST_TICKS = 7


@dataclass(frozen=True)
class Mark:
    """Numbers that are drawn alike.

    | field | meaning |
    |---|---|
    | `form` | dots; line; points: a line with marks; band: between `y` and `top`; bars: from 0; levels: short lines across bars |
    | `look` | colour and mark; marks of one look in a panel are one series |
    | `label` | its entry in the legend; without one it is not there |
    | `low`, `high` | an interval around each value: `interval` says which; drawn if `whiskers` |
    | `horizontal` | values go along x: bars and whiskers are level |
    """  # noqa: E501

    form: Literal["dots", "line", "points", "band", "bars", "levels"]
    x: Numbers
    y: Numbers
    look: Look
    label: str = ""
    top: Numbers = ()
    dash: Literal["solid", "dash", "dot"] = "solid"
    low: Numbers = ()
    high: Numbers = ()
    interval: str = ""
    whiskers: bool = False
    horizontal: bool = False

    def extent(self, *, of_x: bool) -> Numbers:
        """Every number that an axis has to show."""
        own = self.x if of_x else self.y
        valued = of_x == self.horizontal
        zero = (0.0,) if valued and self.form == "bars" else ()
        return (
            *own,
            *(self.top if not of_x else ()),
            *zero,
            *((*self.low, *self.high) if valued and self.whiskers else ()),
        )


@dataclass(frozen=True)
class Heat:
    """Values of each row at each column; rows have the names of the columns (`tokens`) unless they have their own.

    The scale of colours goes from 0 to `most`, by default the largest value; with a `label` it is drawn.
    """

    tokens: tuple[str, ...]
    weights: tuple[Numbers, ...]
    rows: tuple[str, ...] = ()
    label: str = ""
    most: float = math.nan

    @property
    def row_names(self) -> tuple[str, ...]:
        return self.rows or self.tokens

    @property
    def end(self) -> float:
        """The end of the scale of colours."""
        values = [x for row in self.weights for x in row if not math.isnan(x)]
        return (max(values, default=0.0) or 1.0) if math.isnan(self.most) else self.most


@dataclass(frozen=True)
class Axis:
    """Where an axis is labelled (`at`), and with what.

    `names` put words in the place of numbers, at 0, 1, 2, … or where `at` says; `low` and `high` widen what the marks
    need; `reverse` puts the first at the top.
    """

    label: str
    log: bool = False
    at: Numbers = ()
    names: tuple[str, ...] = ()
    low: float = math.nan
    high: float = math.nan
    reverse: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str
    x: Axis
    y: Axis
    marks: tuple[Mark, ...] = ()
    heat: Heat | None = None

    def series(self) -> list[str]:
        """For each mark the label under which a legend finds it: its own, or that of the first mark of its look."""
        named: dict[Look, str] = {}
        for mark in self.marks:
            if mark.label:
                named.setdefault(mark.look, mark.label)
        return [mark.label or named.get(mark.look, "") for mark in self.marks]


@dataclass(frozen=True)
class Plot:
    """A figure; without panels, `missing` says which rows it would be made of.

    Panels stand side by side in rows of at most three; those of a `stacked` plot stand below each other and share their
    x-axis. `widths` are relative; `height` is that of a panel in inches, in print, where one
    panel is as wide as a column, or, with `page`, as both.
    """

    id: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    missing: str = ""
    share_y: bool = False
    stacked: bool = False
    widths: Numbers = ()
    height: float = math.nan
    page: bool = False

    def one_legend(self) -> bool:
        """Whether one legend is enough for all panels."""
        keys = [[(m.label, m.look, m.dash, m.form) for m in keys_of(panel)] for panel in self.panels]
        return all(key == keys[0] for key in keys)


def keys_of(panel: Panel) -> list[Mark]:
    """The marks that the legend names."""
    return [mark for mark in panel.marks if mark.label]


def numbers(values: Iterable[float]) -> Numbers:
    """Plain numbers with the digits that a picture can show."""
    return tuple(float(f"{value:.6g}") for value in values)


def span(axis: Axis, marks: Sequence[Mark], *, of_x: bool) -> tuple[float, float]:
    """What the axis must show, with a little room around it."""
    values = np.concatenate([mark.extent(of_x=of_x) for mark in marks] or [()])
    values = np.append(values, [axis.low, axis.high]).astype(float)
    values = values[np.isfinite(values) & ((values > 0) | (not axis.log))]
    if axis.names and not axis.at:
        return -0.5, len(axis.names) - 0.5
    if not len(values):
        return (0.1, 10.0) if axis.log else (0.0, 1.0)
    low, high = float(values.min()), float(values.max())
    if axis.log:
        room = max(0.04 * math.log(high / low), 0.05)
        return low * math.exp(-room), high * math.exp(room)
    room = 0.04 * (high - low) or 0.5
    return (low if axis.low == low else low - room), (high if axis.high == high else high + room)


def shared(plot: Plot) -> tuple[float, float] | None:
    """The y-axis that all panels have in common, if they have one."""
    if not plot.share_y or not plot.panels:
        return None
    spans = [span(panel.y, panel.marks, of_x=False) for panel in plot.panels]
    return min(low for low, _ in spans), max(high for _, high in spans)


def ticks(axis: Axis, low: float, high: float) -> tuple[Numbers, tuple[str, ...]] | None:
    """Where the axis is labelled, and with what; None leaves it to the library (a linear axis)."""
    if axis.names:
        return axis.at or numbers(range(len(axis.names))), axis.names
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
