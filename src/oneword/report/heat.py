"""Heat maps: shades from 0 to the largest value, on a page and in a figure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from oneword.report.style import plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

NAMED = 60  # words: axes of larger maps count instead
WRITTEN = 12  # words: cells of larger maps have no numbers
DARK = 0.71  # share of the largest value: white is easier to read on what is darker, black on the rest


def heat_cell(x: float | None, scale: float, numbered: bool = True) -> dict[str, Any]:
    """A cell of `heat.html.j2`: strength from 0 to 100, sign, and what is written there."""
    cell = {"strong": 0, "less": False, "faint": False, "title": "", "shown": "–" if numbered else ""}
    if x is None or math.isnan(x):
        return cell
    text = f"{abs(x):.2f}".removeprefix("0")
    sign = "−" if x < 0 and text != ".00" else ""
    strong = round(100 * min(1.0, abs(x) / scale))
    return cell | {"strong": strong, "less": x < 0, "shown": sign + text if numbered else ""}


def plain_cell(text: str) -> dict[str, Any]:
    """A cell without a shade."""
    return heat_cell(None, 1.0) | {"plain": True, "shown": text}


def draw_heat(axes: Axes, weights: np.ndarray, rows: Sequence[str], columns: Sequence[str], most: float) -> AxesImage:
    """Shades from 0 to `most`, names where there is room for them, numbers where they can be read."""
    image = axes.imshow(weights, vmin=0, vmax=most)
    for axis, names in ((axes.xaxis, columns), (axes.yaxis, rows)):
        if len(names) <= NAMED:
            axis.set_ticks(range(len(names)), [plain(shortened(name)) for name in names])
            axis.set_tick_params(labelsize=7 if len(names) <= 24 else 5)
    if len(columns) <= NAMED and not all(name.isdigit() for name in columns):
        axes.tick_params(axis="x", rotation=90)
    axes.spines[:].set_visible(False)
    if weights.shape[1] <= WRITTEN:
        for (i, j), x in np.ndenumerate(weights):
            if np.isnan(x):
                continue
            ink = "white" if x > DARK * most else "black"
            axes.text(j, i, f"{x:.2f}".removeprefix("0"), ha="center", va="center", fontsize=6, color=ink)
    return image


def shortened(word: str, most: int = 16) -> str:
    return word if len(word) <= most else word[: most - 1] + "…"
