"""Weights that sum to 1: softmax, ReLU (which can also go without the division), and sparsemax.

Softmax keeps `mass` and `rest` as logarithms, so sharp attention neither overflows nor rounds to 0 or 1 too early.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from oneword.maps.scores.base import GroupedScore, Score


@final
@dataclass(frozen=True)
class Softmax(GroupedScore):
    """g = exp (Eq. 3 of the paper)."""

    name = "softmax"

    logarithmic = True

    def weight_gain(self, n: int) -> float:
        return 1.0  # shares move by less than the scores

    def attend(self, s: Tensor) -> Tensor:
        return torch.softmax(s, -1)

    def pull(self, weights: Tensor, s: Tensor, gradient: Tensor) -> Tensor:
        return weights * (gradient - (weights * gradient).sum(-1, keepdim=True))

    def mass(self, s: Tensor) -> Tensor:
        return s

    def pool(self, s: Tensor) -> Tensor:
        return torch.logsumexp(s, -1)

    def share(self, mass: Tensor, rest: Tensor) -> Tensor:
        return torch.sigmoid(mass - rest)

    def slope(self, s: Tensor, share: Tensor, rest: Tensor) -> Tensor:
        return share * (1 - share)

    def _remove(self, s: Tensor) -> Tensor:
        return self.pool(s)[..., None] + torch.log1p(-torch.softmax(s, -1))


@final
@dataclass(frozen=True)
class ReLU(GroupedScore):
    """g = max(0, s); a row that sums to 0 attends to nothing. With normalise=False the weights are g itself."""

    normalise: bool = True

    @property
    def name(self) -> str:
        return "relu" if self.normalise else "relu-unnormalised"

    @property
    def normalised(self) -> bool:
        return self.normalise

    @property
    def kinked(self) -> bool:
        return self.normalise  # a row that attends to one word alone gives all of it

    can_vanish = True

    def attend(self, s: Tensor) -> Tensor:
        g = s.clamp_min(0)
        return g / _or_one(g.sum(-1, keepdim=True)) if self.normalise else g

    def pull(self, weights: Tensor, s: Tensor, gradient: Tensor) -> Tensor:
        if not self.normalise:
            return gradient * (s > 0)
        total = _or_one(self.pool(s)[..., None])
        return (gradient - (weights * gradient).sum(-1, keepdim=True)) / total * (s > 0)

    def mass(self, s: Tensor) -> Tensor:
        return s.clamp_min(0)

    def pool(self, s: Tensor) -> Tensor:
        return s.clamp_min(0).sum(-1)

    def share(self, mass: Tensor, rest: Tensor) -> Tensor:
        return mass / _or_one(mass + rest) if self.normalise else mass

    def slope(self, s: Tensor, share: Tensor, rest: Tensor) -> Tensor:
        if not self.normalise:
            return (s > 0).to(s.dtype)
        return (1 - share) / _or_one(s.clamp_min(0) + rest) * (s > 0)

    def _remove(self, s: Tensor) -> Tensor:
        return self.pool(s)[..., None] - s.clamp_min(0)


@final
@dataclass(frozen=True)
class Sparsemax(Score):
    """The point of the simplex nearest to the scores (Martins & Astudillo, ICML 2016, 1602.02068).

    Weights max(0, s − τ), with the one τ for which they sum to 1; most of them vanish.
    """

    name = "sparsemax"

    def attend(self, s: Tensor) -> Tensor:
        return sparsemax(s)


def sparsemax(s: Float[Tensor, "*rows n"]) -> Float[Tensor, "*rows n"]:
    """argmin over the simplex of ‖p − s‖², along the last axis, differentiable in s.

    The support is the k largest scores, k the last with 1 + k s_(k) > s_(1) + … + s_(k), and τ is what makes their
    weights sum to 1. The gradient of τ is the mean over the support, so that of p is that of the support, centred.
    """
    s = s - s.detach().amax(-1, keepdim=True)  # the support is then above −1, whatever the size of the scores
    with torch.no_grad():
        ranked = s.sort(-1, descending=True).values
        place = torch.arange(1, s.shape[-1] + 1, device=s.device, dtype=s.dtype)
        count = (1 + place * ranked > ranked.cumsum(-1)).sum(-1, keepdim=True)
        support = s >= ranked.gather(-1, count - 1)
    # Counted again: of equal scores all are in the support, or none, and rounding may have let `count` end among them.
    tau = (s.masked_fill(~support, 0).sum(-1, keepdim=True) - 1) / support.sum(-1, keepdim=True)
    return torch.relu(s - tau)


def unnormalised_relu() -> ReLU:
    """The weights max(0, s) themselves."""
    return ReLU(normalise=False)


def _or_one(total: Tensor) -> Tensor:
    """A denominator that turns 0/0 into 0."""
    return torch.where(total > 0, total, 1.0)
