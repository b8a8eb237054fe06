"""A text as the maps see it: X ∈ R^{n×d}, one row a token, and the words those rows belong to.

`gaussian` and `clustered` draw synthetic texts for theory: every row has norm √d.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from oneword.checks import check_precision, first_line, number, shown, whole_number
from oneword.errors import DTypeError, NonFiniteError, RangeError, ShapeError, TextError
from oneword.memory import check_memory
from oneword.random import like, normal, resolve_seed

if TYPE_CHECKING:
    from oneword.text.encoders import Encoder


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
    | `text` | | the text as it was given; None for arrays |
    | `spans` | | for each word, where it stands: `text[start:end]` is the word; None if it is not in the text |
    | `special` | | for each word, whether the tokenizer added it ([CLS], [SEP], <s> …) |
    | `encoder` | | what made X out of the text; None for arrays |
    """

    X: Float[Tensor, "n d"]
    words: tuple[str, ...] = ()
    rows: tuple[tuple[int, ...], ...] = ()
    tokens: tuple[str, ...] = ()
    label: int | None = None
    source: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({"text": "given as an array"}))
    text: str | None = field(default=None, repr=False)
    spans: tuple[tuple[int, int] | None, ...] = field(default=(), repr=False)
    special: tuple[bool, ...] = field(default=(), repr=False)
    encoder: Encoder | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        X = check_text(self.X)
        for name in ("words", "rows", "tokens", "spans", "special"):
            _check_entries(name, getattr(self, name))
        words = tuple(self.words) or tuple(f"w{i}" for i in range(len(X)))
        rows = tuple(tuple(whole_number("rows", row) for row in word) for word in self.rows) or tuple(
            (i,) for i in range(len(X))
        )
        tokens = tuple(self.tokens) or (words if len(words) == len(X) else tuple(f"t{i}" for i in range(len(X))))
        spans = tuple(self.spans) or (None,) * len(words)
        special = tuple(self.special) or (False,) * len(words)
        for name, given in (("rows", rows), ("spans", spans), ("special", special)):
            if len(given) != len(words):
                raise ShapeError(f"expected one entry of {name} for each of {len(words)} words, got {len(given)}")
        if not all(isinstance(word, str) for word in (*words, *tokens)):
            raise TextError("expected words and tokens as strings, got other values: write words=('I', 'love')")
        owned = [row for word in rows for row in word]
        if any(not word for word in rows) or len(set(owned)) != len(owned) or not set(owned) <= set(range(len(X))):
            raise ShapeError(f"expected each word to own its own rows out of 0 … {len(X) - 1}, got {rows}")
        filled = {"words": words, "rows": rows, "tokens": tokens, "spans": spans, "special": special}
        for name, value in filled.items():
            object.__setattr__(self, name, value)

    @property
    def n(self) -> int:
        return int(self.X.shape[0])

    @property
    def d(self) -> int:
        return int(self.X.shape[1])

    def by_token(self) -> Context:
        """The same text with each token a word of its own, without spans: the bytes of a character would share one."""
        special = {row for word, rows in enumerate(self.rows) if self.special[word] for row in rows}
        rows, kinds = tuple((row,) for row in range(self.n)), tuple(row in special for row in range(self.n))
        return replace(self, words=self.tokens, rows=rows, spans=(), special=kinds)


def _check_entries(name: str, given: object) -> None:
    """Raise ShapeError unless this is a list, of lists where each word has rows."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise ShapeError(f"expected {name} as a list with one entry for each word, got {shown(given)}: give one")
    if name == "rows" and not all(isinstance(word, Sequence) and not isinstance(word, str) for word in given):
        raise ShapeError(f"expected rows as one list of numbers for each word, got {shown(given)}: write [[0], [1, 2]]")


def as_context(x: Context | Tensor | np.ndarray | Sequence[Sequence[float]]) -> Context:
    """A Context as it is; an array becomes a Context whose words are w0, w1, …"""
    if isinstance(x, Context):
        return x
    if not isinstance(x, Tensor):
        try:
            array = np.asarray(x)
        except (ValueError, TypeError, OverflowError) as error:
            raise ShapeError(f"expected an n × d array, got something ragged ({first_line(error)})") from None
        if array.dtype.kind not in "biuf":
            remedy = "give an n × d array, or encode a text with ow.encode"
            raise DTypeError(f"expected X in float32 or float64, got {shown(x)}: {remedy}")
        if array.dtype.kind != "f":
            how = "X.astype(float)" if isinstance(x, np.ndarray) else "numpy.array(X, float)"
            raise DTypeError(f"expected X in float32 or float64, got {array.dtype}: convert it with {how}")
        check_precision(array.dtype)
        x = torch.from_numpy(np.ascontiguousarray(array))
    return Context(x)


def check_text(X: Tensor) -> Float[Tensor, "n d"]:
    """X itself if it is a text: two axes, at least one word, floating point, finite."""
    if not isinstance(X, Tensor):
        raise DTypeError(f"expected X as a torch tensor, got {shown(X)}: convert it with torch.as_tensor")
    if X.ndim != 2 or 0 in X.shape:
        raise ShapeError(f"expected X of shape (n, d) with n, d ≥ 1, got {tuple(X.shape)}")
    check_precision(X.dtype)
    check_finite(X, "X")
    return X


def check_finite(values: Tensor, name: str) -> None:
    """Refuse NaN and infinities, and count them."""
    bad = int((~torch.isfinite(values)).sum())
    if bad:
        where = f"{bad} of {values.numel()} entries of {name}"
        raise NonFiniteError(f"expected finite numbers, got NaN or infinity in {where}: remove them")


def spread_positions(positions: Sequence[int], count: int) -> list[int]:
    """`count` of the positions, evenly spread; all of them if there are no more than that."""
    if count >= len(positions):
        return list(positions)
    return [positions[(2 * k + 1) * len(positions) // (2 * count)] for k in range(count)]


# Synthetic texts ------------------------------------------------------------------------------------------------------


def gaussian(
    n: int,
    d: int,
    *,
    cosine: float = 0.07,
    seed: int | None = None,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> Context:
    """n Gaussian words on the sphere of radius √d, whose pairwise cosine is `cosine` on average.

    Drawn from `seed` (default 0), or from `generator`. Raises RangeError for sizes below 1 and cosines beyond 0 … 1.
    """
    return _mixture(n, d, 1, cosine, cosine, "gaussian", seed, generator, dtype, device)


def clustered(
    n: int,
    d: int,
    *,
    clusters: int = 4,
    within: float = 0.6,
    between: float = 0.0,
    seed: int | None = None,
    generator: torch.Generator | None = None,
    dtype: torch.dtype = torch.float64,
    device: torch.device | str = "cpu",
) -> Context:
    """n words in `clusters` groups: average cosine `within` a group and `between` two groups, each of norm √d.

    Drawn from `seed` (default 0), or from `generator`. Raises RangeError unless 0 ≤ between ≤ within ≤ 1.
    """
    return _mixture(n, d, clusters, within, between, "clustered", seed, generator, dtype, device)


def _mixture(
    n: int,
    d: int,
    clusters: int,
    within: float,
    between: float,
    name: str,
    seed: int | None,
    generator: torch.Generator | None,
    dtype: torch.dtype,
    device: torch.device | str,
) -> Context:
    n, d, clusters = whole_number("n", n), whole_number("d", d), whole_number("clusters", clusters)
    within, between = (number("cosine", value, finite=False) for value in (within, between))
    place = like(dtype, device)
    if n < 1 or d < 1 or clusters < 1:
        raise RangeError(f"expected n, d and clusters of at least 1, got n = {n}, d = {d}, clusters = {clusters}")
    if not 0 <= between <= within <= 1:
        raise RangeError(f"expected cosines 0 ≤ between ≤ within ≤ 1, got between = {between:g}, within = {within:g}")
    check_memory(4 * n * d * 8, f"a text of {n:,} words of dimension {d:,}")
    seed = resolve_seed(seed, generator)
    parts = (("common", 1), ("groups", clusters), ("own", n))
    common, groups, own = (normal(rows, d, 1.0, seed, name, part) for part, rows in parts)
    X = math.sqrt(between) * common + math.sqrt(1 - within) * own
    X = X + math.sqrt(within - between) * groups[torch.arange(n) % clusters]
    source = MappingProxyType(
        {"text": name, "seed": seed, "n": n, "d": d, "clusters": clusters, "within": within, "between": between}
    )
    return Context(_on_sphere(X).to(place), source=source)


def _on_sphere(X: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
    return X / X.norm(dim=1, keepdim=True) * math.sqrt(X.shape[1])
