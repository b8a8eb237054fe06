"""Maps by the names that a person types: attention, attention-relu, rf, drf-3, …"""

from __future__ import annotations

import difflib

import torch

from oneword.errors import UnknownNameError
from oneword.maps.attention import AttentionFeatures
from oneword.maps.base import FeatureMap
from oneword.maps.names import NAMES
from oneword.maps.random import DeepRandomFeatures, RandomFeatures
from oneword.maps.scores import SCORES, score


def draw_named(
    name: str,
    n: int,
    d: int,
    *,
    k: int | None = None,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> FeatureMap:
    """The map of this name with random weights; `k` are the neurons of rf and drf."""
    kind, _, detail = name.partition("-")
    if name == "attention" or (kind == "attention" and difflib.get_close_matches(detail, SCORES)):
        return AttentionFeatures.draw(d, score=score(detail or "softmax"), seed=seed, dtype=dtype, device=device)
    if name == "rf":
        return RandomFeatures.draw(n, d, k=k, seed=seed, dtype=dtype, device=device)
    if kind == "drf" and detail.isdecimal():
        return DeepRandomFeatures.draw(n, d, depth=int(detail), k=k, seed=seed, dtype=dtype, device=device)
    raise UnknownNameError(f"expected --map out of {NAMES}, got {name!r}")
