"""Layer 0 of an encoder: from the id of a word v and its position i to a row of X.

    r_vi = P · LayerNorm(w_v + c_i) + p,      y_vi = √d · r / ‖r‖  with r the first d coordinates of r_vi

LayerNorm, the projection (P, p) and the places c_i are each left out where the encoder has none. Everything is computed
in float64 from the stored weights, and only then cast. Before the rescaling a row is affine in w_v and in c_i, apart
from one number s_vi: `affine` gives these parts, so that a whole vocabulary at every position never has to be held.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional as F

from oneword.errors import RangeError, ZeroNormError
from oneword.memory import check_memory

# Rows are computed in pieces of about this many numbers: what is in between stays in the processor's cache.
_PIECE = 1 << 18


class ZeroRowError(ZeroNormError):
    """A row that cannot be rescaled, and its number among those asked for."""

    def __init__(self, row: int, d: int) -> None:
        super().__init__(f"expected rows of positive norm, got 0 in row {row} in the first {d} coordinates")
        self.row = row


@dataclass(frozen=True, eq=False)
class AffineRows:
    """Rows of words v at positions i: y_vi = √d·r/‖r‖ with r = (a_v + c_i)/s_vi + b.

    `shared`: the rows do not depend on the position, one table serves them all.
    """

    a: Float[Tensor, "words d"]
    c: Float[Tensor, "places d"]
    s: Float[Tensor, "words places"]
    b: Float[Tensor, " d"]
    shared: bool

    def at(self, place: int) -> Float[Tensor, "words d"]:
        """The rows y_vi of all words at one of the places (an index into `c`, not a position of the text)."""
        return on_sphere((self.a + self.c[place]) / self.s[:, place, None] + self.b)


@dataclass(frozen=True, eq=False)
class Norm:
    """LayerNorm: x ↦ gain ⊙ (x − mean(x)) / √(var(x) + eps) + shift."""

    gain: Float[Tensor, " inner"]
    shift: Float[Tensor, " inner"]
    eps: float


@dataclass(frozen=True, eq=False)
class Projection:
    """x ↦ P x + p, in encoders whose embeddings are narrower than their layers."""

    weight: Float[Tensor, "width inner"]
    bias: Float[Tensor, " width"]


@dataclass(frozen=True, eq=False)
class Layer0:
    """What turns words into rows; `places` is None for bare word embeddings and encoders that rotate instead.

    | field | formula | meaning |
    |---|---|---|
    | `word` | w_v | as stored; the one large table, so not in float64 |
    | `places` | c_i | what is added at a position (position and type embedding), in float64 |
    | `norm` | | in float64 |
    | `projection` | P, p | in float64 |
    | `rescaled` | | rows have norm √d; otherwise they keep their own, as a model takes them |
    """

    word: Float[Tensor, "vocabulary inner"] = field(repr=False)
    places: Float[Tensor, "positions inner"] | None = field(default=None, repr=False)
    norm: Norm | None = field(default=None, repr=False)
    projection: Projection | None = field(default=None, repr=False)
    rescaled: bool = True

    @property
    def width(self) -> int:
        return int((self.word.T if self.projection is None else self.projection.weight).shape[0])

    def vanishing(self, ids: Int[Tensor, " rows"]) -> Bool[Tensor, " rows"]:
        """Which of these words have a row of zeros at every position: their vector is zero and nothing is added."""
        if self.places is not None or self.norm is not None or self.projection is not None:
            return torch.zeros(len(ids), dtype=torch.bool)
        pieces = ids.split(max(1, _PIECE // self.width))
        return torch.cat([~self.word[piece].any(1) for piece in pieces]) if len(ids) else ids.bool()

    def raw(self, ids: Int[Tensor, " rows"], at: Int[Tensor, " rows"]) -> Float[Tensor, "rows width"]:
        """The rows r_vi as the encoder itself computes them: all coordinates, not rescaled."""
        total = self.word[ids].double() if self.places is None else self.places[at] + self.word[ids]
        if self.norm is not None:
            total = F.layer_norm(total, total.shape[1:], self.norm.gain, self.norm.shift, self.norm.eps)
        return total if self.projection is None else F.linear(total, self.projection.weight, self.projection.bias)

    def rows(
        self, ids: Int[Tensor, " rows"], at: Int[Tensor, " rows"], d: int, dtype: torch.dtype
    ) -> Float[Tensor, "rows d"]:
        """The rows y_vi of these words at these positions, one position a word."""
        check_memory(2 * len(ids) * d * dtype.itemsize, f"{len(ids):,} embedded words of dimension {d:,}")
        out = torch.empty((len(ids), d), dtype=dtype)
        count = max(1, _PIECE // self.width)
        for first in range(0, len(ids), count):
            piece = slice(first, first + count)
            try:
                rows = self.raw(ids[piece], at[piece])[:, :d]
                out[piece] = on_sphere(rows) if self.rescaled else rows
            except ZeroRowError as error:
                raise ZeroRowError(first + error.row, d) from None
        return out

    def affine(
        self, ids: Int[Tensor, " words"], positions: Int[Tensor, " places"], d: int, dtype: torch.dtype = torch.float64
    ) -> AffineRows:
        """The parts of which the rows of every word at every one of the positions are made."""
        if not self.rescaled:
            raise RangeError("expected rows of norm √d, got those that a model takes, which keep their own: use rows()")
        v, i = len(ids), len(positions)
        numbers = v * (self.word.shape[1] + d + i) + i * d
        check_memory(2 * numbers * 8, f"{v:,} words of dimension {d:,} at {i:,} positions")
        w = self.word[ids].double()
        c = torch.zeros(i, w.shape[1], dtype=w.dtype) if self.places is None else self.places[positions]
        s = torch.ones(1, 1, dtype=w.dtype).expand(v, i)
        b = torch.zeros(w.shape[1], dtype=w.dtype)
        if self.norm is not None:
            w, c = (x - x.mean(dim=1, keepdim=True) for x in (w, c))
            s = ((w.square().mean(1)[:, None] + c.square().mean(1)) + (2 / w.shape[1]) * (w @ c.T)).clamp(min=0)
            s = (s + self.norm.eps).sqrt()
            w, c, b = w * self.norm.gain, c * self.norm.gain, self.norm.shift
        if self.projection is None:
            a, c, b = w[:, :d], c[:, :d], b[:d]
        else:
            P, p = self.projection.weight[:d], self.projection.bias[:d]
            a, c, b = w @ P.T, c @ P.T, P @ b + p
        a, c, s, b = (part.to(dtype) for part in (a, c, s, b))
        return AffineRows(a, c, s, b, shared=self.places is None)


def on_sphere(rows: Float[Tensor, "rows d"]) -> Float[Tensor, "rows d"]:
    """Every row rescaled to norm √d."""
    d = rows.shape[1]
    norm = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    if not norm.all():
        raise ZeroRowError(int((norm[:, 0] == 0).nonzero()[0, 0]), d)
    return rows * (math.sqrt(d) / norm)
