"""A trained model at one text: the clean pass is shared, every changed text is one more of a batch.

Starts for a search are random words of the vocabulary: deep models move far more toward a real word than along a random
direction, or along the one that is steepest at first order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from oneword.errors import RangeError
from oneword.maps.base import Probe, bytes_kept, feature_norm, replace_rows
from oneword.maps.checkpoints import eager
from oneword.maps.jacobian import DENSE, Gains, gains, jacobian, of_blocks
from oneword.memory import batch_size
from oneword.progress import Progress, silent
from oneword.random import stream
from oneword.sets.constraints import Ball, Constraint, Sphere
from oneword.text.context import check_text
from oneword.text.encoders import Encoder

if TYPE_CHECKING:
    from oneword.maps.transformer import TransformerFeatures

_MEMORY = 1 << 30  # bytes that derivatives at first order may hold
_AT_ONCE = 16  # copies of the text in one of their passes
_WORDS = 2  # of the vocabulary that a search starts toward, at each word


class _Reads(Protocol):
    """A map of a trained model, whatever it measures."""

    @property
    def encoder(self) -> Encoder: ...


class ModelProbe(Probe, ABC):
    """What all questions to a trained model share: how far its words may move, and where a search begins.

    A subclass sets `phi`, too.
    """

    phi: _Reads

    def __init__(self) -> None:
        self._gains: dict[tuple[tuple[int, ...], ...], Gains] = {}

    @abstractmethod
    def _found_gains(self, i: Int[Tensor, "p m"], progress: Progress) -> Gains:
        """First order: the operator norm of each Jacobian block, and the direction that attains it."""

    def gains(self, i: Int[Tensor, "p m"], *, progress: Progress = silent) -> Gains:
        """First order: the operator norm of each Jacobian block, and the direction that attains it; computed once."""
        asked = tuple(map(tuple, i.tolist()))
        if asked not in self._gains:
            self._gains[asked] = self._found_gains(i, progress)
        return self._gains[asked]

    def allowed(self, within: Constraint | None) -> Constraint:
        """Words have norms of their own: where nobody says, a word may move by as much."""
        if isinstance(within, Sphere) and within.norm is None:
            raise RangeError("expected Sphere(norm=…) or a Ball for a model whose words have norms of their own")
        return Ball(relative=1.0) if within is None else within

    def length2(self, rows: Int[Tensor, "p m"]) -> Float[Tensor, " p"]:
        """The mean squared norm of the rows."""
        return self.X[rows].square().sum(-1).mean(-1)

    def directions(self, i: Int[Tensor, "p m"]) -> Float[Tensor, "p s m d"]:
        """Toward random words of the vocabulary, and along the largest gains, both ways, once these are known."""
        words, table = self.phi.encoder.whole_words, self.phi.encoder.layer0.word
        toward = []
        for rows in i.tolist():
            drawn = stream(0, "toward words", *rows).integers(len(words), size=(_WORDS, len(rows)))
            toward.append(table[words[torch.from_numpy(drawn)]].to(self.X) - self.X[rows])
        known = self._gains.get(tuple(map(tuple, i.tolist())))
        if known is None:
            return torch.stack(toward)
        return torch.cat([torch.stack(toward), known.direction[:, None], -known.direction[:, None]], 1)

    def leading_direction(self, i: Int[Tensor, "p m"]) -> Float[Tensor, "p s m d"]:
        return self.directions(i)


@final
class TransformerProbe(ModelProbe):
    """φ prepared at one text X of word embeddings."""

    phi: TransformerFeatures

    def __init__(self, phi: TransformerFeatures, X: Float[Tensor, "n d"]) -> None:
        super().__init__()
        self.phi = phi
        self.X = check_text(X).detach()
        with torch.no_grad():
            self.clean = phi(self.X)
        self.norm = feature_norm(self.clean)
        self._whole: Tensor | None = None  # the Jacobian

    def features(self, y: Tensor, i: Tensor) -> Tensor:
        return self.phi(replace_rows(self.X, y, i))

    def change2(self, y: Tensor, i: Tensor) -> Float[Tensor, " b"]:
        return (self.features(y, i) - self.clean).reshape(len(i), -1).square().sum(1)

    def bytes_per_candidate(self, m: int) -> int:
        return self._kept

    @cached_property
    def _kept(self) -> int:
        return 2 * bytes_kept(self.phi, self.X) + 4 * (self.X.numel() + self.clean.numel()) * self.X.element_size()

    def _found_gains(self, i: Int[Tensor, "p m"], progress: Progress) -> Gains:
        if self.clean.numel() <= DENSE:
            return of_blocks(self._jacobian(progress), i)
        with eager(self.phi.model):  # faster attention has no derivative forwards
            return gains(self.phi, self.X, i, at_once=self._at_once, progress=progress)

    def _jacobian(self, progress: Progress) -> Float[Tensor, "size n d"]:
        if self._whole is None:
            self._whole = jacobian(self.phi, self.X, at_once=self._at_once, progress=progress)
        return self._whole

    @property
    def _at_once(self) -> int:
        return min(_AT_ONCE, batch_size(self._kept, _MEMORY))
