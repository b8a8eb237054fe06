"""The table of a run, OUT/results.parquet: all rows, sorted, with a checksum, and the same bits from run to run."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from oneword.checks import shown
from oneword.errors import FileFormatError
from oneword.experiments.rows import COLUMNS
from oneword.files import read_regular, write_own

RESULTS, FORMAT = "results.parquet", "oneword.results/3"
SCHEMA = pa.schema(list(COLUMNS.items()))
_LARGEST = 1 << 30  # bytes of the file
_SLICE = 1 << 12  # rows that are summed up at once, so that a long table takes little memory
_PANDAS: dict[pa.DataType, Any] = {pa.string(): pd.StringDtype(), pa.int64(): pd.Int64Dtype()}


def table_of(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows with all columns; what a row does not name is null, and so is NaN."""
    unknown = {name for row in rows for name in row} - set(COLUMNS)
    assert not unknown, f"columns that the table does not have: {sorted(unknown)}"
    columns = {name: [row.get(name) for row in rows] for name in COLUMNS}
    arrays = {name: pa.array(columns[name], kind, from_pandas=True) for name, kind in COLUMNS.items()}
    return pa.table(arrays, schema=SCHEMA)


def together(tables: Iterable[pa.Table]) -> pa.Table:
    """All rows in one table, sorted by (kind, key, row)."""
    table = pa.concat_tables([*tables] or [SCHEMA.empty_table()])
    return table.sort_by([("kind", "ascending"), ("key", "ascending"), ("row", "ascending")]).combine_chunks()


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """The same for people: Int64, string and float64."""
    out: pd.DataFrame = table.to_pandas(types_mapper=_PANDAS.get)
    return out


def write_results(out: Path, tables: Iterable[pa.Table]) -> pd.DataFrame:
    """Write the table of all cells, and return it."""
    table = together(tables)
    write_own(out / RESULTS, to_bytes(table, {"format": FORMAT, "sha256": _checksum(table)}))
    return to_pandas(table)


def read_results(path: str | os.PathLike[str]) -> pd.DataFrame:
    """A table that a run wrote: the file, or the folder it is in.

    Raises FileFormatError if it cannot be read, or is not what was written: a bit that changed on the disk is noticed.
    """
    path = Path(path)
    path = path / RESULTS if path.is_dir() else path
    try:
        table, about = from_bytes(read_regular(path, _LARGEST), path.name)
    except OSError as error:
        raise FileFormatError(f"expected a table of results, got {path} ({error.strerror})") from None
    if about.get("format") != FORMAT:
        got = f"{shown(about.get('format'))} in {path.name}"
        raise FileFormatError(f"expected a file of format {FORMAT}, got {got}: run again, which uses the kept cells")
    if about.get("sha256") != _checksum(table):
        got = "another checksum: run again, which uses the kept cells"
        raise FileFormatError(f"expected {path.name} as it was written, got {got}")
    return to_pandas(table)


def _checksum(table: pa.Table) -> str:
    """Of the values, not of the file: another version of the writer may lay out the same rows differently."""
    digest = hashlib.sha256(f"{FORMAT} {table.num_rows}\n".encode())
    for first in range(0, table.num_rows, _SLICE):
        digest.update(json.dumps(list(table.slice(first, _SLICE).to_pydict().values())).encode())
    return digest.hexdigest()


def to_bytes(table: pa.Table, about: Mapping[str, str] | None = None) -> bytes:
    """A Parquet file. Every option that shapes it is set here, and no time is written: equal tables, equal bytes."""
    sink = pa.BufferOutputStream()
    layout = {"version": "2.6", "data_page_version": "1.0", "row_group_size": 1 << 20, "write_statistics": False}
    packing = {"compression": "zstd", "compression_level": 3, "use_dictionary": True}
    checks = {"write_page_checksum": True}
    pq.write_table(table.replace_schema_metadata(dict(about or {})), sink, **layout, **packing, **checks)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def from_bytes(content: bytes, name: str) -> tuple[pa.Table, dict[str, str]]:
    """What `to_bytes` wrote: the table, and what was said about it."""
    try:
        file = pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
        if not file.schema_arrow.equals(SCHEMA):
            raise FileFormatError(f"expected the columns of a table of results, got others in {name}")
        table = file.read(use_threads=False)
        table.validate(full=True)  # that texts are UTF-8, for one
        about = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
        return table.replace_schema_metadata(None), about
    # A file that is not what it was can fail in the reader in any of these ways.
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, MemoryError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise FileFormatError(f"expected a table of results, got {name}, which cannot be read ({reason})") from None
