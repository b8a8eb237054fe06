"""Trained models at texts as figures for a paper: words by layers, layers by heads, S against n."""

from __future__ import annotations

import pandas as pd

from oneword.errors import RangeError
from oneword.plot import Axis, Heat, Panel, Plot
from oneword.plot.print import NAMED, Drawing, draw
from oneword.report.comparison_page import heads
from oneword.report.profile.lengths import lengths_plot
from oneword.report.profile.profiled import Profiled


def layers_figure(profile: Profiled) -> Drawing:
    """How far the change of each word (column) moves each layer (row)."""
    _check(profile.layers, "layers")
    square = profile.layers.pivot(index="layer", columns="position", values="value")
    words = profile.layers.drop_duplicates("position").set_index("position")["word"]
    names = tuple(str(words[position]) for position in square.columns)
    values = tuple(tuple(map(float, row)) for row in square.to_numpy(float))
    heat = Heat(names, values, tuple(map(str, square.index)), "relative change\n(attained, S ≥)")
    x = Axis("changed word, in the order of the text" if len(names) > NAMED else "")
    panel = Panel(f"{profile.model}: {profile.objective}", x, Axis("layer"), heat=heat)
    return draw(Plot("layers", "", "", (panel,), height=min(6.0, 1.5 + 0.16 * len(square)), page=True))


def heads_figure(profile: Profiled) -> Drawing:
    """The share of its attention that each head turns elsewhere when the most sensitive word changes."""
    _check(profile.heads, "heads")
    return heads({"heads": profile.heads})


def lengths_figure(lengths: pd.DataFrame, exponents: pd.DataFrame | None = None) -> Drawing:
    """S against n with fitted slopes, one panel a model."""
    plot = lengths_plot(lengths, exponents)
    if not plot.panels:
        raise RangeError("expected lengths with at least one change above 0, got none: measure some lengths first")
    return draw(plot)


def _check(table: pd.DataFrame, name: str) -> None:
    if table.empty:
        raise RangeError(f"expected a profile with {name} to draw, got none: measure the {name} first")
