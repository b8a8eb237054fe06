"""Score functions: how a row of scores s_j becomes the weights with which word j attends.

All the incremental formulas need is the grouping property of weights of the form g(s)/Σg, or of the bare g(s): the
attention that the words l ≠ i receive together is summed up in one number, their *rest*, and word i gets the share
g(s)/(rest + g(s)), or g(s). Sparsemax has no such property: its threshold depends on every score of the row.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class Score(ABC):
    """One score function, applied along the last axis. Masked entries are −∞ and get weight 0."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name used on the command line and in results."""

    @property
    def normalised(self) -> bool:
        """Whether the weights of a row sum to 1 (or to 0 where all of g vanishes)."""
        return True

    @property
    def kinked(self) -> bool:
        """Whether slopes jump where outputs are largest: where a row stops attending to a word, say."""
        return False

    @property
    def can_vanish(self) -> bool:
        """Whether a row may come to attend to nothing, all of its weights being 0."""
        return False

    @property
    def largest(self) -> float:
        """No weight is larger in size."""
        return 1.0 if self.normalised else math.inf

    def weight_gain(self, n: int) -> float:
        """How far the weights of a row of n words may move together, for scores that move by 1 each; if normalised."""
        return n - 1

    @abstractmethod
    def attend(self, s: Tensor) -> Tensor:
        """The weights of whole rows of scores."""


@dataclass(frozen=True)
class GroupedScore(Score):
    """A score function with weights g(s)/Σg or g(s); g never falls as s rises."""

    @property
    def logarithmic(self) -> bool:
        """Whether `mass` and `rest` are logarithms."""
        return False

    @abstractmethod
    def pull(self, weights: Tensor, s: Tensor, gradient: Tensor) -> Tensor:
        """The gradient in s, given the gradient in `attend(s)`."""

    @abstractmethod
    def mass(self, s: Tensor) -> Tensor:
        """g(s), in the score's own representation; nothing where s = −∞."""

    @abstractmethod
    def pool(self, s: Tensor) -> Tensor:
        """Σ g over the last axis, in the same representation."""

    @abstractmethod
    def share(self, mass: Tensor, rest: Tensor) -> Tensor:
        """The weight of something of that mass beside the rest."""

    @abstractmethod
    def slope(self, s: Tensor, share: Tensor, rest: Tensor) -> Tensor:
        """d share(mass(s), rest) / ds, 0 where s = −∞."""

    def rest(self, s: Float[Tensor, "rows n"]) -> Float[Tensor, "rows n"]:
        """For each entry, what the others of its row pool, with no cancellation where one entry dominates."""
        top = s.argmax(-1, keepdim=True)
        others = s.scatter(-1, top, -torch.inf)
        return self._remove(s).scatter(-1, top, self.pool(others)[..., None])

    @abstractmethod
    def _remove(self, s: Tensor) -> Tensor:
        """The pool of a row without each entry in turn, by subtraction; needs to be accurate off the maximum only."""
