"""What every figure of the report is made with."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from oneword.plot import Look, Panel, Plot, numbers

BOUND = Look("", "ink")


def figure_of(
    id_: str, title: str, caption: str, panels: Iterable[Panel], missing: str, *, share_y: bool = False
) -> Plot:
    """A figure. The caption says which kind of number is drawn; `missing`, which rows a figure without panels lacks."""
    each = tuple(panels)
    return Plot(id_, title, caption, each, "" if each else f"no rows with {missing}", share_y)


def medians(rows: pd.DataFrame, column: str, x: str = "n") -> tuple[tuple[float, ...], tuple[float, ...]]:
    middle = rows.groupby(x)[column].median()
    return numbers(middle.index), numbers(middle)
