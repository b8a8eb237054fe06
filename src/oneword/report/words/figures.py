"""Models at texts as figures for a paper: words by layers, layers by heads, S against the length of the text."""

from __future__ import annotations

import numpy as np
import pandas as pd

from oneword.errors import RangeError
from oneword.plot import Axis, Heat, Look, Mark, Panel, Plot, numbers
from oneword.plot.print import NAMED, Drawing, draw
from oneword.report.comparison_page import heads
from oneword.report.looks import KINDS
from oneword.report.paper.figures import LENGTH
from oneword.report.table import shown
from oneword.report.words.table import Part

# The columns of the table of lengths that are drawn.
CURVES = {
    "upper": Look("ceiling (S ≤, any size)", "vermilion", "dash"),
    "sup": KINDS["value"],
    "first_order": Look("first order, r‖J‖/‖φ‖", "orange", "diamond"),
    "best_word": KINDS["real_max"],
    "random_word": KINDS["real_mean"],
    "random_ball": KINDS["baseline"],
}
CAPTION = (
    "Trials are dots, their medians are joined, dashed lines are fits of log S against log n, with intervals of their "
    "slopes. Searched values and the best of the words tried are lower bounds, ceilings are upper bounds."
)


def layers_figure(part: Part) -> Drawing:
    """How far the change of each word (column) moves each layer (row)."""
    _check(part.layers, "layers")
    square = part.layers.pivot(index="layer", columns="position", values="value")
    words = part.layers.drop_duplicates("position").set_index("position")["word"]
    names = tuple(str(words[position]) for position in square.columns)
    values = tuple(tuple(map(float, row)) for row in square.to_numpy(float))
    heat = Heat(names, values, tuple(map(str, square.index)), "relative change\n(attained, S ≥)")
    x = Axis("changed word, in the order of the text" if len(names) > NAMED else "")
    panel = Panel(part.subject.named, x, Axis("layer"), heat=heat)
    return draw(Plot("layers", "", "", (panel,), height=min(6.0, 1.5 + 0.16 * len(square)), page=True))


def heads_figure(part: Part) -> Drawing:
    """The share of its attention that each head turns elsewhere when the most sensitive word changes."""
    _check(part.heads, "heads")
    return heads({"heads": part.heads})


def lengths_figure(lengths: pd.DataFrame, exponents: pd.DataFrame | None = None) -> Drawing:
    """S against n with fitted slopes, one panel a model."""
    plot = lengths_plot(lengths, exponents)
    if not plot.panels:
        raise RangeError("expected lengths with at least one change above 0, got none: measure some lengths first")
    return draw(plot)


def _check(table: pd.DataFrame, name: str) -> None:
    if table.empty:
        raise RangeError(f"expected a model with {name} to draw, got none: measure the {name} first")


def lengths_plot(lengths: pd.DataFrame, exponents: pd.DataFrame | None = None) -> Plot:
    """One panel a model and output; `exponents` (model, column, slope, low, high) adds slopes and their lines."""
    panels = []
    for (model, output), rows in lengths.groupby(["model", "output"], sort=False):
        marks = [
            mark
            for column, look in CURVES.items()
            if column in rows
            for mark in _curve(rows, column, look, _exponent(exponents, str(model), str(output), column))
        ]
        if marks:
            at = numbers(sorted(rows["n"].unique()))
            x = Axis(LENGTH.label, log=True, at=at)
            panels.append(Panel(f"{model}:\n{output}", x, Axis("relative change", log=True), tuple(marks)))
    return Plot("lengths", "As the text grows", CAPTION, tuple(panels), "" if panels else "no lengths", share_y=True)


def _curve(rows: pd.DataFrame, column: str, look: Look, fit: pd.Series | None) -> list[Mark]:
    rows = rows[rows[column] > 0]  # a gap and a change of nothing have no logarithm
    if rows.empty:
        return []
    middle = rows.groupby("n")[column].median()
    label = look.name if fit is None else f"{look.name}: slope {_interval(fit)}"
    marks = [Mark("points", numbers(middle.index), numbers(middle), look, label)]
    if len(rows) > len(middle):
        marks.insert(0, Mark("dots", numbers(rows["n"]), numbers(rows[column]), look))
    if fit is not None:
        # Least squares go through the mean of all logarithms.
        n, y = np.log(rows["n"].to_numpy(float)), np.log(rows[column].to_numpy(float))
        ends = np.array([n.min(), n.max()])
        line = np.exp(y.mean() + float(fit["slope"]) * (ends - n.mean()))
        marks.append(Mark("line", numbers(np.exp(ends)), numbers(line), look, dash="dash"))
    return marks


def _exponent(exponents: pd.DataFrame | None, model: str, output: str, column: str) -> pd.Series | None:
    if exponents is None or exponents.empty:
        return None
    same = (exponents["model"] == model) & (exponents["column"] == column) & exponents["slope"].notna()
    if "output" in exponents:
        same &= exponents["output"] == output
    return exponents[same].iloc[0] if same.any() else None


def _interval(fit: pd.Series) -> str:
    """A slope; its interval where there is one."""
    ends = [shown(float(fit[name]), 2) for name in ("low", "high") if pd.notna(fit[name])]
    return shown(float(fit["slope"]), 2) + (f" [{', '.join(ends)}]" if len(ends) == 2 else "")
