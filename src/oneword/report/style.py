"""One look for every picture, in print and on the page: colours, marks and the names a reader sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# Okabe and Ito's palette: distinct for every kind of colour vision.
SKY, VERMILION, BLACK = "#56B4E9", "#D55E00", "#000000"
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#7F7F7F"

# Of matplotlib.
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "svg.hashsalt": "oneword",  # else the names inside an SVG differ from run to run
    "figure.dpi": 150,
}


@dataclass(frozen=True)
class Look:
    """How one thing is named and drawn; `marker` is matplotlib's, `symbol` plotly's."""

    name: str
    color: str
    marker: str
    symbol: str


MAPS = {
    "rf": Look("RF", BLUE, "o", "circle"),
    "drf": Look("deep RF", GREEN, "^", "triangle-up"),
    "attention": Look("RAF (softmax)", VERMILION, "s", "square"),
    "attention-relu": Look("ReLU-RAF", PURPLE, "D", "diamond"),
    "attention-relu-unnormalised": Look("ReLU-RAF, not normalised", ORANGE, "v", "triangle-down"),
    "attention-sparsemax": Look("sparsemax-RAF", BLUE, "o", "circle"),
    "attention-sigmoid": Look("sigmoid-RAF, not normalised", GREEN, "^", "triangle-up"),
    "attention-linear": Look("linear RAF, not normalised", SKY, "P", "cross"),
}
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
