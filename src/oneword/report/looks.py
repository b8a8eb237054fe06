"""The names that a reader sees, with their colours and marks: maps, families of words, objectives, kinds of number."""

from __future__ import annotations

from oneword.plot.look import Look

# Names are those of the paper: S_RF, S_DRF, S_RAF.
MAPS = {
    "rf": Look("RF", "blue", "circle"),
    "drf": Look("deep RF", "green", "triangle"),
    "attention": Look("RAF (softmax)", "vermilion", "square"),
    "attention-relu": Look("ReLU-RAF", "purple", "diamond"),
    "attention-relu-unnormalised": Look("ReLU-RAF, not normalised", "orange", "triangle-down"),
    "attention-sparsemax": Look("sparsemax-RAF", "blue", "pentagon"),
    "attention-sigmoid": Look("sigmoid-RAF, not normalised", "green", "hexagon"),
    "attention-linear": Look("linear RAF, not normalised", "sky", "plus"),
}
FAMILIES = {
    "corpus": Look("words of reviews", "vermilion", "square"),
    "gaussian": Look("Gaussian words", "blue", "circle"),
    "clustered": Look("clustered words", "green", "triangle"),
}
OBJECTIVES = {
    "loss": Look("loss", "blue", "circle"),
    "features": Look("features", "orange", "triangle"),
    "alignment": Look("alignment", "green", "square"),
}
# The kinds of number that stand beside each other; the column of the table is the key.
KINDS = {
    "upper": Look("certified (S ≤)", "vermilion", "dash"),
    "value": Look("searched (S ≥)", "blue", "circle"),
    "real_max": Look("best of the real words tried", "green", "triangle"),
    "real_mean": Look("mean real word", "purple", "triangle-down"),
    "baseline": Look("random Δ, ‖Δ‖ = √d", "grey", "cross"),
}
TRAININGS = {"fine-tuned": "fine-tuned on the new text (T4)", "retrained": "retrained on all texts (T5)"}
# Curves of one map, told apart by dimension or depth: light to dark, and by their marks.
LADDER = (Look("", "sky", "circle"), Look("", "blue", "square"), Look("", "ink", "triangle"))


def step(index: int, count: int) -> Look:
    """Look `index` of `count` curves of one map; the last is the darkest."""
    return LADDER[max(0, len(LADDER) - count + index) % len(LADDER)]
