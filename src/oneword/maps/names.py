"""The names of maps that a person types; apart from the maps, so that help needs no torch."""

from __future__ import annotations

NAMES = "attention, attention-S (S = relu, relu-unnormalised, sparsemax, sigmoid, linear), rf, drf-L (L layers)"
DEFAULT = ("attention", "attention-relu", "rf")


def has_blocks(name: str) -> bool:
    """Whether one word costs k·d numbers that have to be drawn, as for rf and drf."""
    return name.partition("-")[0] in ("rf", "drf")
