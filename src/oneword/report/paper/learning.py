"""The figures of learning a one-word change: Fig. 4 and 5 of the paper, the frontier, and the three objectives.

RF is bounded in two ways: (2−γ)² is the paper's curve, reached as n → ∞; max(0, 2−γ−ε)² holds at a finite n and is what
the claims compare with. ε is that of each new text, a figure draws the bound with the median ε.
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
from oneword.report.looks import OBJECTIVES, TRAININGS, maps_in
from oneword.report.paper.parts import BOUND, figure_of, medians

TOP = 9.0  # errors above are drawn here, as the captions say


FIGURES = {
    "fine-tuned": (
        "fig4-fine-tuned",
        "Fig. 4: the error on the changed text after fine-tuning",
        "One dot per new text and objective: the model was fine-tuned on the new text alone (T4). Solid: "
        "(2−γ)², the bound of RF as n → ∞. Dashed: max(0, 2−γ−ε)², its bound at this n, with the median ε of "
        "the new texts; the shaded region below it is out of reach for RF, and not for RAF. Errors are exact "
        "for the change that was found; those above 9 are drawn at 9.",
    ),
    "retrained": (
        "fig5-retrained",
        "Fig. 5: the error on the changed text after retraining",
        "The same after retraining on all texts and the new one (T5).",
    ),
}


def errors(rows: pd.DataFrame, training: str) -> Plot:
    """Fig. 4 and 5: the error on the changed text against γ."""
    widest_gamma = max(2.0, rows["gamma"].max()) if len(rows) else 2.0
    panels = []
    for name, _, some in by_length(rows):
        at_this_n = _bound(widest_gamma, "bound of RF at this n", _slack(some), dash="dash")
        marks = [Mark("band", at_this_n.x, (0.0,) * len(at_this_n.x), Look("", "sky"), top=at_this_n.y)]
        for objective, look in OBJECTIVES.items():
            chosen = some[some["objective"] == objective]
            if len(chosen):
                marks.append(Mark("dots", numbers(chosen["gamma"]), _capped(chosen["err"]), look, look.name))
        axes = Axis("γ, change under the old model", low=0), Axis("Err, changed text", low=0)
        panels.append(Panel(name, *axes, (*marks, _bound(widest_gamma, "(2−γ)²"), at_this_n)))
    return figure_of(*FIGURES[training], panels, f"texts learnt, {training}", share_y=True)


def frontier(rows: pd.DataFrame) -> Plot:
    """The lowest error under γ ≤ g, beside the bound of RF."""
    panels = []
    for training, title in TRAININGS.items():
        marks = []
        of_training = rows[rows["training"] == training]
        for name, look, some in by_length(of_training):
            g, middle = medians(some, "err", "g")
            low, high = (numbers(some.groupby("g")["err"].quantile(share)) for share in (0.25, 0.75))
            marks.append(Mark("band", g, low, look, top=high))
            marks.append(Mark("points", g, middle, look, name, low=low, high=high, interval="quartiles"))
        if marks:
            axes = Axis("g, the largest γ allowed", low=0), Axis("lowest Err, γ ≤ g", low=0)
            until = float(rows["g"].max())
            panels.append(Panel(title, *axes, (*marks, _bound(until, "(2−g)²"), *_longest_rf(of_training, until))))
    return figure_of(
        "frontier",
        "The frontier: the lowest error under γ ≤ g",
        "Medians over new texts, bands from quartile to quartile. Every error is attained by a change that was "
        "found, so the true frontier lies at or below. Solid: (2−g)², the bound of RF as n → ∞, which RF itself "
        "can undercut at a finite n. Dashed: max(0, 2−g−ε)², its bound at its longest texts, with the median ε "
        "of the new texts. The claims compare each new text with its own bound.",
        panels,
        "objective = frontier",
        share_y=True,
    )


def objectives(rows: pd.DataFrame) -> Plot:
    """Three ways to choose Δ: how far below the bound of RF each of them gets."""
    rows = rows.assign(excess=rows["err"] - rows["bound"])
    panels = []
    for training, title in TRAININGS.items():
        those = by_length(rows[rows["training"] == training])
        marks = [Mark("line", (-0.5, len(those) - 0.5), (0.0, 0.0), BOUND, "bound of RF", dash="dash")]
        for shift, (objective, look) in zip((-0.22, 0.0, 0.22), OBJECTIVES.items(), strict=True):
            each = [some.loc[some["objective"] == objective, "excess"] for _, _, some in those]
            x = [index + shift for index, values in enumerate(each) for _ in values]
            if x:
                marks.append(Mark("dots", numbers(x), _capped(v for values in each for v in values), look, look.name))
        if those:
            names = Axis("", names=tuple(name.replace(" (softmax)", "").replace(", ", "\n") for name, _, _ in those))
            panels.append(Panel(title, names, Axis("Err − bound of RF"), tuple(marks)))
    return figure_of(
        "objectives",
        "Three objectives to choose the change by",
        "The error minus max(0, 2−γ−ε)², the bound of RF at these sizes (ε goes to 0 as n grows), one dot per "
        "new text: below 0 is where RF cannot be. Exact for the change that was found; what is above 9 is drawn "
        "at 9.",
        panels,
        "texts learnt",
        share_y=True,
    )


def by_length(rows: pd.DataFrame) -> list[tuple[str, Look, pd.DataFrame]]:
    """The rows of each map and length, with a name and a look; shorter lengths have a mark of their own."""
    out = []
    for look, own in maps_in(rows):
        longest = own["n"].max()
        for n, some in own.groupby("n", sort=True):
            out.append((f"{look.name}, n = {n:g}", look if n == longest else replace(look, mark="x"), some))
    return out


def _capped(errors: Iterable[float]) -> tuple[float, ...]:
    """Errors as drawn: a few that reach fifty would leave no room for the bound, which ends at four."""
    return numbers(min(error, TOP) if math.isfinite(error) else error for error in errors)


def _slack(rows: pd.DataFrame) -> float:
    return float(rows["slack"].median())


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
