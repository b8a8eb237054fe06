"""Finite sets of new words: a whole vocabulary, or a list of one's own. A word of m tokens is replaced by words of m.

Unlike a Ball, such a set can be searched exhaustively, and what is found is the sup itself. Its words are real ones:
they mostly lie outside the ball ‖Δ‖ ≤ √d.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from oneword.errors import DTypeError, RangeError, ShapeError, TextError
from oneword.text.context import Context, check_finite
from oneword.text.encoders import Encoder, check_string
from oneword.text.layer0 import AffineRows


@dataclass(frozen=True, eq=False)
class Replacements(ABC):
    """The words that may stand where another stood. `names` are by number of tokens."""

    names: MappingProxyType[int, tuple[str, ...]] = field(repr=False)

    @property
    def count(self) -> int:
        return sum(map(len, self.names.values()))

    @abstractmethod
    def check(self, text: Context) -> None:
        """Refuse a text whose rows these words would not fit into."""

    @abstractmethod
    def affine(self, places: Int[Tensor, " p"], d: int, dtype: torch.dtype) -> AffineRows | None:
        """The rows of all words of one token at these rows of the text; None if they are the same at all of them."""

    @abstractmethod
    def rows(
        self, places: Int[Tensor, " m"], d: int, dtype: torch.dtype, some: Int[Tensor, " words"] | None = None
    ) -> Float[Tensor, "words m d"]:
        """The rows of words of m tokens, some or all of them, that stand at these rows of the text."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """For provenance."""


@dataclass(frozen=True, eq=False)
class _EncodedWords(Replacements, ABC):
    """Words as an encoder's tokens."""

    encoder: Encoder
    ids: MappingProxyType[int, Int[Tensor, "words m"]] = field(repr=False)
    _made: dict[tuple[tuple[int, ...], int, torch.dtype], AffineRows] = field(
        default_factory=dict, init=False, repr=False
    )

    def check(self, text: Context) -> None:
        if text.encoder is not None and text.encoder.describe() != self.encoder.describe():
            raise RangeError(
                f"expected the words of the text's own encoder, {text.encoder.name}, got those of "
                f"{self.encoder.name}: make them with .of(text.encoder)"
            )

    def affine(self, places: Tensor, d: int, dtype: torch.dtype) -> AffineRows | None:
        asked = (tuple(places.tolist()), d, dtype)
        if asked not in self._made:  # the last one is kept: several maps are measured on one text
            self._made.clear()
            self._made[asked] = self.encoder.affine(self.ids[1][:, 0], places, d=d, dtype=dtype)
        return None if self._made[asked].shared else self._made[asked]

    def rows(self, places: Tensor, d: int, dtype: torch.dtype, some: Tensor | None = None) -> Tensor:
        ids = self.ids[len(places)]
        return self.encoder.embed(ids if some is None else ids[some], d=d, dtype=dtype, positions=places)


@final
@dataclass(frozen=True, eq=False)
class Vocabulary(_EncodedWords):
    """The whole words of an encoder's vocabulary: no pieces of words, no special tokens."""

    filters: tuple[str, ...] = ()

    @classmethod
    def of(cls, encoder: Encoder | None, *, letters: bool = False, among: Iterable[str] | None = None) -> Vocabulary:
        """All of them; with `letters` those of letters only, with `among` those of a list (of frequent words, say)."""
        if not isinstance(encoder, Encoder):
            raise TextError(f"expected an encoder, got {encoder!r}: encode the text, or use Vectors.of for a table")
        listed = None if among is None else {word.strip().lower() for word in among}
        ids = encoder.whole_words
        named = [(encoder.joined([token]), i) for token, i in zip(encoder.tokens_of(ids), ids.tolist(), strict=True)]
        kept = [
            (name, i)
            for name, i in named
            if (not letters or name.isalpha()) and (listed is None or name.lower() in listed)
        ]
        if not kept:
            raise RangeError(
                f"expected at least one word, got none of the {len(named):,} after the filters: widen them"
            )
        names, numbers = zip(*kept, strict=True)
        filters = ("letters only",) * letters + (() if listed is None else (f"among {len(listed):,} given",))
        return cls(
            MappingProxyType({1: names}), encoder, MappingProxyType({1: torch.tensor(numbers)[:, None]}), filters
        )

    def describe(self) -> dict[str, Any]:
        only = f" ({', '.join(self.filters)})" if self.filters else ""
        return {
            "set": "Vocabulary",
            "words": self.count,
            "filters": list(self.filters),
            "shown": f"{self.count:,} words of {self.encoder.name}{only}",
        }


@final
@dataclass(frozen=True, eq=False)
class Words(_EncodedWords):
    """A list of one's own; `unknown` are those the encoder has no token for."""

    unknown: tuple[str, ...] = ()

    @classmethod
    def of(cls, encoder: Encoder | None, words: Sequence[str]) -> Words:
        """Each word as the encoder's tokens, in the order given; a word given twice counts once."""
        if not isinstance(encoder, Encoder):
            raise TextError(f"expected an encoder, got {encoder!r}: encode the text, or use Vectors.of for a table")
        if isinstance(words, str):
            raise TextError(f"expected a list of words, got the string {words!r}: write [{words!r}]")
        groups: dict[int, dict[str, tuple[int, ...]]] = {}
        unknown = []
        for word in dict.fromkeys(words):
            tokens = _tokens(encoder, word)
            if tokens:
                groups.setdefault(len(tokens), {})[word] = tokens
            else:
                unknown.append(word)
        if not groups:
            raise RangeError(f"expected words that {encoder.name} knows, got none of {len(words)}: give others")
        return cls(
            MappingProxyType({m: tuple(group) for m, group in groups.items()}),
            encoder,
            MappingProxyType({m: torch.tensor(list(group.values())) for m, group in groups.items()}),
            tuple(unknown),
        )

    def describe(self) -> dict[str, Any]:
        return {
            "set": "Words",
            "words": self.count,
            "unknown": list(self.unknown),
            "shown": f"{self.count:,} given words",
        }


def _tokens(encoder: Encoder, word: str) -> tuple[int, ...]:
    """The tokens of a word inside a text, where a space precedes it; none if one of them is unknown."""
    check_string(word)
    ids: list[int] = encoder.tokenizer.encode(" " + word.strip(), add_special_tokens=False).ids
    unknown = getattr(encoder.tokenizer.model, "unk_token", None)
    unk = None if unknown is None else encoder.tokenizer.token_to_id(unknown)
    return () if unk in ids or any(i >= encoder.vocabulary_size for i in ids) else tuple(ids)


@final
@dataclass(frozen=True, eq=False)
class Vectors(Replacements):
    """Vectors that may stand at any place: bare word embeddings, or random ones."""

    vectors: Float[Tensor, "words d"] = field(repr=False)

    @classmethod
    def of(cls, vectors: Float[Tensor, "words d"], names: Sequence[str] | None = None) -> Vectors:
        """A table as it is, neither centred nor rescaled."""
        if vectors.ndim != 2 or 0 in vectors.shape:
            raise ShapeError(f"expected a table of shape (words, d), got {tuple(vectors.shape)}")
        if not vectors.is_floating_point():
            raise DTypeError(f"expected a table in floating point, got {vectors.dtype}: convert it with .double()")
        check_finite(vectors, "the table")
        names = [f"v{v}" for v in range(len(vectors))] if names is None else names
        if len(names) != len(vectors):
            raise ShapeError(f"expected a name for each of the {len(vectors)} vectors, got {len(names)} names")
        return cls(MappingProxyType({1: tuple(names)}), vectors)

    def check(self, text: Context) -> None:
        if self.vectors.shape[1] != text.d:
            raise ShapeError(f"expected vectors of the text's dimension {text.d}, got {self.vectors.shape[1]}")

    def affine(self, places: Tensor, d: int, dtype: torch.dtype) -> None:
        return None

    def rows(self, places: Tensor, d: int, dtype: torch.dtype, some: Tensor | None = None) -> Tensor:
        if len(places) != 1:
            raise ShapeError(f"expected one row a word, got {len(places)}: a table of vectors has words of one token")
        return (self.vectors if some is None else self.vectors[some]).to(dtype)[:, None]

    def describe(self) -> dict[str, Any]:
        return {"set": "Vectors", "words": self.count, "shown": f"{self.count:,} vectors of a table"}
