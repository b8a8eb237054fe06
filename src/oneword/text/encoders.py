"""Words as vectors: a tokenizer, and layer 0 of a model or a table of word vectors.

As in the paper the first d coordinates of layer 0 are kept and every row is rescaled to norm √d. Families of models are
in families.py, tables of vectors in vectors.py, words and their tokens in tokens.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Float, Int
from tokenizers import Tokenizer
from torch import Tensor

from oneword.checks import check_precision, check_string, shortened, shown, whole_number
from oneword.errors import (
    DTypeError,
    FileFormatError,
    RangeError,
    ShapeError,
    TextError,
    UnknownNameError,
    ZeroNormError,
)
from oneword.memory import check_memory
from oneword.text import families, vectors
from oneword.text.context import Context
from oneword.text.families import FirstAttention, Layer
from oneword.text.layer0 import AffineRows, Layer0, ZeroRowError
from oneword.text.locating import locate
from oneword.text.model_folder import FILES, ModelFolder
from oneword.text.sources import EMBEDDED_MODELS
from oneword.text.tokenizer_files import tokenised
from oneword.text.tokens import TokenisedText, TokenKinds, align

_KINDS = (
    f"an encoder: {', '.join(map(repr, EMBEDDED_MODELS))}, a folder with {', '.join(FILES)}, a GGUF file, or one of "
    "word vectors"
)


@dataclass(frozen=True, eq=False)
class Encoder:
    """A tokenizer and what turns its tokens into rows.

    | field | meaning |
    |---|---|
    | `name`, `revision` | which encoder, and which version of its weights; copied into every result |
    | `tokenizer` | as published, but it neither truncates nor pads |
    | `layer0` | what turns token ids into rows |
    | `layer` | 0; "bare": word embeddings alone; "input": these as a model takes them, of their own norms |
    | `longest` | how many tokens a text may have |
    | `pad` | id of the token that fills up short texts |
    | `attention` | the first attention layer, in BERT-type encoders |
    | `folder` | where the files of a model are; None for a table of vectors |
    """

    name: str
    revision: str
    tokenizer: Tokenizer = field(repr=False)
    layer0: Layer0 = field(repr=False)
    layer: Layer
    longest: int
    pad: int
    attention: FirstAttention | None = field(default=None, repr=False)
    folder: Path | None = field(default=None, repr=False)

    @classmethod
    def load(cls, name: str | Path = "minilm", *, revision: str | None = None, layer: Layer = 0) -> Encoder:
        """An encoder by its name.

        | argument | meaning |
        |---|---|
        | `name` | "minilm" (the default), "mpnet", a folder, a GGUF file, word vectors (.txt, .vec, .npz), a hub name |
        | `revision` | of a hub name: a branch, tag or commit; None for the newest |
        | `layer` | 0 (the default), or "bare": word embeddings alone, which do not depend on the position |

        Raises FileFormatError for files that are missing or cannot be read, HubError if the hub does not answer,
        MissingExtraError if "minilm" is not installed. A table of vectors has no layer but "bare".

            encoder = Encoder.load("minilm")
            encoder.encode("I love her smile.").words
        """
        if isinstance(layer, bool) or not isinstance(layer, int | str) or layer not in (0, "bare"):
            raise UnknownNameError(f"expected layer=0 or layer='bare', got {shown(layer)}")
        found = locate(name, revision, _KINDS)
        if isinstance(found, Path):
            return _load_vectors(found, found.stat().st_mtime_ns, found.stat().st_size)
        return _load(found.folder, found.name, found.revision, layer, found.folder.stamp)

    @property
    def d(self) -> int:
        """The width of the encoder; any smaller d is its first coordinates."""
        return self.layer0.width

    @property
    def vocabulary_size(self) -> int:
        return len(self.layer0.word)

    @property
    def around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The ids of the special tokens that the tokenizer puts before and after every text; both may be empty."""
        return self._kinds.around

    @property
    def ends(self) -> tuple[int, int]:
        """The ids of [CLS] and [SEP], or what this tokenizer puts around every text instead."""
        before, after = self.around
        if len(before) != 1 or len(after) != 1:
            got = f"{self.name}, which puts {len(before)} and {len(after)}: choose a BERT-type encoder"
            raise RangeError(f"expected an encoder that puts one token before a text and one after it, got {got}")
        return before[0], after[0]

    @property
    def tokenizer_key(self) -> str:
        """Two encoders with the same key turn the same text into the same ids."""
        return self._kinds.key

    @cached_property
    def whole_words(self) -> Int[Tensor, " words"]:
        """The ids of the vocabulary that are whole words: no pieces, no special and no unused tokens, no zeros."""
        return self._usable(self._kinds.words())

    @cached_property
    def attached_words(self) -> Int[Tensor, " words"]:
        """The ids that are whole words where no space precedes; none unless words have two forms."""
        return self._usable(self._kinds.attached_words)

    @property
    def has_two_forms(self) -> bool:
        """Whether the space before a word is part of its token, so that the word has another one without it."""
        return self._kinds.has_two_forms

    def is_attached(self, token: str) -> bool:
        """Whether a word that begins with this token has no space before it, where words have two forms."""
        return self._kinds.is_attached(token)

    def spelled(self, word: str, *, attached: bool = False) -> tuple[int, ...]:
        """The tokens of a word after a space, or where none precedes; none if the encoder does not know it."""
        ids = self._kinds.spelled(word.strip(), attached=attached)
        known = bool(ids) and max(ids) < self.vocabulary_size and not self.layer0.vanishing(torch.tensor(ids)).any()
        return ids if known else ()

    def _usable(self, ids: Sequence[int]) -> Int[Tensor, " words"]:
        known = torch.tensor([i for i in ids if i < self.vocabulary_size], dtype=torch.long)
        return known[~self.layer0.vanishing(known)]

    def describe(self) -> dict[str, Any]:
        """What a result must say about the encoder."""
        return {"encoder": self.name, "revision": self.revision, "layer": self.layer, "encoder_width": self.d}

    def embed(
        self,
        ids: Int[Tensor, "*batch n"],
        *,
        d: int | None = None,
        dtype: torch.dtype = torch.float64,
        positions: Tensor | None = None,
    ) -> Float[Tensor, "*batch n d"]:
        """Layer 0 of these tokens, first d coordinates, every row of norm √d.

        `positions` (default 0, 1, …) broadcasts with `ids`: `embed(words, positions=torch.tensor(i))` gives the rows
        that these words would have at position i.
        """
        d = self._checked(ids, d, dtype)
        if positions is None:
            if not ids.ndim:
                raise ShapeError("expected token ids of shape (…, n), got a single number: write ids[None]")
            self.check_length(ids.shape[-1])
            positions = torch.arange(ids.shape[-1])
        self._check_ids(positions, self.longest, "positions", "positions of this encoder")
        try:
            at = positions.expand(ids.shape).flatten()
        except RuntimeError:
            wanted, got = f"token ids of shape {tuple(ids.shape)}", tuple(positions.shape)
            remedy = "give one for each, or one for all"
            raise ShapeError(f"expected positions that fit {wanted}, got {got}: {remedy}") from None
        try:
            return self.layer0.rows(ids.flatten(), at, d, dtype).reshape(*ids.shape, d)
        except ZeroRowError as error:
            (token,) = self.tokens_of(ids.flatten()[error.row, None])
            shorter = f"in the first {d} coordinates: take a larger d"
            remedy = shorter if d < self.d else "in all coordinates: leave this word out"
            raise ZeroNormError(f"expected rows of positive norm, got 0 for {token!r} {remedy}") from None

    def affine(
        self,
        ids: Int[Tensor, " words"],
        positions: Int[Tensor, " places"],
        *,
        d: int | None = None,
        dtype: torch.dtype = torch.float64,
    ) -> AffineRows:
        """The parts of which `embed(ids, positions=i)` is made, for every one of the positions i at once."""
        d = self._checked(ids, d, dtype)
        self._check_ids(positions, self.longest, "positions", "positions of this encoder")
        if ids.ndim != 1 or positions.ndim != 1:
            got = f"{tuple(ids.shape)} and {tuple(positions.shape)}"
            raise ShapeError(f"expected token ids and positions as two lists, got shapes {got}: flatten them")
        return self.layer0.affine(ids, positions, d, dtype)

    def encode(
        self, text: str, *, d: int | None = None, special: bool = True, dtype: torch.dtype = torch.float64
    ) -> Context:
        """A text as the maps see it. The tokens of a word are its rows; [CLS] and [SEP] are words of their own.

        `d` keeps the first d coordinates (default: all), `special=False` leaves out what the tokenizer adds. Words that
        a table of vectors does not have are left out, and named in `source["skipped"]`. Raises TextError for a text
        without words, RangeError for one that is too long.
        """
        read = self._read(text, added=sum(map(len, self.around)) if special else 0)
        return self._context(read, 0, len(read.words), special, d, dtype, {})

    def windows(
        self,
        text: str,
        *,
        size: int | None = None,
        stride: int | None = None,
        d: int | None = None,
        special: bool = True,
        dtype: torch.dtype = torch.float64,
    ) -> list[Context]:
        """A long text as several: of at most `size` tokens (default: `longest`), cut between words.

        Every word is in at least one window. The next window begins `stride` tokens further on, or as near to that as
        the words allow (default: where this one ends). Special tokens are in every window and count. `spans` are places
        in the whole text, `source["first_word"]` is the number of words of the text before the window.
        """
        size = self.longest if size is None else whole_number("size", size)
        stride = None if stride is None else whole_number("stride", stride)
        check_precision(dtype)
        added = sum(map(len, self.around)) if special else 0
        if not added < size <= self.longest or (stride is not None and stride < 1):
            wanted = f"size from {added + 1} to {self.longest} tokens and stride of at least 1"
            raise RangeError(f"expected {wanted}, got size = {size}, stride = {stride}")
        read = self._read(text)
        cuts = read.cut(size - added, stride)
        rows = sum(read.begins[last] - read.begins[first] for first, last in cuts)
        check_memory(rows * self._checked_width(d) * dtype.itemsize, f"{len(cuts):,} windows of {size:,} tokens")
        return [
            self._context(read, *cut, special, d, dtype, {"window": w, "windows": len(cuts), "first_word": cut[0]})
            for w, cut in enumerate(cuts)
        ]

    def rows_of_words(self, tokens: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """For each word the tokens it consists of, where only the tokens are known: see `TokenKinds`."""
        return self._kinds.rows_of_words(tokens)

    def joined(self, tokens: Sequence[str]) -> str:
        """The word that these pieces make up."""
        return self._kinds.joined(tokens)

    def tokens_of(self, ids: Int[Tensor, " n"]) -> tuple[str, ...]:
        """The tokens that these ids stand for."""
        return tuple(self.tokenizer.id_to_token(i) or "" for i in ids.tolist())

    def first_attention(self, text: str) -> tuple[tuple[str, ...], Float[Tensor, "heads t t"]]:
        """The tokens of a text, and how much attention the first layer pays from each (row) to each (column)."""
        check_string(text)
        if self.attention is None:
            raise RangeError(
                f"expected a BERT-type encoder at layer 0, got {self.name} at layer {self.layer}, whose first "
                "attention is of another kind: take 'minilm' or another BERT"
            )
        found = tokenised(self.tokenizer, text)
        self.check_length(len(found.ids))
        X = self.layer0.raw(torch.tensor(found.ids), torch.arange(len(found.ids)))
        return tuple(found.tokens), self.attention.weights(X)

    def check_length(self, n: int) -> None:
        """Refuse more tokens than there are positions."""
        if n > self.longest:
            remedy = "shorten the text, or cut it with Encoder.windows"
            raise RangeError(f"expected at most {self.longest} tokens, the window of {self.name}, got {n}: {remedy}")

    @cached_property
    def _kinds(self) -> TokenKinds:
        return TokenKinds(self.tokenizer)

    def _read(self, text: str, added: int | None = None) -> TokenisedText:
        """The tokens of a text, without special ones, and its words.

        A text that is too long with so many `added` tokens is refused; None: it may have any length.
        """
        check_string(text)
        found = tokenised(self.tokenizer, text, special=False)
        tokens = list(zip(found.ids, found.offsets, strict=True))
        size = self.vocabulary_size
        known = [(i, span) for i, span in tokens if i < size]
        skipped = tuple(span for i, span in tokens if i >= size)
        if added is not None:  # before the words are looked for, which takes long in a long text
            self.check_length(len(known) + added)
        words = align(text, [span for _, span in known])
        if not words:
            unknown = f", none of whose words {self.name} has" if skipped else ""
            raise TextError(f"expected a text with at least one word, got {shortened(text)!r}{unknown}: give words")
        return TokenisedText(text, [i for i, _ in known], words, skipped)

    def _context(
        self,
        read: TokenisedText,
        first: int,
        last: int,
        special: bool,
        d: int | None,
        dtype: torch.dtype,
        source: dict[str, Any],
    ) -> Context:
        """The words from `first` up to `last` of a text, with what the tokenizer adds."""
        before, after = self.around if special else ((), ())
        begin, end = read.begins[first], read.begins[last]
        ids = torch.tensor([*before, *read.ids[begin:end], *after])
        tokens = self.tokens_of(ids)
        spans = read.words.spans[first:last]
        rows = [tuple(row - begin + len(before) for row in word) for word in read.words.rows[first:last]]
        tail = range(len(ids) - len(after), len(ids))
        skipped = read.skipped_between(first, last)
        return Context(
            self.embed(ids, d=d, dtype=dtype),
            words=(*tokens[: len(before)], *(read.text[slice(*span)] for span in spans), *tokens[tail.start :]),
            rows=(*((row,) for row in range(len(before))), *rows, *((row,) for row in tail)),
            tokens=tokens,
            source=MappingProxyType(
                {"text": "encoded", **self.describe(), **source} | ({"skipped": skipped} if skipped else {})
            ),
            text=read.text,
            spans=(*(None for _ in before), *spans, *(None for _ in after)),
            special=(*(True for _ in before), *(False for _ in spans), *(True for _ in after)),
            encoder=self,
        )

    def _checked_width(self, d: int | None) -> int:
        if d is None:
            return self.d
        if not 1 <= whole_number("d", d) <= self.d:
            raise RangeError(f"expected d from 1 to {self.d}, the width of {self.name}, got {d}")
        return whole_number("d", d)

    def _checked(self, ids: Tensor, d: int | None, dtype: torch.dtype) -> int:
        d = self._checked_width(d)
        check_precision(dtype)
        self._check_ids(ids, self.vocabulary_size, "token ids", "tokens of this encoder's vocabulary")
        return d

    @staticmethod
    def _check_ids(ids: Tensor, size: int, what: str, meaning: str) -> None:
        if not isinstance(ids, Tensor):
            raise DTypeError(f"expected {what} as a tensor, got {type(ids).__name__}: write torch.as_tensor(…)")
        if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
            raise DTypeError(f"expected {what} as whole numbers, got {ids.dtype}: convert them with ids.long()")
        if ids.numel() and (int(ids.min()) < 0 or int(ids.max()) >= size):
            got = f"{int(ids.min())} to {int(ids.max())}"
            raise RangeError(f"expected {what} from 0 to {size - 1}, {meaning}, got {got}")


def encode(text: str, encoder: str | Encoder = "minilm", *, d: int | None = None) -> Context:
    """A text as a Context: layer 0 of an encoder, first d coordinates (default: all), every row of norm √d.

    `encoder` is one of `Encoder.load`, or its name ("minilm" by default). Raises what `Encoder.load` and
    `Encoder.encode` raise.

        text = ow.encode("I love her smile.", d=96)
    """
    if not isinstance(encoder, Encoder):
        check_string(text)  # before a download
        encoder = Encoder.load(encoder)
    return encoder.encode(text, d=d)


def check_vocabulary(tokenizer: Tokenizer, rows: int, name: str) -> None:
    """Refuse a tokenizer with ids for which there is no row."""
    around = chain(*TokenKinds(tokenizer).around)  # a template may have ids of its own
    needed = 1 + max(chain(tokenizer.get_vocab().values(), around), default=0)
    if needed > rows:
        raise FileFormatError(
            f"expected a tokenizer of at most {rows} tokens, as many as there are embeddings, got {needed} tokens in "
            f"{name}: give the tokenizer of this model"
        )


# Loading, once an encoder -------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def _load(
    folder: ModelFolder, name: str, revision: str | None, layer: Layer, stamp: tuple[tuple[int, int], ...]
) -> Encoder:
    """The encoder in a folder; `stamp` makes a folder whose files changed another folder."""
    folder.check_files()
    layer0, longest, pad, attention = families.read_layer0(folder, layer)
    tokenizer = folder.tokenizer()
    check_vocabulary(tokenizer, len(layer0.word), folder.name)
    version = revision or folder.fingerprint
    return Encoder(name, version, tokenizer, layer0, layer, longest, pad, attention, folder.path)


@lru_cache(maxsize=2)
def _load_vectors(path: Path, changed: int, size: int) -> Encoder:
    """The encoder that a table of word vectors is; `changed` and `size` make a file that changed another file."""
    table = vectors.read(path)
    tokenizer, layer0 = table.tokenizer(), Layer0(table.rows)
    return Encoder(path.name, table.fingerprint, tokenizer, layer0, "bare", longest=families.NO_LIMIT, pad=0)
