"""Whether a search had anything to climb: a map of steps (sign, round) has a gradient of zero wherever one looks."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from oneword.maps.base import Probe


class Slopes:
    """Takes the gradients of one search, and remembers whether one of them was not zero."""

    def __init__(self) -> None:
        self.seen = False

    def at(self, probe: Probe, y: Tensor, i: Tensor) -> tuple[Float[Tensor, " b"], Tensor]:
        """`probe.value_and_gradient`."""
        value, gradient = probe.value_and_gradient(y, i)
        self.seen = self.seen or bool(gradient.any())
        return value, gradient
