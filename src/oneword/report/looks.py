"""The names that a reader sees, with their colours and marks: maps, families of words, objectives, kinds of number."""

from __future__ import annotations

from collections.abc import Iterable

from oneword.maps import registry
from oneword.plot.look import SERIES, Look

OWN_MARKS = ("star", "x", "triangle-left", "triangle-right")  # of maps that are not in the registry
FAMILIES = {
    "corpus": Look("words of reviews", "vermilion", "square"),
    "gaussian": Look("Gaussian words", "blue", "circle"),
    "clustered": Look("clustered words", "green", "triangle-up"),
}
OBJECTIVES = {
    "loss": Look("loss", "blue", "circle"),
    "features": Look("features", "orange", "triangle-up"),
    "alignment": Look("alignment", "green", "square"),
}
# The kinds of number that stand beside each other; the column of the table is the key.
KINDS = {
    "upper": Look("certified (S ≤)", "vermilion", "dash"),
    "value": Look("searched (S ≥)", "blue", "circle"),
    "real_max": Look("best of the real words tried", "green", "triangle-up"),
    "real_mean": Look("mean real word", "purple", "triangle-down"),
    "baseline": Look("random Δ, ‖Δ‖ = √d", "grey", "x"),
}
TRAININGS = {"fine-tuned": "fine-tuned on the new text (T4)", "retrained": "retrained on all texts (T5)"}
# Curves of one map, told apart by dimension or depth: light to dark, and by their marks.
LADDER = (Look("", "sky", "circle"), Look("", "blue", "square"), Look("", "ink", "triangle-up"))


def map_looks(names: Iterable[str]) -> dict[str, Look]:
    """The looks of these maps, those of the registry first and in its order; others have colours and marks in turn.

    Names are those of the paper: S_RF, S_DRF, S_RAF.
    """
    there = dict.fromkeys(str(name) for name in names)
    known = {name: Look(each.paper, each.color, each.mark) for name, each in registry.MAPS.items() if name in there}
    own = [name for name in there if name not in known]
    looks = (Look(name, SERIES[k % len(SERIES)], OWN_MARKS[k % len(OWN_MARKS)]) for k, name in enumerate(own))
    return known | {look.name: look for look in looks}


def map_look(name: str) -> Look:
    """The look of one map."""
    return map_looks([name])[name]


def step(index: int, count: int) -> Look:
    """Look `index` of `count` curves of one map; the last is the darkest."""
    return LADDER[max(0, len(LADDER) - count + index) % len(LADDER)]
