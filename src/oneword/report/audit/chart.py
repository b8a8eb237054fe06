"""Charts of an audit as SVG: AUC with intervals, the change against length, the share of texts that hear a signal.

Models and signals are told apart by colour and by mark; colours are classes of the style sheet (h0, h1 …), so that they
follow light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from oneword.report.audit.tables import SAID, models_of, of_model
from oneword.report.palette import SERIES
from oneword.report.panel_svg import shape

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 340.0, 220.0, 46.0, 12.0, 14.0, 34.0
SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down")
_ROW, _NAMES = 18.0, 88.0  # of the chart of AUCs: height of a line, room for the names of types


@dataclass(frozen=True)
class Label:
    """A text of a chart; `role` is its class."""

    x: float
    y: float
    text: str
    role: str


@dataclass(frozen=True)
class Chart:
    """Sizes, paths with their classes, texts; `about` says it in words."""

    width: float
    height: float
    paths: tuple[tuple[str, str], ...]
    labels: tuple[Label, ...]
    about: str


def aucs(types: pd.DataFrame) -> Chart:
    """Signals down, a line a model: dot and interval; the line at 0.5 is what chance gives."""
    signals, models = types[(types["kind"] == "signal") & types["auc"].notna()], models_of(types)
    names = list(dict.fromkeys(signals["type"]))
    block = _ROW * len(models) + 10
    height = TOP + block * len(names) + BOTTOM
    width = 420.0

    def x(value: float) -> float:
        return _NAMES + (width - _NAMES - RIGHT) * value

    base = height - BOTTOM
    paths = [("rule", f"M{x(t):.1f} {TOP}V{base:.1f}") for t in (0, 0.25, 0.75, 1)]
    paths.append(("chance", f"M{x(0.5):.1f} {TOP}V{base:.1f}"))
    labels = [Label(x(t), base + 16, f"{t:g}", "middle") for t in (0, 0.25, 0.5, 0.75, 1)]
    labels.append(Label(x(0.5), base + 31, "AUC; 0.5: no difference from noise", "middle"))
    for row, name in enumerate(names):
        top = TOP + row * block
        labels.append(
            Label(_NAMES - 10, top + block / 2 + 4, SAID.get(name, name) if len(name) < 14 else name[:13] + "…", "end")
        )
        for k, model in enumerate(models):
            y = top + 5 + _ROW * (k + 0.5)
            for line in of_model(signals[signals["type"] == name], model).to_dict("records"):
                if not math.isnan(line["auc_low"]):
                    paths.append((f"whisker {hue(k)}", f"M{x(line['auc_low']):.1f} {y:.1f}H{x(line['auc_high']):.1f}"))
                paths.append((f"marks {hue(k)}", mark(k, x(line["auc"]), y)))
    return Chart(width, height, tuple(paths), tuple(labels), "AUC of each signal against the noise, with intervals")


def changes(lengths: pd.DataFrame, edits: pd.DataFrame, model: str) -> Chart | None:
    """One model: the noise as a band from quartile to quartile, signals as lines, both axes logarithmic."""
    some = of_model(lengths, model)
    some = some[(some["length"] > 0) & (some["kind"] == "signal") & (some["change"] > 0)]
    noise = of_model(edits, model)
    noise = noise[(noise["kind"] == "noise") & noise["visible"] & (noise["length"] > 0) & (noise["change"] > 0)]
    sizes = sorted({*some["length"], *noise["length"]})
    if len(sizes) < 2:
        return None
    band = noise.groupby("length")["change"].quantile(np.array([0.25, 0.5, 0.75])).unstack()
    known = [*some["change"], *band.to_numpy().ravel()]
    x = _log_axis(sizes[0], sizes[-1], LEFT, WIDTH - RIGHT)
    y = _log_axis(min(known) * 0.8, max(known) * 1.25, HEIGHT - BOTTOM, TOP)
    paths = [("rule", f"M{LEFT} {y(t):.1f}H{WIDTH - RIGHT}") for t in _decades(min(known) * 0.8, max(known) * 1.25)]
    if len(band) > 1:
        there = [
            (x(float(str(n))), y(low), y(high)) for n, low, high in zip(band.index, band[0.25], band[0.75], strict=True)
        ]
        edge = [f"{a:.1f} {b:.1f}" for a, b, _ in there] + [f"{a:.1f} {c:.1f}" for a, _, c in reversed(there)]
        paths.append(("band", "M" + "L".join(edge) + "z"))
        paths.append(("noise", _joined((x(float(str(n))), y(v)) for n, v in band[0.5].items())))
    for k, name in enumerate(dict.fromkeys(some["type"])):
        line = some[some["type"] == name].sort_values("length")
        points = [(x(n), y(v)) for n, v in zip(line["length"], line["change"], strict=True)]
        paths += [
            (f"line {hue(k)}", _joined(points)),
            (f"marks {hue(k)}", "".join(mark(k, *point) for point in points)),
        ]
    ticks = _decades(min(known) * 0.8, max(known) * 1.25)
    labels = [Label(LEFT - 6, y(t) + 4, f"{t:g}", "end") for t in ticks]
    return Chart(WIDTH, HEIGHT, tuple(paths), (*labels, *_lengths_axis(x, sizes)), f"Change against length, {model}")


def hearing(lengths: pd.DataFrame, type: str, wanted: float) -> Chart | None:
    """One signal: the share of texts that hear it against length, a line a model, with the share that is wanted."""
    some = lengths[(lengths["type"] == type) & lengths["share"].notna()]
    sizes = sorted(set(some["length"]))
    if len(sizes) < 2:
        return None
    x = _log_axis(sizes[0], sizes[-1], LEFT + 8, WIDTH - RIGHT - 8)

    def y(share: float) -> float:
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * share

    paths = [("rule", f"M{LEFT} {y(t):.1f}H{WIDTH - RIGHT}") for t in (0, 0.25, 0.5, 0.75, 1)]
    paths.append(("wanted", f"M{LEFT} {y(wanted):.1f}H{WIDTH - RIGHT}"))
    models = models_of(lengths)
    for k, model in enumerate(models):
        line = of_model(some, model).sort_values("length")
        aside = 5 * (k - (len(models) - 1) / 2)  # else intervals of several models hide each other
        at = [x(n) + aside for n in line["length"]]
        spans = zip(at, line["share_low"], line["share_high"], strict=True)
        paths.append((f"whisker {hue(k)}", "".join(f"M{a:.1f} {y(low):.1f}V{y(high):.1f}" for a, low, high in spans)))
        paths.append((f"line {hue(k)}", _joined((a, y(v)) for a, v in zip(at, line["falling"], strict=True))))
        paths.append((f"marks {hue(k)}", "".join(mark(k, a, y(v)) for a, v in zip(at, line["share"], strict=True))))
    labels = [Label(LEFT - 6, y(t) + 4, f"{t:.0%}", "end") for t in (0, 0.25, 0.5, 0.75, 1)]
    return Chart(WIDTH, HEIGHT, tuple(paths), (*labels, *_lengths_axis(x, sizes)), f"Share of texts that hear: {type}")


def _lengths_axis(x: Callable[[float], float], sizes: Sequence[int]) -> Iterator[Label]:
    for n in sizes:
        yield Label(x(n), HEIGHT - BOTTOM + 16, str(n), "middle")
    yield Label((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 3, "tokens", "middle")


def _log_axis(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    span = math.log(high / low) or 1.0
    return lambda value: start + (end - start) * math.log(value / low) / span


def _decades(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten between the two."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [nice * 10.0**power for power in powers for nice in (1, 2, 5) if low <= nice * 10.0**power <= high]


def _joined(points: Iterator[tuple[float, float]] | Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def hue(k: int) -> str:
    """The class that gives the k-th curve its colour."""
    return f"h{k % len(SERIES)}"


def mark(k: int, x: float, y: float) -> str:
    """The mark of the k-th curve."""
    return shape(SYMBOLS[k % len(SYMBOLS)], x, y, 3.5)


def keys(names: Sequence[str]) -> list[tuple[str, str, str]]:
    """The legend of curves: names, classes and marks around (9, 6)."""
    return [(name, hue(k), mark(k, 9, 6)) for k, name in enumerate(names)]
