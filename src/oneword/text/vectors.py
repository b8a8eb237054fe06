"""Tables of word vectors: GloVe, word2vec and fastText as text, or words and vectors in an .npz file.

A text file has one word a line with its numbers, after an optional first line "N d". Nothing is unpickled. Words are
looked up in lower case if the table is in lower case. A word that the table does not have takes the row of <unk>; where
there is no such row it is left out of the text, since any other vector would be made up.
"""

from __future__ import annotations

import math
import warnings
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Float32
from tokenizers import Tokenizer, models, normalizers
from torch import Tensor

from oneword.checks import first_line, printable, shortened, shown
from oneword.errors import FileFormatError, OnewordError
from oneword.memory import check_memory
from oneword.text import cache
from oneword.text.context import check_finite
from oneword.text.settings import unreadable
from oneword.text.tensors import check_regular
from oneword.text.tokens import SPLITTER

_UNKNOWN = ("<unk>", "<UNK>", "[UNK]")
_LONGEST_LINE = 1_000_000  # characters: a word and its numbers
_SMALL, _MOST_PACKED = 64_000_000, 100  # bytes that any .npz may unpack to, and how many times its own size
_LEFT_OUT = "\x00"  # no word of a text file, and no word of a text: see `check_string`


@dataclass(frozen=True, eq=False)
class WordVectors:
    """The words of a table and their rows."""

    words: tuple[str, ...] = field(repr=False)
    rows: Float[Tensor, "words d"] = field(repr=False)
    fingerprint: str

    def tokenizer(self) -> Tokenizer:
        """Words and punctuation, each one token; without a row for unknown words their id is the one after the last."""
        ids = {word: i for i, word in enumerate(self.words)}
        unknown = next((word for word in _UNKNOWN if word in ids), None)
        if unknown is None:
            ids[_LEFT_OUT] = len(ids)
        tokenizer = Tokenizer(models.WordLevel(ids, unknown or _LEFT_OUT))
        if not any(word != word.lower() for word in self.words if word not in _UNKNOWN):
            tokenizer.normalizer = normalizers.Lowercase()
        tokenizer.pre_tokenizer = SPLITTER
        if unknown is not None:
            tokenizer.add_special_tokens([unknown])
        return tokenizer


def read(path: Path) -> WordVectors:
    """The table in a file; of a word that is there twice the first row counts."""
    readers = {".txt": _read_text, ".vec": _read_text, ".npz": _read_npz}
    if path.suffix not in readers:
        raise FileFormatError(f"expected a folder, or word vectors as {', '.join(readers)}, got the file {path.name}")
    check_regular(path)
    try:
        words, rows = readers[path.suffix](path)
        fingerprint = "sha256:" + cache.file_digest(path)[:16]
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from None
    vectors = torch.from_numpy(rows)
    check_finite(vectors, f"the vectors in {path.name}")
    first = {word: i for i, word in reversed(list(enumerate(words)))}
    kept = sorted(first.values())
    vectors = vectors if len(kept) == len(words) else vectors[kept]
    return WordVectors(tuple(words[i] for i in kept), vectors, fingerprint)


def _read_text(path: Path) -> tuple[list[str], Float32[np.ndarray, "words d"]]:
    check_memory(path.stat().st_size, f"the vectors in {path.name}")  # a text is larger than its numbers
    words: list[str] = []
    rows: list[Float32[np.ndarray, " d"]] = []
    for number, line in _lines(path):
        width = len(rows[0]) if rows else line.count(" ")
        # Some tables have words of several parts, ". . ." among them: the numbers are the last ones.
        word, *numbers = line.rsplit(" ", width) if line.count(" ") > width else line.split(" ", 1)
        row = _numbers(" ".join(numbers))
        if not width or len(row) != width:
            got = f"{shown(line)}: give word vectors as GloVe or word2vec write them as text"
            where = f"line {number} of {path.name}"
            raise FileFormatError(f"expected a word and {width or 'its'} numbers in {where}, got {got}")
        words.append(word)
        rows.append(row)
    if not rows:
        raise FileFormatError(f"expected words with their numbers in {path.name}, got none")
    return words, np.stack(rows)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a table with their numbers, without its header."""
    with path.open(encoding="utf-8", newline="\n") as file:
        for number, whole in enumerate(iter(lambda: file.readline(_LONGEST_LINE), ""), 1):
            line = whole.rstrip()
            header = number == 1 and line.count(" ") == 1 and line.replace(" ", "").isdecimal()
            if line and not header:
                yield number, line


def _numbers(text: str) -> Float32[np.ndarray, " some"]:
    """The numbers of a line; none if there is anything else among them."""
    with warnings.catch_warnings():
        # What numpy says of anything else, before it becomes an error.
        warnings.simplefilter("error", DeprecationWarning)
        try:
            return np.fromstring(text, dtype=np.float32, sep=" ")
        except (ValueError, DeprecationWarning):
            return np.empty(0, dtype=np.float32)


def _read_npz(path: Path) -> tuple[list[str], Float32[np.ndarray, "words d"]]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = [archive.getinfo(f"{name}.npy") for name in ("words", "vectors")]
            _check_unpacked(path, sum(max(part.file_size, _declared(archive, part)) for part in members))
        with np.load(path, allow_pickle=False) as stored:
            words, rows = stored["words"], stored["vectors"]
    except (OSError, OnewordError):
        raise
    except Exception as error:  # a pickle, or one of the many ways in which zip files and headers can be wrong
        wanted, got = (
            "arrays words (of strings) and vectors (of numbers)",
            f"{type(error).__name__}: {shortened(printable(first_line(error)), 200)}",
        )
        raise FileFormatError(f"expected {wanted} in {path.name}, got {got}") from None
    fits = words.ndim == 1 and rows.ndim == 2 and 0 not in rows.shape and len(words) == len(rows)
    if not fits or (words.dtype.kind, rows.dtype.kind) != ("U", "f"):
        got = f"{words.dtype} {words.shape} and {rows.dtype} {rows.shape}"
        raise FileFormatError(f"expected words (N strings) and vectors (N × d floats) in {path.name}, got {got}")
    return words.tolist(), rows.astype(np.float32, copy=False)


def _declared(archive: zipfile.ZipFile, part: zipfile.ZipInfo) -> int:
    """The bytes of the array that the header of an .npy file describes."""
    with archive.open(part) as file:
        version = np.lib.format.read_magic(file)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    return math.prod(shape) * dtype.itemsize


def _check_unpacked(path: Path, size: int) -> None:
    """Refuse a file that would become much larger than numbers and words ever do when they are unpacked."""
    held = path.stat().st_size
    if size > max(_SMALL, _MOST_PACKED * held):
        got = f"{size:,} bytes in a file of {held:,}: save it again with numpy.savez"
        raise FileFormatError(f"expected arrays that at most {_MOST_PACKED} times fill {path.name}, got {got}")
    check_memory(size, f"the vectors in {path.name}")
