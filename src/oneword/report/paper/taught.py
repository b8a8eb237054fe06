"""The figures of learning a one-word change: Fig. 4 and 5 of the paper, the frontier, and the three objectives.

RF is bounded in two ways: (2−γ)² is the paper's curve, reached as n → ∞; max(0, 2−γ−ε)² holds at a finite n and is what
the claims compare with. ε is that of each lesson, a figure draws the bound with the median ε.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

import numpy as np
import pandas as pd

from oneword import theory
from oneword.plot import Axis, Look, Mark, Panel, Plot, numbers
from oneword.report.looks import OBJECTIVES, TRAININGS, map_look, map_looks
from oneword.report.paper.parts import BOUND, figure_of, medians
from oneword.report.paper.series import error_bound, error_slack, lessons

TOP = 9.0  # errors above are drawn here, as the captions say


def taught(table: pd.DataFrame) -> list[Plot]:
    """Every figure of learning."""
    return [learning(table, "fine-tuned"), learning(table, "retrained"), frontier(table), objectives(table)]


def learning(table: pd.DataFrame, training: str) -> Plot:
    """Fig. 4 and 5: the error on the changed text against γ."""
    rows = lessons(table)
    rows = rows[rows["training"] == training]
    widest_gamma = max(2.0, rows["gamma"].max()) if len(rows) else 2.0
    panels = []
    for name, some in pupils(rows):
        at_this_n = _bound(widest_gamma, "bound of RF at this n", _slack(some), dash="dash")
        marks = [Mark("band", at_this_n.x, (0.0,) * len(at_this_n.x), Look("", "sky"), top=at_this_n.y)]
        for objective, look in OBJECTIVES.items():
            chosen = some[some["objective"] == objective]
            if len(chosen):
                marks.append(Mark("dots", numbers(chosen["gamma"]), _capped(chosen["err"]), look, look.name))
        axes = Axis("γ, change under the old model", low=0), Axis("Err, changed text", low=0)
        panels.append(Panel(name, *axes, (*marks, _bound(widest_gamma, "(2−γ)²"), at_this_n)))
    number = 4 if training == "fine-tuned" else 5
    return figure_of(f"fig{number}-{training}", panels, f"lessons, {training}", share_y=True)


def frontier(table: pd.DataFrame) -> Plot:
    """The lowest error under γ ≤ g, beside the bound of RF."""
    rows = lessons(table, "frontier")
    limits = rows.groupby(["map", "n"])["g"].transform("nunique")
    # Lengths with fewer limits g than others of their map were measured for the claims alone: no curve.
    rows = rows[limits == limits.groupby(rows["map"]).transform("max")]
    panels = []
    for training, title in TRAININGS.items():
        marks = []
        of_training = rows[rows["training"] == training]
        for name, some in pupils(of_training):
            look = _of_length(some, of_training)
            g, middle = medians(some, "err", "g")
            quarter = numbers(some.groupby("g")["err"].quantile(0.25))
            marks.append(Mark("band", g, quarter, look, top=numbers(some.groupby("g")["err"].quantile(0.75))))
            marks.append(Mark("points", g, middle, look, name))
        if marks:
            axes = Axis("g, the largest γ allowed", low=0), Axis("lowest Err, γ ≤ g", low=0)
            until = float(rows["g"].max())
            panels.append(Panel(title, *axes, (*marks, _bound(until, "(2−g)²"), *_longest_rf(of_training, until))))
    return figure_of("frontier", panels, "objective = frontier", share_y=True)


def objectives(table: pd.DataFrame) -> Plot:
    """Three ways to choose Δ: how far below the bound of RF each of them gets."""
    rows = lessons(table)
    rows = rows.assign(excess=rows["err"] - error_bound(rows))
    panels = []
    for training, title in TRAININGS.items():
        those = pupils(rows[rows["training"] == training])
        marks = [Mark("line", (-0.5, len(those) - 0.5), (0.0, 0.0), BOUND, "bound of RF", dash="dash")]
        for shift, (objective, look) in zip((-0.22, 0.0, 0.22), OBJECTIVES.items(), strict=True):
            each = [some.loc[some["objective"] == objective, "excess"] for _, some in those]
            x = [index + shift for index, values in enumerate(each) for _ in values]
            if x:
                marks.append(Mark("dots", numbers(x), _capped(v for values in each for v in values), look, look.name))
        if those:
            names = Axis("", names=tuple(name.replace(" (softmax)", "").replace(", ", "\n") for name, _ in those))
            panels.append(Panel(title, names, Axis("Err − bound of RF"), tuple(marks)))
    return figure_of("objectives", panels, "lessons", share_y=True)


def pupils(rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The lessons of each map and length."""
    return [
        (f"{look.name}, n = {n:g}", some[some["n"] == n])
        for map_, look in map_looks(rows["map"].dropna()).items()
        if len(some := rows[rows["map"] == map_])
        for n in sorted(some["n"].unique())
    ]


def _of_length(some: pd.DataFrame, rows: pd.DataFrame) -> Look:
    """The look of a map; the shorter of its lengths with a mark of its own."""
    look = map_look(some["map"].iloc[0])
    shorter = some["n"].max() < rows.loc[rows["map"] == some["map"].iloc[0], "n"].max()
    return replace(look, mark="x") if shorter else look


def _capped(errors: Iterable[float]) -> tuple[float, ...]:
    """Errors as drawn: a few that reach fifty would leave no room for the bound, which ends at four."""
    return numbers(min(error, TOP) if math.isfinite(error) else error for error in errors)


def _slack(rows: pd.DataFrame) -> float:
    return float(error_slack(rows).median())


def _bound(until: float, label: str, slack: float = 0.0, dash: Literal["solid", "dash"] = "solid") -> Mark:
    """(2−γ−ε)² up to γ = `until`."""
    x = np.linspace(0, until, 61)
    return Mark("line", numbers(x), numbers(theory.error_bound(x, slack)), BOUND, label, dash=dash)


def _longest_rf(rows: pd.DataFrame, until: float) -> list[Mark]:
    """The bound of RF at its longest texts; at longer ones it lies between that and (2−g)²."""
    rf = rows[rows["map"] == "rf"]
    longest = rf[rf["n"] == rf["n"].max()]
    label = f"bound of RF at n = {longest['n'].max():g}"
    return [_bound(until, label, _slack(longest), dash="dash")] if len(longest) else []
