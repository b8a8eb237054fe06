"""Multi-head attention with separate queries, keys and values, as in a transformer layer, drawn at random or given.

    φ(X) = [A_1 X W_V¹, …, A_H X W_Vᴴ] W_O,     A_h = score(X W_Qʰ (X W_Kʰ)ᵀ/√d_h), masked where causal

Without W_O the heads stand side by side. RAF (Eq. 3) is one head with W_Qʰ W_Kʰᵀ = W and W_V = I.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, final

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from oneword.checks import flag, whole_number
from oneword.errors import DTypeError, RangeError, ShapeError
from oneword.maps.base import FeatureMap, check_matches, check_tensor
from oneword.maps.multihead_probe import MultiHeadProbe
from oneword.maps.scores import Score, Softmax, score
from oneword.memory import check_memory
from oneword.random import normal, resolve_seed
from oneword.text.context import check_finite


@final
class MultiHeadAttention(FeatureMap):
    """Several heads beside each other.

    | argument | paper | shape |
    |---|---|---|
    | `W_Q`, `W_K` | queries XW_Q, keys XW_K of each head | (heads, d, d_h) |
    | `W_V` | values XW_V of each head | (heads, d, d_v), mostly d_v = d_h |
    | `W_O` | what is made of the heads' outputs; None: they are the features | (heads·d_v, p) |
    | `causal` | word j attends to the words l ≤ j only | |
    """

    W_Q: Float[Tensor, "heads d d_h"]
    W_K: Float[Tensor, "heads d d_h"]
    W_V: Float[Tensor, "heads d d_v"]
    W_O: Float[Tensor, "heads_times_d_v p"] | None

    def __init__(
        self,
        W_Q: Float[Tensor, "heads d d_h"],
        W_K: Float[Tensor, "heads d d_h"],
        W_V: Float[Tensor, "heads d d_v"],
        W_O: Float[Tensor, "heads_times_d_v p"] | None = None,
        *,
        causal: bool = False,
        score: str | Score = Softmax(),  # noqa: B008
        seed: int | None = None,
    ) -> None:
        super().__init__()
        for name, W in (("W_Q", W_Q), ("W_K", W_K), ("W_V", W_V), ("W_O", W_O)):
            if W is not None or name != "W_O":
                check_tensor(W, name)
        _check_shapes(W_Q, W_K, W_V, W_O)
        for name, W in (("W_Q", W_Q), ("W_K", W_K), ("W_V", W_V), ("W_O", W_O)):
            if W is not None:
                check_finite(W, name)
                _check_alike(W, W_Q, name)
            self.register_buffer(name, None if W is None else W.detach())
        self.causal, self.score, self.seed = causal, _score(score), seed

    @classmethod
    def draw(
        cls,
        d: int,
        *,
        heads: int = 8,
        head_width: int | None = None,
        output: bool = False,
        causal: bool = False,
        score: str | Score = Softmax(),  # noqa: B008
        seed: int | None = None,
        generator: torch.Generator | None = None,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str = "cpu",
    ) -> MultiHeadAttention:
        """Entries of W_Q, W_K and W_V ~ N(0, 1/d), independent; `output` adds W_O ~ N(0, 1/(heads·d_h)), d columns.

        With words of norm √d, queries, keys and values are then standard normal vectors, so that the scores of every
        head have variance 1 and its keys in the space of words have length about 1, both as in RAF with W ~ N(0, 1/d).
        A head is drawn from (seed, head): more heads continue fewer.
        """
        d, heads = whole_number("d", d), whole_number("heads", heads)
        head_width = None if head_width is None else whole_number("head_width", head_width)
        head_width = d // heads if head_width is None and heads >= 1 else head_width
        if d < 1 or heads < 1 or head_width is None or head_width < 1:
            raise RangeError(
                f"expected d ≥ 1, heads ≥ 1 and head_width ≥ 1, got d = {d}, heads = {heads}, "
                f"head_width = {head_width}: give fewer heads or a head_width"
            )
        check_memory(32 * d * heads * head_width, f"{heads:,} heads of {d:,} × {head_width:,}")
        seed = resolve_seed(seed, generator)
        drawn = partial(normal, d, head_width, 1 / math.sqrt(d), seed, dtype=dtype, device=device)
        W_Q, W_K, W_V = (torch.stack([drawn(name, h) for h in range(heads)]) for name in ("W_Q", "W_K", "W_V"))
        width = heads * head_width
        W_O = (
            normal(width, d, 1 / math.sqrt(width), seed, "W_O", dtype=dtype, device=device)
            if flag("output", output)
            else None
        )
        return cls(W_Q, W_K, W_V, W_O, causal=causal, score=score, seed=seed)

    @property
    def d(self) -> int:
        return int(self.W_Q.shape[1])

    @property
    def heads(self) -> int:
        return int(self.W_Q.shape[0])

    @property
    def head_width(self) -> int:
        return int(self.W_Q.shape[2])

    def hidden(self, n: int) -> Bool[Tensor, "n n"]:
        """[j, l]: whether row j must not see word l."""
        hidden = torch.ones((n, n), dtype=torch.bool, device=self.W_Q.device).triu(1)
        return hidden if self.causal else torch.zeros_like(hidden)

    def scores(self, X: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch heads n n"]:
        """X W_Q (X W_K)ᵀ/√d_h of each head, −∞ where hidden."""
        X = X[..., None, :, :]
        S = (X @ self.W_Q) @ (X @ self.W_K).mT / math.sqrt(self.head_width)
        return S.masked_fill(self.hidden(X.shape[-2]), -torch.inf) if self.causal else S

    def forward(self, X: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch n p"]:
        check_matches(X, self.W_Q, self.d)
        heads = self.score.attend(self.scores(X)) @ (X[..., None, :, :] @ self.W_V)
        together = heads.transpose(-3, -2).flatten(-2)
        return together if self.W_O is None else together @ self.W_O

    def at(self, X: Float[Tensor, "n d"]) -> MultiHeadProbe:
        return MultiHeadProbe(self, X)

    def describe(self) -> Mapping[str, Any]:
        return {
            "map": "MultiHeadAttention",
            "score": self.score.name,
            "d": self.d,
            "heads": self.heads,
            "head_width": self.head_width,
            "output": self.W_O is not None,
            "causal": self.causal,
            "seed": self.seed,
        }


def _check_shapes(W_Q: Tensor, W_K: Tensor, W_V: Tensor, W_O: Tensor | None) -> None:
    fits = W_Q.ndim == W_V.ndim == 3 and W_Q.shape == W_K.shape and W_Q.shape[:2] == W_V.shape[:2]
    fits = fits and (W_O is None or (W_O.ndim == 2 and len(W_O) == W_V.shape[0] * W_V.shape[2]))
    if not fits or min(*W_Q.shape, *W_V.shape) < 1:
        got = ", ".join(str(tuple(W.shape)) for W in (W_Q, W_K, W_V, W_O) if W is not None)
        raise ShapeError(
            f"expected W_Q and W_K of shape (heads, d, d_h), W_V (heads, d, d_v) and W_O (heads·d_v, p), got {got}"
        )


def _check_alike(W: Tensor, first: Tensor, name: str) -> None:
    if W.dtype != first.dtype or W.device != first.device:
        raise DTypeError(
            f"expected {name} in the {first.dtype} on {first.device} of W_Q, got {W.dtype} on {W.device}: "
            f"convert it with {name}.to(W_Q)"
        )


_score = score  # the name is taken by the argument inside the class
