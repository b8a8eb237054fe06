"""Finite sets of new words: a whole vocabulary, or a list of one's own. A word of m tokens is replaced by words of m.

Unlike a Ball, such a set can be searched exhaustively, and what is found is the sup itself. Its words are real ones:
they mostly lie outside the ball ‖Δ‖ ≤ √d.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Self, final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from oneword.checks import check_string, flag, shown
from oneword.errors import DTypeError, RangeError, ShapeError, TextError
from oneword.text.context import Context, check_finite
from oneword.text.encoders import Encoder
from oneword.text.layer0 import AffineRows

_Spelled = list[tuple[str, tuple[int, ...]]]  # words with the numbers of their tokens


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

    def encoded_by(self, encoder: Encoder | None) -> Replacements:
        """The same words as another encoder's rows, if its tokens are the same ones; else themselves."""
        return self

    def written(self, text: Context, words: Sequence[int]) -> list[tuple[Replacements, list[int]]]:
        """These words of the text, grouped by the form that others take in their place."""
        return [(self, list(words))]

    def fitting(self, text: Context, words: Sequence[int]) -> list[tuple[Replacements, list[int]]]:
        """The same, without the words that have as many tokens as no word of that form."""
        groups = (
            (form, [i for i in members if form.names.get(len(text.rows[i]))])
            for form, members in self.written(text, words)
        )
        return [(form, members) for form, members in groups if members]

    @property
    def two_forms(self) -> bool:
        """Whether a word has other tokens after a space than elsewhere."""
        return False

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
    """Words as an encoder's tokens.

    Where the space before a word is part of its token (GPT-2, RoBERTa, XLM-R, Llama), `names` and `ids` are the words
    after a space, and `attached` the same words where none precedes: at the beginning of some texts, behind an opening
    bracket. They have other tokens there, often more. In BERT-type encoders a word has one form, and `attached` is
    None. A token of whitespace alone belongs to the word after it: a word behind a line break then has one token more
    than in these sets, and so has punctuation after a space unless the vocabulary has both as one token.
    """

    encoder: Encoder
    ids: MappingProxyType[int, Int[Tensor, "words m"]] = field(repr=False)
    attached: Self | None = field(default=None, repr=False)
    _made: dict[tuple[tuple[int, ...], int, torch.dtype], AffineRows] = field(
        default_factory=dict, init=False, repr=False
    )

    @classmethod
    def _of(cls, encoder: Encoder, kept: _Spelled, attached: _Spelled | None, *more: Any) -> Self:
        """From words with their tokens: after a space, and where none precedes (None: they have one form)."""
        names, ids = _by_tokens(kept)
        return cls(names, encoder, ids, None if attached is None else cls._of(encoder, attached, None, *more), *more)

    def check(self, text: Context) -> None:
        if text.encoder is None:
            return
        if text.encoder.describe() != self.encoder.describe():
            raise RangeError(
                f"expected the words of the text's own encoder, {text.encoder.name}, got those of "
                f"{self.encoder.name}: make them with .of(text.encoder)"
            )
        _check_rows(text, self.encoder)

    def encoded_by(self, encoder: Encoder | None) -> Replacements:
        if encoder is None or encoder is self.encoder or encoder.tokenizer_key != self.encoder.tokenizer_key:
            return self
        attached = None if self.attached is None else replace(self.attached, encoder=encoder)
        return replace(self, encoder=encoder, attached=attached)

    def written(self, text: Context, words: Sequence[int]) -> list[tuple[Replacements, list[int]]]:
        close = set()
        if self.attached is not None and text.encoder is not None:
            # The token itself tells, also in a text of tokens alone, and where the tokenizer begins texts with a space.
            close = {i for i in words if self.encoder.is_attached(text.tokens[text.rows[i][0]])}
        groups = (self, [i for i in words if i not in close]), (self.attached, [i for i in words if i in close])
        return [(form, group) for form, group in groups if form is not None and group]

    @property
    def two_forms(self) -> bool:
        return self.attached is not None

    def affine(self, places: Tensor, d: int, dtype: torch.dtype) -> AffineRows | None:
        if not self.encoder.layer0.rescaled:
            return None
        asked = (tuple(places.tolist()), d, dtype)
        made = self._made.get(asked)
        if made is None:
            made = self.encoder.affine(self.ids[1][:, 0], places, d=d, dtype=dtype)
            self._made.clear()  # the last one is kept: several maps are measured on one text
            self._made[asked] = made
        return None if made.shared else made  # not from the dict, which another thread may have cleared

    def rows(self, places: Tensor, d: int, dtype: torch.dtype, some: Tensor | None = None) -> Tensor:
        ids = self.ids[len(places)]
        return self.encoder.embed(ids if some is None else ids[some], d=d, dtype=dtype, positions=places)

    def _about(self, shown: str) -> dict[str, Any]:
        """For provenance: how many words there are, and how many where no space precedes."""
        if self.attached is None:
            return {"words": self.count, "shown": shown}
        fewer = f"{shown} ({self.attached.count:,} where no space precedes)"
        return {"words": self.count, "attached": self.attached.count, "shown": fewer}


@final
@dataclass(frozen=True, eq=False)
class Vocabulary(_EncodedWords):
    """The whole words of an encoder's vocabulary: no pieces of words, no special tokens, no vectors of zeros.

    Without a space before them those of one token are fewer: see `_EncodedWords`.
    """

    filters: tuple[str, ...] = ()

    @classmethod
    def of(cls, encoder: Encoder | None, *, letters: bool = False, among: Iterable[str] | None = None) -> Vocabulary:
        """All of them; with `letters` those of letters only, with `among` those of a list (of frequent words, say)."""
        known, letters = _encoder(encoder), flag("letters", letters)
        listed = None if among is None else {word.strip().lower() for word in _strings(among)}
        filters = ("letters only",) * letters + (() if listed is None else (f"among {len(listed):,} given",))

        def chosen(ids: Tensor) -> _Spelled:
            named = zip(known.tokens_of(ids), ids.tolist(), strict=True)
            return [
                (name, (i,))
                for name, i in ((known.joined([token]), i) for token, i in named)
                if (not letters or name.isalpha()) and (listed is None or name.lower() in listed)
            ]

        kept = chosen(known.whole_words)
        if not kept:
            total = len(known.whole_words)
            raise RangeError(f"expected at least one word, got none of the {total:,} after the filters: widen them")
        return cls._of(known, kept, chosen(known.attached_words) if known.has_two_forms else None, filters)

    def describe(self) -> dict[str, Any]:
        only = f" ({', '.join(self.filters)})" if self.filters else ""
        shown = f"{self.count:,} words of {self.encoder.name}{only}"
        return {"set": "Vocabulary", "filters": list(self.filters), **self._about(shown)}


@final
@dataclass(frozen=True, eq=False)
class Words(_EncodedWords):
    """A list of one's own; `unknown` are those the encoder has no tokens for, or only a vector of zeros."""

    unknown: tuple[str, ...] = ()

    @classmethod
    def of(cls, encoder: Encoder | None, words: Sequence[str]) -> Words:
        """Each word as the encoder's tokens, in the order given; a word given twice counts once."""
        known = _encoder(encoder)
        given = list(dict.fromkeys(_strings(words)))
        for word in given:
            check_string(word)
        tokens = {word: known.spelled(word) for word in given}
        kept = [(word, ids) for word, ids in tokens.items() if ids]
        if not kept:
            raise RangeError(f"expected words that {known.name} knows, got none of {len(given)}: give others")
        close = [(word, known.spelled(word, attached=True)) for word, _ in kept] if known.has_two_forms else None
        attached = None if close is None else [(word, ids) for word, ids in close if ids]
        return replace(cls._of(known, kept, attached), unknown=tuple(word for word in given if not tokens[word]))

    def describe(self) -> dict[str, Any]:
        return {"set": "Words", "unknown": list(self.unknown), **self._about(f"{self.count:,} given words")}


def _encoder(given: object) -> Encoder:
    if not isinstance(given, Encoder):
        raise TextError(f"expected an encoder, got {shown(given)}: encode the text, or use Vectors.of for a table")
    return given


def _strings(given: object) -> list[str]:
    """Words as a list; a string alone would be its letters."""
    if isinstance(given, str):
        raise TextError(f"expected a list of words, got the string {shown(given)}: write [{shown(given)}]")
    if not isinstance(given, Iterable):
        raise TextError(f"expected a list of words, got {shown(given)}: write ['good', …]")
    words = list(given)
    wrong = [word for word in words if not isinstance(word, str)]
    if wrong:
        raise TextError(f"expected words as strings, got {shown(wrong[0])}: write ['good', …]")
    return words


def _by_tokens(
    words: _Spelled,
) -> tuple[MappingProxyType[int, tuple[str, ...]], MappingProxyType[int, Int[Tensor, "words m"]]]:
    """Names and ids of words by the number of their tokens, in the order given."""
    groups: dict[int, _Spelled] = {}
    for name, ids in words:
        groups.setdefault(len(ids), []).append((name, ids))
    names = {m: tuple(name for name, _ in group) for m, group in groups.items()}
    return MappingProxyType(names), MappingProxyType(
        {m: torch.tensor([ids for _, ids in group]) for m, group in groups.items()}
    )


def _check_rows(text: Context, encoder: Encoder) -> None:
    """Refuse a text that was cut or changed by hand: its words would be replaced as at other positions."""
    single = [i for i, rows in enumerate(text.rows) if len(rows) == 1 and not text.special[i]]
    for i in dict.fromkeys(single[:1] + single[-1:]):  # two are enough to notice a cut, and cheap
        row = text.rows[i][0]
        forms = [encoder.spelled(text.words[i], attached=attached) for attached in (False, True)]
        token = encoder.tokenizer.token_to_id(text.tokens[row])  # None if the tokens were made up
        able = {token if token is not None else -1, *(ids[0] for ids in forms if len(ids) == 1)}
        able = {number for number in able if 0 <= number < encoder.vocabulary_size}
        if not able:
            continue
        fits = text.d <= encoder.d and row < encoder.longest
        if fits:
            truth = encoder.embed(torch.tensor(sorted(able)), d=text.d, positions=torch.tensor(row))
            # float32 keeps 7 digits; another position changes far more.
            apart = (truth - text.X[row].detach().cpu().double()).norm(dim=1) > 1e-4 * text.d**0.5
        if not fits or bool(apart.all()):
            raise RangeError(
                f"expected the rows that {encoder.name} makes at their positions, got another one for "
                f"{text.words[i]!r} in row {row}: encode the text anew instead of cutting or changing X, or leave "
                "encoder= out"
            )


@final
@dataclass(frozen=True, eq=False)
class Vectors(Replacements):
    """Vectors that may stand at any place: bare word embeddings, or random ones."""

    vectors: Float[Tensor, "words d"] = field(repr=False)

    @classmethod
    def of(
        cls,
        vectors: Float[Tensor, "words d"] | Float[np.ndarray, "words d"] | Sequence[Sequence[float]],
        names: Sequence[str] | None = None,
    ) -> Vectors:
        """A table as it is, neither centred nor rescaled. Names differ."""
        vectors = _table(vectors)
        if vectors.ndim != 2 or 0 in vectors.shape:
            raise ShapeError(f"expected a table of shape (words, d), got {tuple(vectors.shape)}")
        if not vectors.is_floating_point():
            raise DTypeError(f"expected a table in floating point, got {vectors.dtype}: convert it with .double()")
        check_finite(vectors, "the table")
        names = [f"v{v}" for v in range(len(vectors))] if names is None else _strings(names)
        if len(names) != len(vectors):
            raise ShapeError(f"expected a name for each of the {len(vectors)} vectors, got {len(names)} names")
        twice = [name for name, times in Counter(names).items() if times > 1]
        if twice:
            raise RangeError(f"expected names that differ, got {shown(twice[0])} more than once: rename or leave out")
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


def _table(given: object) -> Tensor:
    """An array or lists as a tensor; whole numbers in lists are meant as numbers."""
    if isinstance(given, Tensor):
        return given
    try:
        array = np.asarray(given)
    except (ValueError, TypeError, RuntimeError):
        raise ShapeError(f"expected a table of shape (words, d), got something ragged: {shown(given)}") from None
    if array.dtype.kind in "iu" and not isinstance(given, np.ndarray):
        array = array.astype(np.float64)
    if array.dtype.kind != "f" or array.dtype.itemsize > 8:
        raise DTypeError(f"expected a table in floating point, got {array.dtype}: give an array, or lists, of numbers")
    # What torch can share: in order, of this machine's byte order, and writeable.
    return torch.from_numpy(np.require(array, array.dtype.newbyteorder("="), ["C", "W"]))
