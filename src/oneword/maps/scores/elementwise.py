"""Weights g(s), each from its own score alone: sigmoid and linear attention."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from oneword.maps.scores.base import GroupedScore


@dataclass(frozen=True)
class ElementwiseScore(GroupedScore):
    """g and its derivative say it all: a word's weight is its mass, whatever the rest is."""

    normalised = False

    @abstractmethod
    def derivative(self, s: Tensor) -> Tensor:
        """g'(s), 0 where s = −∞."""

    def attend(self, s: Tensor) -> Tensor:
        return self.mass(s)

    def pull(self, weights: Tensor, s: Tensor, gradient: Tensor) -> Tensor:
        return gradient * self.derivative(s)

    def pool(self, s: Tensor) -> Tensor:
        return self.mass(s).sum(-1)

    def share(self, mass: Tensor, rest: Tensor) -> Tensor:
        return mass

    def slope(self, s: Tensor, share: Tensor, rest: Tensor) -> Tensor:
        return self.derivative(s)

    def _remove(self, s: Tensor) -> Tensor:
        return self.pool(s)[..., None] - self.mass(s)


@final
@dataclass(frozen=True)
class Sigmoid(ElementwiseScore):
    """g = 1/(1 + e^−s)."""

    name = "sigmoid"

    largest = 1.0

    def mass(self, s: Tensor) -> Tensor:
        return torch.sigmoid(s)

    def derivative(self, s: Tensor) -> Tensor:
        return torch.sigmoid(s) * torch.sigmoid(-s)


@final
@dataclass(frozen=True)
class Linear(ElementwiseScore):
    """g = s: weights of either sign, which no denominator could make shares of."""

    name = "linear"

    def mass(self, s: Tensor) -> Tensor:
        return s.masked_fill(s.isneginf(), 0)

    def derivative(self, s: Tensor) -> Tensor:
        return (~s.isneginf()).to(s.dtype)
