"""Tables of texts in files: CSV, TSV, JSON lines, Parquet, plain lines. From bytes to columns, row by row.

A row that cannot be parsed is noted and left out; a file that cannot be read at all is an error.
"""

from __future__ import annotations

import csv
import io
import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow
from pyarrow import parquet

from oneword.errors import FileFormatError

WRONG_FIELDS = "wrong number of fields"
BAD_QUOTES = "bad quotes"
NOT_JSON = "not a JSON object"


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
        reason = next(iter(str(error).splitlines()), "")
        raise FileFormatError(
            f"expected {name} as {suffix[1:]} in UTF-8, got {type(error).__name__} ({reason}): mend or convert it"
        ) from None


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
    table = file.read(columns=[name for name in names if name in wanted])
    columns = {name: table.column(name).to_pylist() for name in table.column_names}
    return Table(names, columns, range(1, file.metadata.num_rows + 1), {}, "row")


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
