"""The names that a reader sees, with their colours and marks: maps, families of words, objectives, kinds of number."""

from __future__ import annotations

import pandas as pd

from oneword.maps import registry
from oneword.plot.look import Look, series_look

# Names are those of the paper: S_RF, S_DRF, S_RAF.
MAPS = {name: Look(known.paper, known.color, known.mark) for name, known in registry.MAPS.items()}
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


def step(index: int, count: int) -> Look:
    """Look `index` of `count` curves of one map; the last is the darkest."""
    return LADDER[max(0, len(LADDER) - count + index) % len(LADDER)]


def maps_in(rows: pd.DataFrame) -> list[tuple[Look, pd.DataFrame]]:
    """The look and the rows of every map: those of the registry in its order, then others by their names."""
    named = set(rows["map"].dropna())
    looks = {name: look for name, look in MAPS.items() if name in named}
    own = sorted(named - set(MAPS))
    looks |= {name: series_look(index, name) for index, name in enumerate(own, len(MAPS))}
    return [(look, rows[rows["map"] == name]) for name, look in looks.items()]
