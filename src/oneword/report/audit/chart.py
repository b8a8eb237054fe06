"""Plots of an audit: AUC with intervals, the change against length, the share of texts that hear a signal.

Models and signals are told apart by colour and by mark.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from oneword.plot import Axis, Look, Mark, Panel, numbers
from oneword.plot.description import shortened
from oneword.plot.look import series_look
from oneword.report.audit.tables import SAID, models_of, of_model

QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)
INTERVAL = "95 % interval"
ROW = 18.0  # pixels of a line of the plot of AUCs
NOISE = Look("noise: quartiles and median", "grey")
LIMIT = Look("", "ink")


def aucs(types: pd.DataFrame) -> Panel:
    """Signals down, a line a model: dot and interval; the line at 0.5 is what chance gives."""
    signals, models = types[(types["kind"] == "signal") & types["auc"].notna()], models_of(types)
    names = list(dict.fromkeys(signals["type"]))
    marks = [Mark("line", (0.5, 0.5), (-0.5, len(names) - 0.5), LIMIT, dash="dash")]
    for k, model in enumerate(models):
        own = of_model(signals, model)
        aside = 0.7 * ((k + 0.5) / len(models) - 0.5)
        marks.append(
            Mark(
                "dots",
                numbers(own["auc"]),
                numbers(names.index(name) + aside for name in own["type"]),
                series_look(k, model),
                model,
                low=numbers(own["auc_low"]),
                high=numbers(own["auc_high"]),
                interval=INTERVAL,
                whiskers=True,
                horizontal=True,
            )
        )
    said = tuple(shortened(SAID.get(name, name), 14) for name in names)
    x = Axis("AUC; 0.5: no difference from noise", at=QUARTERS, names=_plain(QUARTERS), low=0, high=1)
    return Panel(
        "AUC of each signal against the noise, with intervals", x, Axis("", names=said, reverse=True), tuple(marks)
    )


def aucs_height(panel: Panel) -> float:
    """Pixels: a line for each model under each signal."""
    return 60 + len(panel.y.names) * (ROW * (len(panel.marks) - 1) + 10)


def changes(lengths: pd.DataFrame, edits: pd.DataFrame, model: str) -> Panel | None:
    """One model: the noise as a band from quartile to quartile, signals as lines, both axes logarithmic."""
    some = of_model(lengths, model)
    some = some[(some["length"] > 0) & (some["kind"] == "signal") & (some["change"] > 0)]
    noise = of_model(edits, model)
    noise = noise[(noise["kind"] == "noise") & noise["visible"] & (noise["length"] > 0) & (noise["change"] > 0)]
    sizes = sorted({*some["length"], *noise["length"]})
    if len(sizes) < 2:
        return None
    band = noise.groupby("length")["change"].quantile(np.array([0.25, 0.5, 0.75])).unstack()
    marks = []
    for k, name in enumerate(dict.fromkeys(some["type"])):
        line = some[some["type"] == name].sort_values("length")
        label = SAID.get(name, name)
        marks.append(Mark("points", numbers(line["length"]), numbers(line["change"]), series_look(k, label), label))
    if len(band) > 1:
        at, low, middle, high = (numbers(each) for each in (band.index, band[0.25], band[0.5], band[0.75]))
        marks.insert(0, Mark("band", at, low, NOISE, top=high))
        marks.append(Mark("line", at, middle, NOISE, NOISE.name, dash="dot"))
    return Panel(model, _tokens(sizes), Axis("change", log=True), tuple(marks))


def hearing(lengths: pd.DataFrame, type: str, wanted: float) -> Panel | None:
    """One signal: the share of texts that hear it against length, a line a model, with the share that is wanted."""
    some = lengths[(lengths["type"] == type) & lengths["share"].notna()]
    sizes = sorted(set(some["length"]))
    if len(sizes) < 2:
        return None
    models = models_of(lengths)
    marks = [Mark("line", (sizes[0], sizes[-1]), (wanted, wanted), LIMIT, dash="dash")]
    for k, model in enumerate(models):
        line = of_model(some, model).sort_values("length")
        # Else intervals of several models hide each other.
        aside = (sizes[-1] / sizes[0]) ** (0.018 * (k - (len(models) - 1) / 2))
        at, look = numbers(aside * line["length"]), series_look(k, model)
        marks += [
            Mark("line", at, numbers(line["falling"]), look),
            Mark(
                "dots", at, numbers(line["share"]), look, model, low=numbers(line["share_low"]),
                high=numbers(line["share_high"]), interval=INTERVAL, whiskers=True,
            ),
        ]  # fmt: skip
    y = Axis("share of texts", at=QUARTERS, names=tuple(f"{share:.0%}" for share in QUARTERS), low=0, high=1)
    return Panel(f"Texts that hear: {SAID.get(type, type)}", _tokens(sizes), y, tuple(marks))


def _tokens(sizes: Sequence[int]) -> Axis:
    return Axis("tokens", log=True, at=numbers(sizes))


def _plain(values: Sequence[float]) -> tuple[str, ...]:
    return tuple(f"{value:g}" for value in values)
