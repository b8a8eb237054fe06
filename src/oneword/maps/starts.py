"""Where to start a search under attention: along the keys, since a word that many rows look at moves many of them.

The score of row j on word i rises along its key K_j, and once the rows attend to the word, it moves them further the
further it is from what they put out already.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.cluster.vq import kmeans2
from torch import Tensor

from oneword.maps.base import SHORT, Probe
from oneword.maps.scores import Score


class KeyStarts:
    """Directions of Δ for one attention layer at one text, from its words, keys and outputs."""

    def __init__(self, X: Float[Tensor, "n d"], K: Float[Tensor, "n d"], O: Float[Tensor, "n d"]) -> None:
        self.X, self.K, self.O = X, K, O

    @cached_property
    def mean_key(self) -> Float[Tensor, " d"]:
        return unit_rows(_at_most_one(self.K).mean(0))

    @cached_property
    def _key_directions(self) -> Float[Tensor, "s d"]:
        """Where many rows look at once: the mean key, centres of clusters of keys, ± their leading axes, few keys."""
        n, d = self.K.shape
        U = unit_rows(self.K)
        K = _at_most_one(self.K)
        parts = [self.mean_key[None], _centres(U, min(8, n))]
        _, axes = torch.linalg.eigh(K.mT @ K if d <= n else K @ K.mT)
        axes = axes[:, -4:] if d <= n else K.mT @ axes[:, -4:]
        parts += [unit_rows(axes.mT), -unit_rows(axes.mT)]
        if n <= SHORT:  # a short text: each key, and mixtures in which a few of them dominate
            mixture = np.random.default_rng(0).exponential(size=(64, n)) ** 2
            parts += [U, unit_rows(torch.from_numpy(mixture).to(U) @ U)]
        return torch.cat(parts)

    def directions(self, i: Int[Tensor, "p m"]) -> Float[Tensor, "p s m d"]:
        """All of them, each also with 0.7 of the way from what the rows put out to word i."""
        x = self.X[i]  # (p, m, d)
        away = unit_rows(x - self.O.mean(0))
        toward = self._key_directions[:, None] + 0.7 * away[:, None]  # (p, s, m, d)
        rest = torch.stack([self.mean_key.expand_as(x), away, -away, -x], 1)
        return torch.cat([rest, toward], 1)

    def leading(self, i: Int[Tensor, "p m"]) -> Float[Tensor, "p 1 m d"]:
        """The mean key."""
        return self.mean_key.expand(len(i), 1, i.shape[1], len(self.mean_key))


def unit_rows(v: Float[Tensor, "*rows d"]) -> Float[Tensor, "*rows d"]:
    """v/‖v‖ along the last axis; 0 stays 0."""
    # Only where they would overflow, since dividing twice rounds twice.
    if v.numel() and float(v.abs().max()) > math.sqrt(torch.finfo(v.dtype).max / v.shape[-1]):
        v = v / v.abs().amax(-1, keepdim=True).clamp_min(1)
    return v / v.norm(dim=-1, keepdim=True).clamp_min(torch.finfo(v.dtype).tiny)


def _at_most_one(K: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    """Keys of the same directions and proportions, whose squares and sums do not overflow; small ones as they are."""
    largest = K.abs().max()
    return K / largest if float(largest) > math.sqrt(torch.finfo(K.dtype).max / K.numel()) else K


def _centres(U: Float[Tensor, "n d"], k: int) -> Float[Tensor, "k d"]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an empty cluster is no harm: equal words make them
        centres, _ = kmeans2(U.double().cpu().numpy(), k, iter=10, minit="++", rng=np.random.default_rng(0))
    return unit_rows(torch.from_numpy(centres).to(U))


class KeyedProbe(Probe, ABC):
    """A Probe of one attention layer, whose searches start along its keys."""

    K: Float[Tensor, "n d"]
    O: Float[Tensor, "n d"]
    P: Float[Tensor, "n n"]
    score: Score

    @abstractmethod
    def attention(self, y: Float[Tensor, "b d"], i: Int[Tensor, " b"]) -> Float[Tensor, "b n"]:
        """The attention of every row on the changed word after the change (`P[:, i]` is that before it)."""

    def attention_shares(self, y: Tensor, i: Tensor) -> tuple[Tensor, Tensor] | None:
        return (self.P[:, i], self.attention(y, i)) if self.score.normalised else None  # others are no shares

    @cached_property
    def _starts(self) -> KeyStarts:
        return KeyStarts(self.X, self.K, self.O)

    def directions(self, i: Int[Tensor, "p m"]) -> Float[Tensor, "p s m d"]:
        return self._starts.directions(i)

    def leading_direction(self, i: Int[Tensor, "p m"]) -> Float[Tensor, "p 1 m d"]:
        return self._starts.leading(i)
