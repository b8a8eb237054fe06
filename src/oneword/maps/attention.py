"""Random attention features, φ(X) = A(X W Xᵀ/√d) X with A the softmax of each row (Eq. 3) or another score."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, final

import torch
from jaxtyping import Float
from torch import Tensor

from oneword.checks import whole_number
from oneword.errors import RangeError, ShapeError
from oneword.maps.attention_probe import AttentionProbe, RescoredProbe
from oneword.maps.base import FeatureMap, check_matches, check_tensor
from oneword.maps.scores import GroupedScore, Score, Softmax, score
from oneword.memory import check_memory
from oneword.random import normal, resolve_seed
from oneword.text.context import check_finite


@final
class AttentionFeatures(FeatureMap):
    """RAF of the paper. `W` (d × d) plays W_Qᵀ W_K; `score` is a Score or the name of one in `maps.scores.SCORES`."""

    W: Float[Tensor, "d d"]

    def __init__(self, W: Float[Tensor, "d d"], *, score: str | Score = Softmax(), seed: int | None = None) -> None:  # noqa: B008
        super().__init__()
        check_tensor(W, "W")
        if W.ndim != 2 or W.shape[0] != W.shape[1]:
            raise ShapeError(f"expected W of shape (d, d), got {tuple(W.shape)}")
        check_finite(W, "W")
        self.register_buffer("W", W.detach())
        self.score = _score(score)
        self.seed = seed
        self._symmetric: tuple[Tensor, int, Tensor] | None = None

    @classmethod
    def draw(
        cls,
        d: int,
        *,
        score: str | Score = Softmax(),  # noqa: B008
        seed: int | None = None,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str = "cpu",
    ) -> AttentionFeatures:
        """W_ab ~ N(0, 1/d), independent."""
        d = whole_number("d", d)
        if d < 1:
            raise RangeError(f"expected d of at least 1, got {d}")
        check_memory(8 * d * d, f"W of {d:,} × {d:,}")
        seed = resolve_seed(seed, generator)
        return cls(normal(d, d, 1 / math.sqrt(d), seed, "W", dtype=dtype, device=device), score=score, seed=seed)

    @property
    def d(self) -> int:
        return int(self.W.shape[0])

    @property
    def W_symmetric(self) -> Float[Tensor, "d d"]:
        """(W + Wᵀ)/(2√d), which gives a word's score with itself; made anew only when W has changed."""
        made = self._symmetric
        if made is None or made[0] is not self.W or made[1] != self.W._version:
            made = self._symmetric = self.W, self.W._version, (self.W + self.W.mT) / (2 * math.sqrt(self.d))
        return made[2]

    def scores(self, X: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n n"]:
        """X W Xᵀ/√d."""
        return X @ self.W @ X.mT / math.sqrt(self.d)

    def forward(self, X: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n d"]:
        check_matches(X, self.W, self.d)
        return self.score.attend(self.scores(X)) @ X

    def at(self, X: Float[Tensor, "n d"]) -> AttentionProbe | RescoredProbe:
        return AttentionProbe(self, X) if isinstance(self.score, GroupedScore) else RescoredProbe(self, X)

    def describe(self) -> Mapping[str, Any]:
        return {"map": "AttentionFeatures", "score": self.score.name, "d": self.d, "seed": self.seed}


def draw(n: int, d: int, *, score: str = "softmax", **weights: Any) -> AttentionFeatures:
    """Attention for texts of any n words of dimension d; `weights` are arguments of `AttentionFeatures.draw`."""
    return AttentionFeatures.draw(d, score=score, **weights)


_score = score  # the name is taken by the argument inside the class
