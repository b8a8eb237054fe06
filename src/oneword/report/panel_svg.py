"""A panel with logarithmic axes as SVG inside a page: no script, colours that follow light and dark."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from oneword.report.palette import role
from oneword.report.panels import Mark, Panel, span, ticks

WIDTH, HEIGHT = 420.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 54.0, 10.0, 10.0, 44.0
DASHES = {"solid": "", "dash": "6 3", "dot": "1 3"}


def _regular(corners: int) -> tuple[tuple[float, float], ...]:
    turns = [2 * math.pi * k / corners for k in range(corners)]
    return tuple((1.2 * math.sin(turn), -1.2 * math.cos(turn)) for turn in turns)


_PLUS = ((-0.4, -1.2), (0.4, -1.2), (0.4, -0.4), (1.2, -0.4), (1.2, 0.4), (0.4, 0.4), (0.4, 1.2), (-0.4, 1.2),
         (-0.4, 0.4), (-1.2, 0.4), (-1.2, -0.4), (-0.4, -0.4))  # fmt: skip
# Around a point, in units of the size of a mark, under plotly's names.
_SHAPES = {
    "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "diamond": ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    "triangle-up": ((0, -1.3), (1.2, 1), (-1.2, 1)),
    "triangle-down": ((0, 1.3), (1.2, -1), (-1.2, -1)),
    "pentagon": _regular(5),
    "hexagon": _regular(6),
    "cross": _PLUS,
    "x": tuple((0.7 * (a - b), 0.7 * (a + b)) for a, b in _PLUS),
}


@dataclass(frozen=True)
class Stroke:
    """One path; `role` is its class in the style sheet: "line", "dots" or "marks"."""

    role: str
    path: str
    color: str
    dash: str = ""


@dataclass(frozen=True)
class Key:
    """A line of the legend: its mark is drawn around (9, 6)."""

    label: str
    color: str
    path: str


@dataclass(frozen=True)
class Picture:
    """Everything in pixels; ticks are places along their axis and what stands there."""

    title: str
    x_label: str
    y_label: str
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]
    strokes: tuple[Stroke, ...]
    legend: tuple[Key, ...]


def picture(panel: Panel, y_span: tuple[float, float] | None = None) -> Picture:
    """The panel as paths; `y_span` is the axis that it shares with others."""
    across = span(panel.x, panel.marks, of_x=True)
    up = y_span or span(panel.y, panel.marks, of_x=False)
    x = _placed(across, LEFT, WIDTH - RIGHT)
    y = _placed(up, HEIGHT - BOTTOM, TOP)
    x_ticks, y_ticks = ticks(panel.x, *across), ticks(panel.y, *up)
    assert x_ticks is not None, "the x-axis is logarithmic"
    assert y_ticks is not None, "the y-axis is logarithmic"
    return Picture(
        title=panel.title,
        x_label=panel.x.label,
        y_label=panel.y.label,
        x_ticks=tuple((x(at), name) for at, name in zip(*x_ticks, strict=True)),
        y_ticks=tuple((y(at), name) for at, name in zip(*y_ticks, strict=True)),
        strokes=tuple(stroke for mark in panel.marks for stroke in _strokes(mark, x, y)),
        legend=tuple(Key(m.label, _color(m), shape(m.look.symbol, 9, 6, 4)) for m in panel.marks if m.label),
    )


def _placed(ends: tuple[float, float], first: float, last: float) -> Callable[[float], float]:
    low, high = (math.log(end) for end in ends)
    return lambda value: first + (last - first) * (math.log(value) - low) / (high - low)


def _strokes(mark: Mark, x: Callable[[float], float], y: Callable[[float], float]) -> list[Stroke]:
    places = [(x(a), y(b)) for a, b in zip(mark.x, mark.y, strict=True)]
    size = 2.4 if mark.form == "dots" else 4.0
    shapes = "".join(shape(mark.look.symbol, a, b, size) for a, b in places)
    if mark.form == "dots":
        return [Stroke("dots", shapes, _color(mark))]
    line = Stroke("line", "M" + "L".join(f"{a:.5g} {b:.5g}" for a, b in places), _color(mark), DASHES[mark.dash])
    return [line, Stroke("marks", shapes, _color(mark))] if mark.form == "points" else [line]


def shape(symbol: str, x: float, y: float, size: float) -> str:
    """The path of a mark around a place; a circle unless the symbol is another."""
    if symbol not in _SHAPES:
        return (
            f"M{x - size:.5g} {y:.5g}a{size:g} {size:g} 0 1 0 {2 * size:g} 0a{size:g} {size:g} 0 1 0 {-2 * size:g} 0z"
        )
    return "M" + "L".join(f"{x + size * a:.5g} {y + size * b:.5g}" for a, b in _SHAPES[symbol]) + "z"


def _color(mark: Mark) -> str:
    return f"var(--{role(mark.look.color)})"
