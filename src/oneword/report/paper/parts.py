"""What every figure of the report is made with."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from oneword.plot import Look, Panel, Plot, numbers
from oneword.report.paper.captions import CAPTIONS

BOUND = Look("", "ink")


def figure_of(id_: str, panels: Iterable[Panel], missing: str, *, share_y: bool = False, encoder: str = "") -> Plot:
    each = tuple(panels)
    title, caption = CAPTIONS[id_]
    caption = caption.replace("{encoder}", encoder)
    return Plot(id_, title, caption, each, "" if each else f"no rows with {missing}", share_y)


def medians(rows: pd.DataFrame, column: str, x: str = "n") -> tuple[tuple[float, ...], tuple[float, ...]]:
    middle = rows.groupby(x)[column].median()
    return numbers(middle.index), numbers(middle)
