"""Tables of texts in files, from bytes to texts with labels: CSV, TSV, JSON lines, Parquet, plain lines.

`parsed` reads the columns; `usable` keeps the rows that have a text in valid Unicode and, where labels are wanted, a
label. Rows that cannot be parsed or used are left out and counted (`Skipped`); an unreadable file is an error.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow
from jaxtyping import Int8
from pyarrow import parquet

from oneword.checks import first_line, shortened, shown
from oneword.errors import FileFormatError, TextError, UnknownNameError, did_you_mean

WRONG_FIELDS = "wrong number of fields"
BAD_QUOTES = "bad quotes"
NOT_JSON = "not a JSON object"
NO_TEXT = "no text"  # missing, or a number or a list in its place
EMPTY_TEXT = "empty text"
BAD_UNICODE = "invalid Unicode"
NO_LABEL = "no label"
UNKNOWN_LABEL = "unknown label"

MOST_BYTES = 500_000_000  # of a file, and of the columns that are read of a Parquet file
_MOST_ROWS, _AT_ONCE = 20_000_000, 1_000  # rows of a Parquet file: in all, and read at once

Labels = Int8[np.ndarray, " texts"]

_LINE_BREAK = re.compile(r"<br\s*/?>")
_WORDS = {"pos": 1, "positive": 1, "true": 1, "neg": -1, "negative": -1, "false": 0}
_MISSING = ("", "none", "nan", "<na>")  # as CSV, JSON, numpy and pandas write it
_NAMED = 3  # places named for each reason: enough to look, short enough for one line


@dataclass(frozen=True, eq=False)
class Table:
    """The columns that were asked for, of those that there are (`names`).

    `places` says where each row is in the source, `lost` where the rows are that could not be parsed, by reason;
    `unit` is what places count.
    """

    names: tuple[str, ...]
    columns: Mapping[str, Sequence[Any]]
    places: Sequence[int]
    lost: Mapping[str, Sequence[int]]
    unit: str


def parsed(content: bytes, suffix: str, wanted: Collection[str], name: str) -> Table:
    """The table in the content of a file called `name`, which has this suffix."""
    try:
        return _PARSERS[suffix](content, wanted)
    except Exception as error:  # each parser has errors of its own
        got = f"{type(error).__name__} ({shortened(first_line(error), 200)}): mend or convert it"
        raise FileFormatError(f"expected {name} as {suffix[1:]} in UTF-8, got {got}") from None


def _delimited(content: bytes, wanted: Collection[str], *, by: str) -> Table:
    """CSV and TSV, with quotes as spreadsheets write them. Everything is a string: a text that reads NA is a text."""
    text = content.decode("utf-8-sig")
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=by, strict=True)
    with _fields_up_to(len(text) + 1):
        names = tuple(next(rows, ()))
        if not names:
            raise ValueError("no first line with the names of the columns")
        columns: dict[str, list[str]] = {name: [] for name in names if name in wanted}
        places: list[int] = []
        lost: defaultdict[str, list[int]] = defaultdict(list)
        while True:
            place = rows.line_num + 1
            try:
                row = next(rows, None)
            except csv.Error as error:
                if "end of data" in str(error):  # an open quote has swallowed the rest of the file
                    raise ValueError(f"a quote that is never closed, in line {place}") from None
                lost[BAD_QUOTES].append(place)
                continue
            if row is None:
                break
            if not row:  # an empty line
                continue
            if len(row) != len(names):
                lost[WRONG_FIELDS].append(place)
                continue
            places.append(place)
            for name, column in columns.items():
                column.append(row[names.index(name)])
    return Table(names, columns, places, lost, "line")


@contextmanager
def _fields_up_to(size: int) -> Iterator[None]:
    """The parser refuses fields of more than 128 KB unless told otherwise, and can be told only for all of Python."""
    before = csv.field_size_limit(size)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _json_lines(content: bytes, wanted: Collection[str]) -> Table:
    names: dict[str, None] = {}
    columns: dict[str, list[Any]] = {name: [] for name in wanted}
    places: list[int] = []
    lost: list[int] = []
    for place, line in enumerate(content.decode("utf-8-sig").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            lost.append(place)
            continue
        names |= dict.fromkeys(row)
        places.append(place)
        for name, column in columns.items():
            column.append(row.get(name))
    return Table(tuple(names), columns, places, {NOT_JSON: lost}, "line")


def _parquet(content: bytes, wanted: Collection[str]) -> Table:
    file = parquet.ParquetFile(pyarrow.BufferReader(content))
    names = tuple(file.schema_arrow.names)
    if file.metadata.num_rows > _MOST_ROWS:
        raise ValueError(f"more than {_MOST_ROWS:,} rows")
    chosen = list(dict.fromkeys(name for name in names if name in wanted))
    columns: dict[str, list[Any]] = {name: [] for name in chosen}
    size = 0
    for batch in file.iter_batches(_AT_ONCE, columns=chosen):  # a few bytes may stand for very many
        for name in chosen:
            column = batch.column(batch.schema.get_all_field_indices(name)[0])  # one that comes twice is refused later
            plain = column.dictionary_decode() if pyarrow.types.is_dictionary(column.type) else column
            size += plain.nbytes
            columns[name] += plain.to_pylist()
        if size > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES:,} bytes in its columns")
    rows = len(columns[chosen[0]]) if chosen else file.metadata.num_rows
    return Table(names, columns, range(1, rows + 1), {}, "row")


def _lines(content: bytes, wanted: Collection[str]) -> Table:
    """One text a line, as the only column: `text`."""
    lines = [line.removesuffix("\r") for line in content.decode("utf-8-sig").removesuffix("\n").split("\n")]
    return Table(("text",), {"text": lines}, range(1, len(lines) + 1), {}, "line")


_PARSERS: dict[str, Callable[[bytes, Collection[str]], Table]] = {
    ".csv": partial(_delimited, by=","),
    ".tsv": partial(_delimited, by="\t"),
    ".jsonl": _json_lines,
    ".parquet": _parquet,
    ".txt": _lines,
}
SUFFIXES = tuple(_PARSERS)


# Skipped rows ---------------------------------------------------------------------------------------------------------


class Places(NamedTuple):
    """How many rows, and the first of them, counted from 1."""

    total: int
    first: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Skipped(Mapping[str, Places]):
    """A mapping from reason to places, empty if every row was used; `str` says it in one line.

    `rows` counts all rows, used or not. A place is a line of a text file, else a row or a file of a folder: `unit`.
    """

    rows: int
    unit: str
    reasons: Mapping[str, Places]

    @classmethod
    def at(cls, places: Mapping[str, Sequence[int]], *, rows: int, unit: str) -> Skipped:
        """From all places of each reason; the reason with most rows comes first."""
        found = {reason: Places(len(where), tuple(sorted(where)[:_NAMED])) for reason, where in places.items() if where}
        ordered = sorted(found.items(), key=lambda item: (-item[1].total, item[0]))
        return cls(rows, unit, MappingProxyType(dict(ordered)))

    @property
    def count(self) -> int:
        return sum(places.total for places in self.reasons.values())

    def __getitem__(self, reason: str) -> Places:
        return self.reasons[reason]

    def __iter__(self) -> Iterator[str]:
        return iter(self.reasons)

    def __len__(self) -> int:
        return len(self.reasons)

    def __str__(self) -> str:
        if not self:
            return f"none of {self.rows:,} rows skipped"
        return f"{self.count:,} of {self.rows:,} rows skipped: {self.why}"

    @property
    def why(self) -> str:
        """The reasons alone: 2 empty text (lines 3, 9), 1 unknown label (line 4)."""
        return ", ".join(f"{places.total:,} {reason} ({self._where(places)})" for reason, places in self.items())

    def _where(self, places: Places) -> str:
        more = ", …" if places.total > len(places.first) else ""
        return f"{self.unit}{'s' if places.total > 1 else ''} {', '.join(map(str, places.first))}{more}"


# Usable rows ----------------------------------------------------------------------------------------------------------


class Content(NamedTuple):
    """What a corpus is made of: texts, labels +1 and −1 (None: it has none), and what was left out."""

    texts: tuple[str, ...]
    labels: Labels | None
    skipped: Skipped


@dataclass(frozen=True)
class Columns:
    """The columns to read. One called `label` may be missing, as labels are optional; any other must be there."""

    text: str = "text"
    label: str | None = "label"

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise UnknownNameError(f"expected text= the name of a column, got {shown(self.text)}: give it as a string")
        if not (self.label is None or isinstance(self.label, str)):
            raise UnknownNameError(
                f"expected label= the name of a column or None, got {shown(self.label)}: give it as a string"
            )
        if self.text == self.label:
            remedy = "name another, or label=None"
            raise UnknownNameError(f"expected text= and label= as two columns, got {self.text!r} for both: {remedy}")

    @property
    def wanted(self) -> set[str]:
        return {self.text} if self.label is None else {self.text, self.label}

    def check(self, names: Sequence[str], name: str) -> None:
        """Refuse a column that the source does not have, or has twice."""
        optional = () if self.label == "label" else (("label", self.label),)
        for argument, column in (("text", self.text), *optional):
            if column is not None and column not in names:
                found = shortened(", ".join(names), 200) or "no column at all"
                remedy = f"name another with {argument}={did_you_mean(column, names)}"
                raise UnknownNameError(f"expected a column {shown(column)} in {name}, got {found}: {remedy}")
        for column in self.wanted:
            if names.count(column) > 1:
                raise FileFormatError(f"expected one column {column!r} in {name}, got several: rename all but one")


def usable(table: Table, columns: Columns, name: str) -> Content:
    """The texts and labels that can be used; without any, an error with the reasons."""
    if table.names or table.places:  # JSON lines none of which could be read have no columns to miss
        columns.check(table.names, name)
    texts = table.columns.get(columns.text, ())
    words = None
    if columns.label in table.names:
        words = [_word(label) for label in table.columns[str(columns.label)]]
    signs = _signs(words or (), name)
    kept: list[int] = []
    skipped: defaultdict[str, list[int]] = defaultdict(list)
    for row, place in enumerate(table.places):
        reason = _text_trouble(texts[row]) or (None if words is None else _label_trouble(words[row], signs))
        if reason is None:
            kept.append(row)
        else:
            skipped[reason].append(place)
    total = len(table.places) + sum(map(len, table.lost.values()))
    report = Skipped.at({**table.lost, **skipped}, rows=total, unit=table.unit)
    if not kept:
        raise TextError(_nothing_left(report, name))
    labels = None if words is None else np.array([signs[words[row]] for row in kept], dtype=np.int8)
    return Content(tuple(_without_breaks(texts[row]) for row in kept), labels, report)


def _nothing_left(report: Skipped, name: str) -> str:
    if not report.rows:
        return f"expected at least one text, got none in {name}: give a file with some rows"
    remedy = "mend the file"
    if NO_LABEL in report or UNKNOWN_LABEL in report:
        remedy = "write labels as pos and neg, 1 and 0 or 1 and -1, or leave them out with label=None"
    return f"expected at least one row of {name} that can be used, got none of {report.rows:,} ({report.why}): {remedy}"


# Texts --------------------------------------------------------------------------------------------------------------


def _without_breaks(text: str) -> str:
    """Spaces for the line breaks of HTML."""
    return _LINE_BREAK.sub(" ", text)


def _text_trouble(text: object) -> str | None:
    if not isinstance(text, str):
        return NO_TEXT
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair: JSON can write it, no tokenizer can read it
        return BAD_UNICODE
    return None if _without_breaks(text).strip() else EMPTY_TEXT


# Labels -------------------------------------------------------------------------------------------------------------


def _word(label: object) -> str:
    return str(label).strip().lower()


def _label_trouble(word: str, signs: Mapping[str, int]) -> str | None:
    if word in signs:
        return None
    return NO_LABEL if word in _MISSING else UNKNOWN_LABEL


def _signs(words: Iterable[str], name: str) -> dict[str, int]:
    """What the words of a column mean, +1 or −1; those that are missing here mean neither.

    A 0 is a −1, unless there are −1s as well: then it is a third class. A number besides these makes the column a
    scale, on which a 1 may be the worst: refused, because to skip the other rows would turn its meaning round.
    """
    values = {word: _value(word) for word in set(words) - set(_MISSING)}
    scale = sorted(word for word, value in values.items() if value is not None and value not in (-1, 0, 1))
    if scale:
        got = f"{shortened(', '.join(scale))!r} in {name}: name another column with label=, or label=None for none"
        raise FileFormatError(f"expected two labels, pos and neg, 1 and 0 or 1 and -1, got {got}")
    third = -1 in values.values()
    return {word: int(value) or -1 for word, value in values.items() if value is not None and (value or not third)}


def _value(word: str) -> float | None:
    """The number that a label means; None if it means none."""
    if word in _WORDS:
        return _WORDS[word]
    try:
        return float(word)
    except ValueError:
        return None
