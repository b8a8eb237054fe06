"""Momentum: the direction is a running mean of normalised gradients (heavy ball), and the step falls along a cosine.

Where slopes jump it averages both sides and slides along the kink; where a map is curved it neither crawls nor jumps. A
climb of N steps ends at rest whatever N is. The best iterate counts, never the last.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from oneword.search.candidates import larger
from oneword.sets.constraints import Constraint, unit


def climb(
    slope: Callable[[Tensor], tuple[Tensor, Tensor]],
    x: Float[Tensor, "*b m d"],
    start: Float[Tensor, "*b m d"],
    best: Float[Tensor, "*b"],
    within: Constraint,
    *,
    steps: int,
    keep: float,
    first: float | Tensor,
    last: float,
) -> tuple[Float[Tensor, "*b"], Float[Tensor, "*b m d"], Float[Tensor, "*b m d"]]:
    """The best value, where it was attained, and where the climb ended, which has not been evaluated.

    | argument | meaning |
    |---|---|
    | `slope` | values and gradients of candidates |
    | `best` | what `start` is known to attain; −∞ if nothing is |
    | `keep` | how much of the mean direction is kept in a step |
    | `first`, `last` | the steps at the beginning and at the end, of the reach |
    """
    best_y = y = start
    reach, mean = within.reach(x)[..., None], torch.zeros_like(y)
    for k in range(steps):
        value, gradient = slope(y)
        best, best_y = larger(best, best_y, value, y)
        mean = keep * mean + (1 - keep) * along(gradient)
        length = first * ((1 + math.cos(math.pi * k / steps)) / 2) + last
        y = within.project(x, y + length * reach * along(mean))
    return best, best_y, y


def along(v: Float[Tensor, "*b m d"]) -> Float[Tensor, "*b m d"]:
    """All rows of a candidate as one unit vector, times √m: on average each row moves by its step."""
    m = v.shape[-2]
    return unit(v) if m == 1 else unit(v.flatten(-2)).view_as(v) * m**0.5
