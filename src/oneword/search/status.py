"""How a search ended, and what to do about it."""

from __future__ import annotations

from enum import Enum


class Status(Enum):
    """The value of each member is its remedy."""

    CONVERGED = (
        "the best candidate stopped improving, and a second start ended within 0.1 % of it; more starts could still "
        "find another maximum"
    )
    UNCONFIRMED = (
        "the best candidate stopped improving, but no second start came within 0.1 % of it, so another maximum may be "
        "higher: raise Ascent(random=…, keep=…)"
    )
    STEP_LIMIT = "still improving when the steps ran out: raise Ascent(polish=…)"
    QUICK = "one start a position and no polish: use Ascent() for the full recipe"
    UNPOLISHED = "climbed from every start and not polished: raise Ascent(polish=…)"
    ZERO_GRADIENT = (
        "the gradient was zero at every candidate, so the search could not climb and the value is the best of its "
        "starts: try a finite set of words (Vectors, Vocabulary), or a map with slopes"
    )
    ROUNDING = (
        "no change was found that rounding alone could not explain, so the value is 0: raise the radius or use float64"
    )
    EXACT = "every candidate of the finite set was tried"

    @property
    def remedy(self) -> str:
        return self.value

    def __str__(self) -> str:
        return self.name.lower().replace("_", " ")
