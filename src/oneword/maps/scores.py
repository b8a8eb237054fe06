"""Score functions: how a row of scores s_j becomes the weights with which word j attends.

All the incremental formulas need is the grouping property of weights of the form g(s)/Σg: the attention that the
words l ≠ i receive together is summed up in one number, their *rest*, and word i gets the share g(s)/(rest + g(s)).
Softmax keeps `mass` and `rest` as logarithms, so sharp attention neither overflows nor rounds to 0 or 1 too early.
"""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor

from oneword.errors import UnknownNameError


@dataclass(frozen=True)
class Score(ABC):
    """One score function g, applied along the last axis. Masked entries are −∞."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name used on the command line and in results."""

    @property
    def normalised(self) -> bool:
        """Whether the weights of a row sum to 1 (or to 0 where all of g vanishes)."""
        return True

    @abstractmethod
    def attend(self, s: Tensor) -> Tensor:
        """The weights of whole rows of scores."""

    @abstractmethod
    def pull(self, weights: Tensor, s: Tensor, gradient: Tensor) -> Tensor:
        """The gradient in s, given the gradient in `attend(s)`."""

    @abstractmethod
    def mass(self, s: Tensor) -> Tensor:
        """g(s), in the score's own representation."""

    @abstractmethod
    def pool(self, s: Tensor) -> Tensor:
        """Σ g over the last axis, in the same representation."""

    @abstractmethod
    def share(self, mass: Tensor, rest: Tensor) -> Tensor:
        """The weight of something of that mass beside the rest."""

    @abstractmethod
    def slope(self, s: Tensor, share: Tensor, rest: Tensor) -> Tensor:
        """d share(mass(s), rest) / ds."""

    def rest(self, s: Float[Tensor, "rows n"]) -> Float[Tensor, "rows n"]:
        """For each entry, what the others of its row pool, with no cancellation where one entry dominates."""
        top = s.argmax(-1, keepdim=True)
        others = s.scatter(-1, top, -torch.inf)
        return self._remove(s).scatter(-1, top, self.pool(others)[..., None])

    @abstractmethod
    def _remove(self, s: Tensor) -> Tensor:
        """The pool of a row without each entry in turn, by subtraction; needs to be accurate off the maximum only."""


@final
@dataclass(frozen=True)
class Softmax(Score):
    """g = exp (Eq. 3 of the paper)."""

    @property
    def name(self) -> str:
        return "softmax"

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
class ReLU(Score):
    """g = max(0, s); a row that sums to 0 attends to nothing. With normalise=False the weights are g itself."""

    normalise: bool = True

    @property
    def name(self) -> str:
        return "relu" if self.normalise else "relu-unnormalised"

    @property
    def normalised(self) -> bool:
        return self.normalise

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


def _or_one(total: Tensor) -> Tensor:
    """A denominator that turns 0/0 into 0."""
    return torch.where(total > 0, total, torch.ones_like(total))


SCORES: dict[str, Score] = {score.name: score for score in (Softmax(), ReLU(), ReLU(normalise=False))}


def score(spec: str | Score) -> Score:
    """A Score as it is, or the one of that name."""
    if isinstance(spec, Score):
        return spec
    if spec not in SCORES:
        near = difflib.get_close_matches(spec, SCORES, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UnknownNameError(f"expected a score out of {', '.join(SCORES)}, got {spec!r}{hint}")
    return SCORES[spec]
