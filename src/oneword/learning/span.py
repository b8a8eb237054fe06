"""The span of the training features: Φ (N × p) and the Cholesky factor of its Gram matrix K = ΦΦᵀ.

Φ⁺ = ΦᵀK⁻¹ and P⊥v = v − ΦᵀK⁻¹Φv, so that one vector costs O(Np): neither Φ⁺ nor anything of size p × p ever exists.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from oneword.errors import RankError
from oneword.text.context import check_finite

# Two samples are named as equal if their features differ by less than this part of them.
SAME = 1e-5


@dataclass(frozen=True, eq=False)
class Span:
    """Features whose Gram matrix can be inverted."""

    features: Float[Tensor, "N p"]
    factor: Float[Tensor, "N N"]  # L, K = LLᵀ
    condition: float  # of K
    lambda_min: float  # of K

    @classmethod
    def of(cls, features: Float[Tensor, "N p"]) -> Span:
        """Factor K once; refuse features that are linearly dependent."""
        N, p = features.shape
        if p <= N:
            raise RankError(f"expected fewer samples than features, got N = {N} and p = {p}: drop samples or widen φ")
        check_finite(features, "the features of the training texts")
        K = features @ features.mT
        spectrum = torch.linalg.eigvalsh(K)
        least, largest = float(spectrum[0]), float(spectrum[-1])
        factor, failed = torch.linalg.cholesky_ex(K)
        # What rounding makes of an eigenvalue 0: each entry of K is a sum, and a row of K has N of them.
        if int(failed) or least <= 4 * N * torch.finfo(K.dtype).eps * largest:
            raise RankError(_dependence(features, K))
        return cls(features, factor, largest / least, least)

    @property
    def N(self) -> int:
        return int(self.features.shape[0])

    @property
    def p(self) -> int:
        return int(self.features.shape[1])

    def nearest(self, start: Float[Tensor, " p"], Y: Float[Tensor, " N"]) -> Float[Tensor, " p"]:
        """start + Φ⁺(Y − Φ start): the solution of Φθ = Y nearest to `start`."""
        for _ in range(2):  # the second pass takes away what rounding left of the first
            start = start + self._pull((Y - self.features @ start)[:, None])[0]
        return start

    def outside(self, v: Float[Tensor, "t p"]) -> Float[Tensor, "t p"]:
        """P⊥v: what of each v lies outside the span."""
        for _ in range(2):
            v = v - self._pull(self.features @ v.mT)
        return v

    def member(self, v: Float[Tensor, " p"]) -> int | None:
        """The sample that v coincides with, if there is one."""
        away = (self.features - v).square().sum(1)
        nearest = int(away.argmin())
        return nearest if float(away[nearest]) <= SAME**2 * float(v.square().sum()) else None

    def _pull(self, residual: Float[Tensor, "N t"]) -> Float[Tensor, "t p"]:
        """Φ⁺ residual."""
        return torch.cholesky_solve(residual, self.factor).mT @ self.features


def _dependence(features: Float[Tensor, "N p"], K: Float[Tensor, "N N"]) -> str:
    """Why K has no inverse, in one line."""
    size = K.diagonal()
    empty = (size == 0).nonzero()[:, 0].tolist()
    if empty:
        return f"expected features that do not vanish, got φ = 0 for samples {_some(empty)}: drop them"
    # From K where they might be equal, from the rows themselves whether they are: differences of K are half rounding.
    near = (size[:, None] + size - 2 * K <= 100 * SAME**2 * size).triu(1).nonzero().tolist()
    pairs = [(i, j) for i, j in near if float((features[i] - features[j]).norm()) <= SAME * float(features[i].norm())]
    if pairs:
        return (
            f"expected linearly independent features, got samples that coincide: {_some(pairs)}; "
            "keep one of each (texts can become equal when they are cut to n words)"
        )
    return (
        f"expected linearly independent features, got {len(K)} samples that depend linearly on each other, with p = "
        f"{features.shape[1]} features and no two samples equal: use fewer samples, or a map with more features"
    )


def _some(items: list[int] | list[tuple[int, int]]) -> str:
    shown = ", ".join(str(item) for item in items[:5])
    return shown if len(items) <= 5 else f"{shown} and {len(items) - 5} more"
