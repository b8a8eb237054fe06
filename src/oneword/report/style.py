"""One look for every picture, in print and on the page: colours, marks and the names a reader sees."""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from typing import Any

from oneword.maps import registry
from oneword.report.palette import INK, LIGHT, SERIES

BLUE, VERMILION, GREEN, PURPLE, ORANGE, GREY = (LIGHT[name] for name in SERIES)
SKY, BLACK = LIGHT["sky"], INK

COLUMN, PAGE = 3.25, 6.75  # inches: the width of a column of a two-column paper, and of both

# Of matplotlib. Its own font goes into every file: into a PDF as TrueType, so that its text can be searched; into an
# SVG as outlines, for who opens an SVG may not have the font, and another one is wider or lacks ‖ and √.
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.8,
    "image.cmap": "Blues",
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "oneword",  # else the names inside an SVG differ from run to run
    "figure.dpi": 150,
    "savefig.dpi": 300,
}


@dataclass(frozen=True)
class Look:
    """How one thing is named and drawn; `marker` is matplotlib's, `symbol` plotly's."""

    name: str
    color: str
    marker: str
    symbol: str


# Names are those of the paper: S_RF, S_DRF, S_RAF.
_MARKERS = {
    "circle": "o", "triangle-up": "^", "square": "s", "diamond": "D", "triangle-down": "v", "pentagon": "p",
    "hexagon": "h", "cross": "P", "star": "*", "x": "X", "triangle-left": "<", "triangle-right": ">",
}  # fmt: skip
MAPS = {name: Look(m.paper, LIGHT[m.color], _MARKERS[m.mark], m.mark) for name, m in registry.MAPS.items()}
FAMILIES = {
    "corpus": Look("words of reviews", VERMILION, "s", "square"),
    "gaussian": Look("Gaussian words", BLUE, "o", "circle"),
    "clustered": Look("clustered words", GREEN, "^", "triangle-up"),
}
OBJECTIVES = {
    "loss": Look("loss", BLUE, "o", "circle"),
    "features": Look("features", ORANGE, "^", "triangle-up"),
    "alignment": Look("alignment", GREEN, "s", "square"),
}
# The kinds of number that stand beside each other; the column of the table is the key.
KINDS = {
    "upper": Look("certified (S ≤)", VERMILION, "_", "line-ew-open"),
    "value": Look("searched (S ≥)", BLUE, "o", "circle"),
    "real_max": Look("best of the real words tried", GREEN, "^", "triangle-up"),
    "real_mean": Look("mean real word", PURPLE, "v", "triangle-down"),
    "baseline": Look("random Δ, ‖Δ‖ = √d", GREY, ".", "x"),
}
TRAININGS = {"fine-tuned": "fine-tuned on the new text (T4)", "retrained": "retrained on all texts (T5)"}
# Curves of one map, told apart by dimension or depth: light to dark, and by their marks.
LADDER = (Look("", SKY, "o", "circle"), Look("", BLUE, "s", "square"), Look("", BLACK, "^", "triangle-up"))


def step(index: int, count: int) -> Look:
    """Look `index` of `count` curves of one map; the last is the darkest."""
    return LADDER[max(0, len(LADDER) - count + index) % len(LADDER)]


def plain(text: object) -> str:
    """A text as text: matplotlib would read $…$ as a formula."""
    return str(text).replace("$", r"\$")


# S_RF is S with RF below it, S^(m) with (m) above.
_NOTATION = re.compile(r"\bS(?:_([A-Za-z-]+)|\^(\([a-z]\)))")


def formula(label: str) -> str:
    """A label of ours in matplotlib's notation for formulas."""
    return _NOTATION.sub(lambda m: rf"$S_{{\text{{{m[1]}}}}}$" if m[1] else f"$S^{{{m[2]}}}$", plain(label))


def markup(label: str) -> str:
    """The same in HTML, escaped."""
    escaped = escape(label)
    return _NOTATION.sub(lambda m: f"S<sub>{m[1]}</sub>" if m[1] else f"S<sup>{m[2]}</sup>", escaped)
