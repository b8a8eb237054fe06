"""The first layer of random features, V ∈ R^{k×D}, as n blocks V = [V_1 … V_n] of d columns, one for each word.

Each block is drawn from a generator keyed by (seed, block): any of them can be redrawn alone, and V, which is the size
of n·d·k numbers (106 GB in float64 at n = 150, d = 768, k = D), is never held.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from oneword.checks import whole_number
from oneword.errors import RangeError, ShapeError
from oneword.memory import check_memory
from oneword.random import normal
from oneword.text.context import check_finite


@dataclass(frozen=True, eq=False)
class Blocks:
    """V as its blocks: redrawn from `seed` with standard deviation `scale`, or cut out of `given`."""

    n: int
    d: int
    k: int
    scale: float
    seed: int | None
    like: Tensor  # an empty tensor of the map's dtype and device
    given: Float[Tensor, "k D"] | None = None

    def __post_init__(self) -> None:
        check_sizes(self.n, self.d, self.k)
        if self.given is not None:
            if self.given.shape != (self.k, self.n * self.d):
                raise ShapeError(
                    f"expected V of shape (k, n·d) = ({self.k}, {self.n * self.d}), got {tuple(self.given.shape)}"
                )
            check_finite(self.given, "V")
        else:
            check_memory(self.bytes, f"one block of V (k = {self.k:,} × d = {self.d:,}, {self.like.dtype})")

    @property
    def bytes(self) -> int:
        """The size of one block."""
        return self.k * self.d * self.like.element_size()

    def __getitem__(self, i: int) -> Float[Tensor, "k d"]:
        """V_i."""
        if self.given is not None:
            return self.given[:, i * self.d : (i + 1) * self.d]
        assert self.seed is not None
        like = self.like
        return normal(self.k, self.d, self.scale, self.seed, "V", 1, i, dtype=like.dtype, device=like.device)

    def apply(self, X: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch k"]:
        """V·flat(X), one block after the other."""
        z = X.new_zeros((*X.shape[:-2], self.k))
        for i in range(self.n):
            z = z + X[..., i, :] @ self[i].mT
        return z


def bands(V: Float[Tensor, "k d"], rows: int = 8192) -> Iterator[tuple[slice, Float[Tensor, "band d"]]]:
    """V in float64, a band of rows at a time: what is summed over neurons never needs a second copy of V."""
    for first in range(0, len(V), rows):
        yield slice(first, first + rows), V[first : first + rows].double()


def check_sizes(n: int, d: int, k: int) -> None:
    """Refuse sizes that make no layer."""
    n, d, k = whole_number("n", n), whole_number("d", d), whole_number("k", k)
    if min(n, d, k) < 1:
        raise RangeError(f"expected n, d and k of at least 1, got n = {n}, d = {d}, k = {k}")


def gaussian_scale(fan_in: int, beta: float = 1.0) -> float:
    """Standard deviation of entries N(0, β/fan_in)."""
    return math.sqrt(beta / fan_in)
