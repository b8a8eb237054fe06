"""Weights g(s)/Σg: softmax, and ReLU, which can also go without the division.

Softmax keeps `mass` and `rest` as logarithms, so sharp attention neither overflows nor rounds to 0 or 1 too early.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from oneword.maps.scores.base import GroupedScore


@final
@dataclass(frozen=True)
class Softmax(GroupedScore):
    """g = exp (Eq. 3 of the paper)."""

    @property
    def name(self) -> str:
        return "softmax"

    @property
    def logarithmic(self) -> bool:
        return True

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

    @property
    def can_vanish(self) -> bool:
        return True

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


def unnormalised_relu() -> ReLU:
    """The weights max(0, s) themselves."""
    return ReLU(normalise=False)


def _or_one(total: Tensor) -> Tensor:
    """A denominator that turns 0/0 into 0."""
    return torch.where(total > 0, total, torch.ones_like(total))
