"""Trained models at texts as figures for a paper: words by layers, layers by heads, S against n."""

from __future__ import annotations

from dataclasses import replace
from textwrap import fill

import pandas as pd

from oneword.errors import RangeError
from oneword.report.compare.figures import heads
from oneword.report.drawing import Drawing, drawing
from oneword.report.heat import NAMED, draw_heat
from oneword.report.paper.figures import draw
from oneword.report.profile.lengths import lengths_plate
from oneword.report.profile.profiled import Profiled
from oneword.report.style import PAGE, plain

TITLE, NARROW = 46, 32  # letters of a line above one of two panels, of three


def layers_figure(profile: Profiled) -> Drawing:
    """How far the change of each word (column) moves each layer (row)."""
    _check(profile.layers, "layers")
    square = profile.layers.pivot(index="layer", columns="position", values="value")
    words = profile.layers.drop_duplicates("position").set_index("position")["word"]
    values = square.to_numpy(float)
    with drawing(PAGE, min(6.0, 1.5 + 0.16 * len(square))) as figure:
        axes = figure.subplots()
        names = [str(words[position]) for position in square.columns]
        image = draw_heat(axes, values, [str(layer) for layer in square.index], names, float(square.max().max()) or 1.0)
        axes.set(ylabel="layer", aspect="auto")
        if len(names) > NAMED:
            axes.set_xlabel("changed word, in the order of the text")
            axes.tick_params(axis="x", rotation=0)
        axes.set_title(plain(f"{profile.model}: {profile.objective}"), loc="left")
        figure.colorbar(image, ax=axes, label="relative change\n(attained, S ≥)")
    return figure


def heads_figure(profile: Profiled) -> Drawing:
    """The share of its attention that each head turns elsewhere when the most sensitive word changes."""
    _check(profile.heads, "heads")
    return heads({"heads": profile.heads})


def lengths_figure(lengths: pd.DataFrame, exponents: pd.DataFrame | None = None) -> Drawing:
    """S against n with fitted slopes, one panel a model."""
    plate = lengths_plate(lengths, exponents)
    if not plate.panels:
        raise RangeError("expected lengths with at least one change above 0, got none: measure some lengths first")
    titles = [_folded(panel.title, TITLE if len(plate.panels) < 3 else NARROW) for panel in plate.panels]
    most = max(title.count("\n") for title in titles)
    # As many lines above every panel, so that axes stand side by side.
    panels = [
        replace(panel, title="\n" * (most - title.count("\n")) + title)
        for panel, title in zip(plate.panels, titles, strict=True)
    ]
    return draw(replace(plate, panels=tuple(panels)))


def _folded(title: str, width: int) -> str:
    return "\n".join(fill(line, width) for line in title.splitlines())


def _check(table: pd.DataFrame, name: str) -> None:
    if table.empty:
        raise RangeError(f"expected a profile with {name} to draw, got none: measure the {name} first")
