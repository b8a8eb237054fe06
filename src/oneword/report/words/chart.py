"""Bars of every word as SVG: S over the ball with its certificate, S over real words with their mean.

The two have axes of their own: the best real word often does a tenth of what the worst vector does. A path holds all
marks of a kind, so that a chart of 250 words stays small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

HEIGHT, GAP, LEFT, TOP = 120, 36, 44, 22
NAMED = 60  # words: above this many, bars have no names
LONGEST = 14  # letters of a name that are shown

Line = Mapping[str, Any]


@dataclass(frozen=True)
class Mark:
    """All marks of one kind as one path; `role` is its class in the style sheet."""

    role: str
    path: str


@dataclass(frozen=True)
class Panel:
    """One axis with its marks; `ticks` are heights and the numbers that stand there."""

    title: str
    marks: tuple[Mark, ...]
    ticks: tuple[tuple[float, str], ...]


@dataclass(frozen=True)
class Chart:
    """Sizes in pixels, panels from top to bottom, names with their places."""

    width: float
    height: float
    panels: tuple[Panel, ...]
    names: tuple[tuple[float, float, str], ...]


def chart(words: Sequence[str], lines: Sequence[Line | None]) -> Chart:
    """One map: a bar a word, None where the map did not measure it."""
    step = min(72.0, max(24.0, 840 / len(words))) if len(words) <= NAMED else 3.8
    panels, top = [], TOP
    wanted: list[tuple[str, str, str, str | None]] = [
        ("S_ball", "over the ball: searched, certified, random Δ", "random_ball", "upper")
    ]
    if any(line is not None and not math.isnan(line["S_word"]) for line in lines):
        wanted.insert(0, ("S_word", "real words: the best, and their mean", "random_word", None))
    for column, title, random, upper in wanted:
        panels.append(_panel(title, lines, column, random, upper, step, top))
        top += HEIGHT + GAP
    bottom = top - GAP
    labelled = len(words) <= NAMED
    short = [word if len(word) <= LONGEST else word[: LONGEST - 1] + "…" for word in words]
    names = [(LEFT + (k + 0.5) * step, bottom + 12.0, word) for k, word in enumerate(short)]
    below = 16 + 6 * max(map(len, short)) if labelled else 8  # names are turned by 50°
    return Chart(
        width=LEFT + step * len(words) + 12,
        height=bottom + below,
        panels=tuple(panels),
        names=tuple(names) if labelled else (),
    )


def _panel(
    title: str, lines: Sequence[Line | None], column: str, random: str, upper: str | None, step: float, top: float
) -> Panel:
    columns = [name for name in (column, random, upper) if name]
    known = [line[name] for line in lines if line for name in columns if not math.isnan(line[name])]
    highest = _round_up(max(known, default=1.0))
    wide, base = 0.72 * step, top + HEIGHT

    def places(name: str) -> Iterator[tuple[float, float]]:
        for k, line in enumerate(lines):
            if line and not math.isnan(line[name]):
                yield LEFT + (k + 0.5) * step, base - HEIGHT * line[name] / highest

    def joined(name: str, mark: Callable[[float, float], str]) -> str:
        return "".join(mark(x, y) for x, y in places(name))

    def bar(x: float, y: float) -> str:
        return f"M{x - wide / 2:.4g} {base:g}V{y:.4g}h{wide:.3g}V{base:g}z"

    def tick(x: float, y: float) -> str:
        return f"M{x - wide / 2:.4g} {y:.4g}h{wide:.3g}"

    marks = [Mark(column, joined(column, bar))]
    if upper:
        tops = dict(places(column))
        cap = wide / 3
        whiskers = "".join(
            f"M{x:.4g} {tops[x]:.4g}V{y:.4g}m{-cap / 2:.3g} 0h{cap:.3g}" for x, y in places(upper) if x in tops
        )
        marks.append(Mark("upper", whiskers))
    marks.append(Mark("random", joined(random, tick)))
    ticks = tuple((base - HEIGHT * share, f"{share * highest:.3g}") for share in (0.0, 0.5, 1.0))
    return Panel(title, tuple(marks), ticks)


def _round_up(x: float) -> float:
    """The next of 1, 2, 4, 5, 8, 10 times a power of ten: halves are short numbers, too."""
    if not x > 0 or not math.isfinite(x):
        return 1.0
    power = 10.0 ** math.floor(math.log10(x))
    return next(nice * power for nice in (1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10) if x <= nice * power * (1 + 1e-9))
