"""One kind of figure for all of ours: drawn in one style, and saved in it wherever it is saved."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from oneword.report.style import STYLE


class Drawing(Figure):
    """A figure whose files have their fonts inside, also when `savefig` is called by someone else."""

    def savefig(self, fname: Any, **options: Any) -> None:
        with matplotlib.rc_context(STYLE):
            super().savefig(fname, **options)


@contextmanager
def drawing(width: float, height: float) -> Iterator[Drawing]:
    """A figure of that size in inches; what is drawn inside the block has the style."""
    with matplotlib.rc_context(STYLE):
        yield Drawing(figsize=(width, height), layout="constrained")


def placed(figure: Figure) -> Figure:
    """The figure with its parts where they are, for all formats."""
    if isinstance(figure.get_layout_engine(), ConstrainedLayoutEngine):
        with matplotlib.rc_context(STYLE):
            figure.draw_without_rendering()
            figure.set_layout_engine("none")
    return figure
