"""A corpus as token ids, and balanced samples of texts of one length drawn from it.

A text of length n is [CLS] and its first n − 1 tokens: no [SEP], and no [PAD] unless it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import tokenizers
import torch
from jaxtyping import Int, Int8, Int32, Int64
from torch import Tensor

from oneword.checks import shown
from oneword.errors import RangeError, TextError, UnknownNameError
from oneword.memory import check_memory
from oneword.random import stream
from oneword.text import cache
from oneword.text.context import Context
from oneword.text.encoders import Encoder
from oneword.text.tokenizer_files import tokenised_all

if TYPE_CHECKING:
    from oneword.text.corpora import Corpus

FORMAT = 2  # of the cached arrays and of which rows they are made from; another number is another file
_CHUNK = 1000  # texts at a time: a token takes far more memory in the tokenizer's answer than here


@dataclass(frozen=True, eq=False)
class TokenisedCorpus:
    """The token ids of all texts of a corpus, one after the other, without any special token.

    `offsets` says where each text begins and the last one ends; `before` are the ids that the encoder puts before a
    text ([CLS], or none), `pad` is its id for filling up.
    """

    corpus: Corpus
    ids: Int32[np.ndarray, " tokens"] = field(repr=False)
    offsets: Int64[np.ndarray, " boundaries"] = field(repr=False)
    labels: Int8[np.ndarray, " texts"] | None = field(repr=False)
    before: tuple[int, ...]
    pad: int
    tokenizer_key: str

    @classmethod
    def of(cls, corpus: Corpus, encoder: Encoder) -> TokenisedCorpus:
        """From the cache, or by tokenising every text: then, and only then, the texts are read."""
        if not isinstance(encoder, Encoder):
            raise TextError(f"expected an encoder, got {shown(encoder)}: load one with Encoder.load('minilm')")
        key = cache.digest(
            corpus.fingerprint, encoder.tokenizer_key, f"tokenizers {tokenizers.__version__}", f"format {FORMAT}"
        )
        stored = cache.remembered(f"tokens-{key[:32]}", lambda: _tokenise(corpus, encoder))
        for array in stored.values():
            array.flags.writeable = False
        arrays = stored["ids"], stored["offsets"], stored.get("labels")
        return cls(corpus, *arrays, tuple(encoder.around[0]), encoder.pad, encoder.tokenizer_key)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> Int64[np.ndarray, " texts"]:
        """Tokens of each text, those put before it included."""
        return np.diff(self.offsets) + len(self.before)

    def sample(
        self, count: int, n: int, *, seed: int, trial: int = 0, pad: bool = False, exclude_duplicates: bool = True
    ) -> Sample:
        """`count` texts of n tokens each, drawn without replacement; (seed, trial, n) say which, `count` how many.

        Labels alternate, so that every even number of consecutive texts is balanced, and a smaller sample is the
        beginning of a larger one. Texts that coincide in all n tokens count as one, whatever their labels; `dropped`
        says how many of the corpus went for that. `pad` admits shorter texts, filled up with [PAD].
        """
        if count < 1 or n < 2:
            raise RangeError(f"expected count of at least 1 and n of at least 2, got count = {count}, n = {n}")
        random = stream(seed, "sample", n, trial)
        able = np.flatnonzero(self.lengths >= (len(self.before) + 1 if pad else n))
        check_memory(16 * len(able) * n, f"{len(able):,} texts of {n:,} tokens")
        order = random.permutation(able)
        rows = self._rows(order, n)
        if exclude_duplicates:
            first = ~pd.Series([row.tobytes() for row in rows]).duplicated().to_numpy()
            order, rows = order[first], rows[first]
        chosen = self._balanced(order, count, n, starts=int(random.integers(2)), pad=pad)
        fingerprint = f"sha256:{self.corpus.fingerprint[:16]}"
        source = {"text": "sampled", "corpus": self.corpus.name, "fingerprint": fingerprint}
        return Sample(
            ids=torch.from_numpy(rows[chosen].astype(np.int64)),
            lengths=torch.from_numpy(np.minimum(self.lengths[order[chosen]], n)),
            labels=None if self.labels is None else torch.from_numpy(self.labels[order[chosen]].astype(np.int64)),
            indices=torch.from_numpy(order[chosen]),
            dropped=len(able) - len(order),
            tokenizer_key=self.tokenizer_key,
            special=len(self.before),
            source=MappingProxyType(source | {"seed": seed, "trial": trial, "padded": pad}),
        )

    def _rows(self, order: Int64[np.ndarray, " some"], n: int) -> Int32[np.ndarray, "some n"]:
        """The first n tokens of these texts, [CLS] in front; [PAD] where there are fewer."""
        k = len(self.before)
        place = np.arange(n - k)
        inside = place < (self.lengths[order] - k)[:, None]
        at = np.where(inside, self.offsets[order][:, None] + place, 0)
        rows = np.empty((len(order), n), dtype=np.int32)
        rows[:, :k], rows[:, k:] = self.before, np.where(inside, self.ids[at], self.pad)
        return rows

    def _balanced(
        self, order: Int64[np.ndarray, " some"], count: int, n: int, *, starts: int, pad: bool
    ) -> Int64[np.ndarray, " count"]:
        """Which places of `order` to take: one label, the other, and so on; simply the first without labels."""
        wanted = "" if pad else f" of at least {n} tokens"
        remedy = f"take fewer texts, a smaller n or another corpus than {self.corpus.name}"
        if self.labels is None:
            if len(order) < count:
                raise RangeError(f"expected at least {count} different texts{wanted}, got {len(order)}: {remedy}")
            return np.arange(count)
        chosen = np.empty(count, dtype=np.int64)
        for turn, sign in enumerate((1, -1) if starts else (-1, 1)):
            of_sign = np.flatnonzero(self.labels[order] == sign)
            needed = len(chosen[turn::2])
            if len(of_sign) < needed:
                labelled = f"{needed} different texts{wanted} with label {sign:+d}"
                raise RangeError(f"expected at least {labelled}, got {len(of_sign)}: {remedy}")
            chosen[turn::2] = of_sign[:needed]
        return chosen


@dataclass(frozen=True, eq=False)
class Sample:
    """Texts of one length: `ids` for `Encoder.embed`, `labels` +1 and −1 (None where the corpus has none).

    `indices` are the places in the corpus; `dropped` counts its texts left out because they coincide with another one.
    What comes after the first `lengths` tokens of a text is padding.
    """

    ids: Int[Tensor, "count n"]
    lengths: Int[Tensor, " count"]
    labels: Int[Tensor, " count"] | None
    indices: Int[Tensor, " count"]
    dropped: int
    tokenizer_key: str = field(repr=False)
    special: int  # tokens in front that are none of the text
    source: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.ids)

    def context(
        self,
        j: int,
        encoder: Encoder,
        *,
        d: int | None = None,
        dtype: torch.dtype = torch.float64,
        by: Literal["token", "word"] = "token",
    ) -> Context:
        """Text j of the sample. Each token is a word, as in the paper; `by="word"` joins the pieces of a word."""
        if encoder.tokenizer_key != self.tokenizer_key:
            raise RangeError(f"expected the encoder that the sample was tokenised with, got {encoder.name}: resample")
        if by not in ("token", "word"):
            raise UnknownNameError(f"expected by='token' or by='word', got {by!r}")
        tokens, length = encoder.tokens_of(self.ids[j]), int(self.lengths[j])
        own = encoder.rows_of_words(tokens[:length]) if by == "word" else ((row,) for row in range(length))
        rows = (*own, *((row,) for row in range(length, len(tokens))))
        return Context(
            encoder.embed(self.ids[j], d=d, dtype=dtype),
            words=tuple(encoder.joined([tokens[row] for row in word]) for word in rows),
            rows=rows,
            tokens=tokens,
            label=None if self.labels is None else int(self.labels[j]),
            source=MappingProxyType({**self.source, "index": int(self.indices[j]), **encoder.describe()}),
            special=tuple(not self.special <= word[0] < length for word in rows),
            encoder=encoder,
        )


def _tokenise(corpus: Corpus, encoder: Encoder) -> dict[str, np.ndarray]:
    pieces = []
    for first in range(0, len(corpus.texts), _CHUNK):
        found = tokenised_all(encoder.tokenizer, corpus.texts[first : first + _CHUNK], special=False)
        ids = (np.array(text.ids, dtype=np.int32) for text in found)
        pieces += [text[text < encoder.vocabulary_size] for text in ids]  # vectors may have none for an unknown word
    offsets = np.zeros(len(pieces) + 1, dtype=np.int64)
    np.cumsum([len(piece) for piece in pieces], out=offsets[1:])
    arrays: dict[str, np.ndarray] = {"ids": np.concatenate(pieces), "offsets": offsets}
    if corpus.labels is not None:
        arrays["labels"] = corpus.labels
    return arrays
