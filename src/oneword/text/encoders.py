"""Words as vectors: the tokenizer and layer 0 of a BERT-type encoder.

Layer 0 is LayerNorm(word + position + type embedding). As in the paper its first d coordinates are kept and every row
is rescaled to norm √d. It is computed in float64 from the stored weights, and only then cast.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Float, Int
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional as F

from oneword.errors import DTypeError, FileFormatError, RangeError, TextError, ZeroNormError
from oneword.memory import check_memory
from oneword.text import cache, sources
from oneword.text.context import Context
from oneword.text.sources import EMBEDDED_ENCODER, MINILM

_NAMES = ("minilm", EMBEDDED_ENCODER.lower())
_REMEDY = "give the folder of a model on this machine, or 'minilm'"
# Rows are computed in pieces of about this many numbers: what is in between stays in the processor's cache.
_PIECE = 1 << 18


@dataclass(frozen=True, eq=False)
class Encoder:
    """The tokenizer and layer 0 of a BERT-type encoder.

    | field | meaning |
    |---|---|
    | `name`, `revision` | which encoder, and which version of its weights; copied into every result |
    | `tokenizer` | as published, but it neither truncates nor pads |
    | `word`, `position`, `kind` | the three embeddings that are added up; `kind` is type 0, the only one used |
    | `gain`, `shift`, `eps` | of the LayerNorm |
    | `heads` | of the first attention layer |
    | `pad` | id of the token that fills up short texts |
    | `folder` | where the weights are, for `first_attention` |
    """

    name: str
    revision: str
    tokenizer: Tokenizer = field(repr=False)
    word: Float[Tensor, "vocabulary width"] = field(repr=False)
    position: Float[Tensor, "positions width"] = field(repr=False)
    kind: Float[Tensor, " width"] = field(repr=False)
    gain: Float[Tensor, " width"] = field(repr=False)
    shift: Float[Tensor, " width"] = field(repr=False)
    eps: float
    heads: int
    pad: int
    folder: Path = field(repr=False)

    @classmethod
    def load(cls, name: str = "minilm", *, revision: str | None = None) -> Encoder:
        """The embedded encoder ("minilm"), a local folder, or a name on a hub; `revision` is for the hub alone."""
        embedded = name.lower() in _NAMES
        folder = Path(name).expanduser()
        if revision is not None and (embedded or folder.is_dir()):
            raise RangeError(f"expected revision= with a hub name only, got it with {name!r}: leave it out")
        if embedded:
            folder = MINILM.folder() / "model"
            return _load(folder, EMBEDDED_ENCODER, f"{MINILM.name} {MINILM.version}", _stamp(folder))
        if folder.is_dir():
            return _load(folder.resolve(), folder.resolve().name, None, _stamp(folder))
        sources.check_hub_name(name, f"an encoder: 'minilm', a folder with {', '.join(_FILES)}")
        folder = sources.download(name, revision, _FILES, _REMEDY)
        return _load(folder, name, folder.name, _stamp(folder))  # the hub names the folder by the commit

    @property
    def d(self) -> int:
        """The width of the encoder; any smaller d is its first coordinates."""
        return int(self.word.shape[1])

    @property
    def longest(self) -> int:
        """How many tokens a text may have: the size of the table of positions."""
        return int(self.position.shape[0])

    @property
    def vocabulary_size(self) -> int:
        return int(self.word.shape[0])

    @cached_property
    def ends(self) -> tuple[int, int]:
        """The ids of [CLS] and [SEP], which the tokenizer puts around every text."""
        cls, sep = self.tokenizer.encode("").ids
        return cls, sep

    @cached_property
    def tokenizer_key(self) -> str:
        """Two encoders with the same key turn the same text into the same ids."""
        return cache.digest(self.tokenizer.to_str())

    @cached_property
    def whole_words(self) -> Int[Tensor, " words"]:
        """The ids of the vocabulary that are whole words: no pieces, no special and no unused tokens."""
        special = {i for i, token in self.tokenizer.get_added_tokens_decoder().items() if token.special}
        return torch.tensor(
            sorted(
                i
                for token, i in self.tokenizer.get_vocab().items()
                if i not in special and not self._continues(token) and not re.fullmatch(r"\[unused\d+\]", token)
            )
        )

    def describe(self) -> dict[str, Any]:
        """What a result must say about the encoder."""
        return {"encoder": self.name, "revision": self.revision, "layer": 0, "encoder_width": self.d}

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
        d = self._checked_width(d)
        self._check_ids(ids, self.vocabulary_size, "token ids", "tokens of this encoder's vocabulary")
        if positions is None:
            self.check_length(ids.shape[-1])
            positions = torch.arange(ids.shape[-1])
        self._check_ids(positions, self.longest, "positions", "positions in this encoder's table")
        check_memory(2 * ids.numel() * d * dtype.itemsize, f"{ids.numel():,} embedded words of dimension {d:,}")
        flat, at = ids.flatten(), positions.expand(ids.shape).flatten()
        out = torch.empty((len(flat), d), dtype=dtype)
        rows = max(1, _PIECE // self.d)
        for first in range(0, len(flat), rows):
            piece = slice(first, first + rows)
            kept = self._layer0(flat[piece], at[piece])[:, :d]
            norm = torch.linalg.vector_norm(kept, dim=1, keepdim=True)
            if not norm.all():
                raise ZeroNormError(
                    f"expected rows of positive norm, got 0 in the first {d} coordinates: take a larger d"
                )
            torch.mul(kept, math.sqrt(d) / norm, out=out[piece])
        return out.reshape(*ids.shape, d)

    def encode(
        self, text: str, *, d: int | None = None, special: bool = True, dtype: torch.dtype = torch.float64
    ) -> Context:
        """A text as the maps see it. The pieces of a word are its rows; [CLS] and [SEP] are words of their own."""
        check_string(text)
        found = self.tokenizer.encode(text, add_special_tokens=special)
        if not found.ids or all(found.special_tokens_mask):
            raise TextError(f"expected a text with at least one word, got {shortened(text)!r}: give some words")
        rows = self.rows_of_words(found.tokens)
        spans = [(found.offsets[word[0]][0], found.offsets[word[-1]][1]) for word in rows]
        return Context(
            self.embed(torch.tensor(found.ids), d=d, dtype=dtype),
            # What the tokenizer adds has no place in the text.
            words=tuple(
                text[start:end] or found.tokens[word[0]] for (start, end), word in zip(spans, rows, strict=True)
            ),
            rows=rows,
            tokens=tuple(found.tokens),
            source=MappingProxyType({"text": "encoded", **self.describe()}),
        )

    def rows_of_words(self, tokens: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """For each word the tokens it consists of: a piece that continues a word belongs to the one before it."""
        words: list[list[int]] = []
        for row, token in enumerate(tokens):
            if words and self._continues(token):
                words[-1].append(row)
            else:
                words.append([row])
        return tuple(map(tuple, words))

    def joined(self, tokens: Sequence[str]) -> str:
        """The word that these pieces make up."""
        return tokens[0] + "".join(token[len(self._prefix) :] for token in tokens[1:])

    def tokens_of(self, ids: Int[Tensor, " n"]) -> tuple[str, ...]:
        """The tokens that these ids stand for."""
        return tuple(self.tokenizer.id_to_token(i) or "" for i in ids.tolist())

    def first_attention(self, text: str) -> tuple[tuple[str, ...], Float[Tensor, "heads t t"]]:
        """The tokens of a text, and how much attention the first layer pays from each (row) to each (column)."""
        check_string(text)
        found = self.tokenizer.encode(text)
        self.check_length(len(found.ids))
        layer = "encoder.layer.0.attention.self"
        X = self._layer0(torch.tensor(found.ids), torch.arange(len(found.ids)))
        query, key = (
            F.linear(X, *(_tensor(self.folder, f"{layer}.{part}.{which}").double() for which in ("weight", "bias")))
            .unflatten(1, (self.heads, -1))
            .transpose(0, 1)
            for part in ("query", "key")
        )
        return tuple(found.tokens), torch.softmax(query @ key.mT / math.sqrt(query.shape[-1]), dim=-1)

    def check_length(self, n: int) -> None:
        """Refuse more tokens than there are positions."""
        if n > self.longest:
            raise RangeError(
                f"expected at most {self.longest} tokens, the positions of {self.name}, got {n}: shorten the text"
            )

    def _layer0(self, ids: Int[Tensor, " rows"], at: Int[Tensor, " rows"]) -> Float[Tensor, "rows width"]:
        total = self._places[at] + self.word[ids]
        return F.layer_norm(total, (self.d,), self.gain.double(), self.shift.double(), self.eps)

    @cached_property
    def _places(self) -> Float[Tensor, "positions width"]:
        return self.position.double() + self.kind

    @cached_property
    def _prefix(self) -> str:
        return getattr(self.tokenizer.model, "continuing_subword_prefix", None) or ""

    def _continues(self, token: str) -> bool:
        return bool(self._prefix) and token.startswith(self._prefix)

    def _checked_width(self, d: int | None) -> int:
        if d is not None and not 1 <= d <= self.d:
            raise RangeError(f"expected d from 1 to {self.d}, the width of {self.name}, got {d}")
        return d or self.d

    @staticmethod
    def _check_ids(ids: Tensor, size: int, what: str, meaning: str) -> None:
        if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
            raise DTypeError(f"expected {what} as whole numbers, got {ids.dtype}: convert them with ids.long()")
        if ids.numel() and (int(ids.min()) < 0 or int(ids.max()) >= size):
            raise RangeError(
                f"expected {what} from 0 to {size - 1}, {meaning}, got {int(ids.min())} to {int(ids.max())}"
            )


def encode(text: str, encoder: str | Encoder = "minilm", *, d: int | None = None) -> Context:
    """A text as a Context: layer 0 of an encoder, first d coordinates, every row of norm √d."""
    if not isinstance(encoder, Encoder):
        check_string(text)  # before a download
        encoder = Encoder.load(encoder)
    return encoder.encode(text, d=d)


def check_string(text: object) -> None:
    """Refuse what no tokenizer can read."""
    if not isinstance(text, str):
        raise TextError(f"expected a text as a string, got {type(text).__name__}")
    if not text.strip():
        raise TextError(f"expected a text with at least one word, got {shortened(text)!r}: give some words")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TextError(f"expected valid Unicode, got {text[error.start]!r} at character {error.start}") from None


def shortened(text: str) -> str:
    """The beginning of a text, for a message of one line."""
    return text if len(text) <= 40 else text[:40] + "…"


# Reading the folder of a model --------------------------------------------------------------------------------------

_FILES = ("config.json", "tokenizer.json", "*.safetensors")
# Checkpoints made before LayerNorm was part of torch, bert-base-uncased among them, use the names of the formula.
_OLD_NAMES = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}


@lru_cache(maxsize=4)
def _load(folder: Path, name: str, revision: str | None, stamp: tuple[tuple[int, int], ...]) -> Encoder:
    """The encoder in a folder; `stamp` makes a folder whose files changed another folder."""
    _check_files(folder)
    try:
        config = json.loads((folder / "config.json").read_text())
        kind, places = config["model_type"], config.get("position_embedding_type", "absolute")
        width, heads, eps = config["hidden_size"], config["num_attention_heads"], config.get("layer_norm_eps", 1e-12)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _unreadable(folder / "config.json", error) from None
    if kind != "bert" or places != "absolute":
        raise FileFormatError(
            f"expected an encoder of type bert with absolute positions, got {kind} with {places} ones in {folder.name}"
        )
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # the library raises Exception itself
        raise _unreadable(folder / "tokenizer.json", error) from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    word, position, kinds, gain, shift = (
        _tensor(folder, f"embeddings.{part}")
        for part in (
            "word_embeddings.weight",
            "position_embeddings.weight",
            "token_type_embeddings.weight",
            "LayerNorm.weight",
            "LayerNorm.bias",
        )
    )
    shapes = [tuple(part.shape) for part in (word, position, kinds, gain, shift)]
    if any(shape[-1] != width for shape in shapes) or [len(shape) for shape in shapes] != [2, 2, 2, 1, 1]:
        raise FileFormatError(
            f"expected embeddings of width {width} as config.json says, got {shapes} in {folder.name}"
        )
    known, around = tokenizer.get_vocab_size(), len(tokenizer.encode("").ids)
    if known > len(word) or around != 2:
        raise FileFormatError(
            f"expected a tokenizer of at most {len(word)} tokens which puts [CLS] and [SEP] around a text, got "
            f"{known} tokens and {around} put around it in {folder.name}"
        )
    return Encoder(
        name=name,
        revision=revision or _fingerprint(folder),
        tokenizer=tokenizer,
        word=word,
        position=position,
        kind=kinds[0],
        gain=gain,
        shift=shift,
        eps=float(eps),
        heads=int(heads),
        pad=int(config.get("pad_token_id") or 0),
        folder=folder,
    )


def _check_files(folder: Path) -> None:
    missing = [pattern for pattern in _FILES if not any(folder.glob(pattern))]
    pickled = [path.name for suffix in ("bin", "pt", "ckpt") for path in sorted(folder.glob(f"*.{suffix}"))]
    if "*.safetensors" in missing and pickled:
        raise FileFormatError(
            f"expected weights as *.safetensors in {folder.name}, got {pickled[0]}, a pickle, which is never read: "
            "convert it with save_pretrained(…, safe_serialization=True)"
        )
    if missing:
        raise FileFormatError(
            f"expected {', '.join(_FILES)} in {folder.name}, got no {', no '.join(missing)}: "
            "save the model and its fast tokenizer there with save_pretrained(…)"
        )


def _tensor(folder: Path, name: str) -> Tensor:
    """One tensor of the folder's safetensors files, in float32, under any of the names it may have there."""
    spellings = [name, *(name.replace(new, old) for new, old in _OLD_NAMES.items())]  # the first that is there
    names = [prefix + spelling for prefix in ("", "bert.") for spelling in spellings]
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, framework="pt") as file:
                stored = set(file.keys())
                found = next((each for each in names if each in stored), None)
                if found is not None:
                    return file.get_tensor(found).float()
        except (OSError, SafetensorError) as error:
            raise _unreadable(path, error) from None
    raise FileFormatError(f"expected a BERT-type encoder with {name}, got no such tensor in {folder.name}")


def _stamp(folder: Path) -> tuple[tuple[int, int], ...]:
    """What tells that the files of a folder changed."""
    files = [path.stat() for pattern in _FILES for path in sorted(folder.glob(pattern))]
    return tuple((file.st_mtime_ns, file.st_size) for file in files)


def _fingerprint(folder: Path) -> str:
    """Of a folder without a version: what is in its files."""
    files = [path for pattern in _FILES for path in sorted(folder.glob(pattern))]
    return "sha256:" + cache.digest(*(path.read_bytes() for path in files))[:16]


def _unreadable(path: Path, error: Exception) -> FileFormatError:
    reason = next(iter(str(error).splitlines()), "")
    return FileFormatError(
        f"expected a readable {path.name} in {path.parent.name}, got {type(error).__name__}: {reason}"
    )
