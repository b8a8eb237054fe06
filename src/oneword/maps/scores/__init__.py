"""The score functions by name."""

from __future__ import annotations

from oneword.errors import UnknownNameError, did_you_mean
from oneword.maps import registry
from oneword.maps.scores.base import GroupedScore, Score
from oneword.maps.scores.elementwise import Linear, Sigmoid
from oneword.maps.scores.normalised import ReLU, Softmax, Sparsemax

__all__ = ["SCORES", "GroupedScore", "Linear", "ReLU", "Score", "Sigmoid", "Softmax", "Sparsemax", "score"]

SCORES: dict[str, Score] = {name: registry.load(place)() for name, place in registry.SCORES.items()}


def score(spec: str | Score) -> Score:
    """A Score as it is, or the one of that name."""
    if isinstance(spec, Score):
        return spec
    if not isinstance(spec, str):
        raise UnknownNameError(
            f"expected a score out of {', '.join(SCORES)}, or a Score such as Softmax(), got {_shown(spec)}: "
            "give one name, or an object of the class"
        )
    if spec not in SCORES:
        hint = did_you_mean(spec, SCORES)
        raise UnknownNameError(f"expected a score out of {', '.join(SCORES)}, got {spec!r}{hint}")
    return SCORES[spec]


def _shown(given: object) -> str:
    """What was given instead of a score, in one line."""
    if isinstance(given, type):
        return f"the class {given.__name__}"
    return " ".join(f"{given!r} of type {type(given).__name__}".split())
