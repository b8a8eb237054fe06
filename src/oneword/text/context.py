"""A text as the maps see it: X ∈ R^{n×d}, one row a token, and the words those rows belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from oneword.errors import DTypeError, NonFiniteError, ShapeError


@dataclass(frozen=True, eq=False)
class Context:
    """A text: its words, the tokens they consist of, and their embeddings.

    | field | paper | meaning |
    |---|---|---|
    | `X` | X, rows x_i | embeddings, each of norm √d for encoded and synthetic texts |
    | `words` | | what a person reads, one entry a word |
    | `rows` | i | for each word, the rows of X that it owns |
    | `tokens` | | one entry a row of X |
    | `label` | y | +1, −1 or None |
    | `source` | | where X comes from (encoder, seed …), copied into every result |
    """

    X: Float[Tensor, "n d"]
    words: tuple[str, ...] = ()
    rows: tuple[tuple[int, ...], ...] = ()
    tokens: tuple[str, ...] = ()
    label: int | None = None
    source: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({"text": "given as an array"}))

    def __post_init__(self) -> None:
        X = check_text(self.X)
        words = tuple(self.words) or tuple(f"w{i}" for i in range(len(X)))
        rows = tuple(tuple(int(row) for row in word) for word in self.rows) or tuple((i,) for i in range(len(X)))
        tokens = tuple(self.tokens) or (words if len(words) == len(X) else tuple(f"t{i}" for i in range(len(X))))
        if len(words) != len(rows):
            raise ShapeError(
                f"expected one entry of rows for each word, got {len(words)} words and {len(rows)} entries"
            )
        owned = [row for word in rows for row in word]
        if any(not word for word in rows) or len(set(owned)) != len(owned) or not set(owned) <= set(range(len(X))):
            raise ShapeError(f"expected each word to own its own rows out of 0 … {len(X) - 1}, got {rows}")
        for name, value in (("words", words), ("rows", rows), ("tokens", tokens)):
            object.__setattr__(self, name, value)

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        return int(self.X.shape[1])


def as_context(x: Context | Tensor | np.ndarray | Sequence[Sequence[float]]) -> Context:
    """A Context as it is; an array becomes a Context whose words are w0, w1, …"""
    if isinstance(x, Context):
        return x
    if not isinstance(x, Tensor):
        try:
            array = np.asarray(x)
        except ValueError as error:
            raise ShapeError(f"expected an n × d array, got something ragged ({error})") from None
        if array.dtype not in (np.float32, np.float64):
            raise DTypeError(f"expected X in float32 or float64, got {array.dtype}: convert it with X.astype(float)")
        x = torch.from_numpy(np.ascontiguousarray(array))
    return Context(x)


def check_text(X: Tensor) -> Float[Tensor, "n d"]:
    """X itself if it is a text: two axes, at least one word, floating point, finite."""
    if X.ndim != 2 or 0 in X.shape:
        raise ShapeError(f"expected X of shape (n, d) with n, d ≥ 1, got {tuple(X.shape)}")
    if X.dtype not in (torch.float32, torch.float64):
        raise DTypeError(f"expected X in float32 or float64, got {X.dtype}: convert it with X.double()")
    check_finite(X, "X")
    return X


def check_finite(values: Tensor, name: str) -> None:
    """Refuse NaN and infinities, and count them."""
    bad = int((~torch.isfinite(values)).sum())
    if bad:
        raise NonFiniteError(
            f"expected finite numbers, got NaN or infinity in {bad} of {values.numel()} entries of {name}: remove them"
        )
