"""The folder of a run: one file a cell, written whole or not at all and verified when read, and the table of them all.

    OUT/cells/<key>.parquet    the rows of one cell, its spec, versions, seconds and a checksum
    OUT/results.parquet        all rows, sorted, with a checksum: the same bits from run to run
    OUT/run.json               machine, versions and timings

Whoever kills a run loses the cells under way and nothing else. OUT may be a link, because a person names it. OUT/cells
may not. A file in it that is a link, a pipe or a device is neither read nor written into, but replaced; a folder in
the place of a cell stays, and that cell fails.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from oneword import _version
from oneword.checks import shown
from oneword.errors import BusyError, FileFormatError, OnewordError
from oneword.experiments.cell import Cell
from oneword.experiments.cells import from_dict
from oneword.experiments.rows import COLUMNS
from oneword.files import make_folder, read_regular, unfinished, write_own

RESULTS, FORMAT = "results.parquet", "oneword.results/2"
RUN = "run.json"
_ABOUT = "oneword.cell"
_LARGEST = 1 << 30  # bytes of a file of either kind


@dataclass(frozen=True, eq=False)
class Kept:
    """What a cell's file holds."""

    table: pa.Table
    seconds: float
    versions: Mapping[str, str]


@cache
def versions() -> Mapping[str, str]:
    """What the last bits of a number depend on, apart from the CPU."""
    return _version.versions("torch", "numpy", "scipy", "numba")


def cell_path(out: Path, cell: Cell) -> Path:
    return out / "cells" / f"{cell.key}.parquet"


def write_cell(out: Path, cell: Cell, table: pa.Table, seconds: float, inputs: Mapping[str, str] | None = None) -> None:
    """Keep the rows of a cell. `inputs` fingerprints what it read: encoder and corpus."""
    about = {"spec": cell.to_dict(), "inputs": dict(inputs or {}), "versions": dict(versions()), "seconds": seconds}
    text = _canonical(about)
    make_folder(out / "cells")
    write_own(cell_path(out, cell), to_bytes(table, {_ABOUT: text, "sha256": _checksum(table, text)}))


def read_cell(out: Path, cell: Cell, inputs: Mapping[str, str] | None = None) -> Kept | None:
    """What was kept of this cell; None if nothing was, or, with a warning, if it is not what it should be.

    Raises FileFormatError if a folder is in its place, where no cell can be kept.
    """
    path = cell_path(out, cell)
    try:
        return _verified(path, cell, dict(inputs or {}))
    except FileNotFoundError:
        return None
    except IsADirectoryError as error:
        got = f"cells/{path.name} ({error.strerror})"
        raise FileFormatError(f"expected the file of a cell, got {got}: move it away") from None
    except OSError as error:
        reason = f"expected the file of a cell, got {path.name} ({error.strerror})"
    except OnewordError as error:
        reason = str(error)
    warnings.warn(f"{reason}: the cell is made again", stacklevel=2)
    return None


def _verified(path: Path, cell: Cell, inputs: Mapping[str, str]) -> Kept:
    table, said = from_bytes(read_regular(path, _LARGEST, links=False), path.name)
    try:
        text = said[_ABOUT]
        if said["sha256"] != _checksum(table, text):
            raise FileFormatError(f"expected {path.name} as it was written, got another checksum")
        about = json.loads(text)
        kept = Kept(table, float(about["seconds"]), about["versions"])
        spec, made_from = from_dict(about["spec"]), about["inputs"]
    except (KeyError, TypeError, ValueError) as error:
        raise FileFormatError(f"expected a cell's file, got {path.name} ({type(error).__name__}: {error})") from None
    if spec.key != cell.key:
        raise FileFormatError(f"expected the spec of {cell.title} in {path.name}, got that of {spec.title}")
    if made_from != inputs:
        changed = ", ".join(name for name in inputs if made_from.get(name) != inputs[name])
        raise FileFormatError(f"expected {path.name} made from today's {changed}, got another one's")
    return kept


def write_results(out: Path, tables: Sequence[pa.Table]) -> pd.DataFrame:
    """The table of all cells, as it is returned."""
    table = together(tables)
    write_own(out / RESULTS, to_bytes(table, {"format": FORMAT, "sha256": _checksum(table, FORMAT)}))
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
    if about.get("sha256") != _checksum(table, FORMAT):
        got = "another checksum: run again, which uses the kept cells"
        raise FileFormatError(f"expected {path.name} as it was written, got {got}")
    return to_pandas(table)


@contextmanager
def opened(out: Path) -> Iterator[None]:
    """The folder, made if need be and locked: two runs at once would do the same work twice."""
    cells = out / "cells"
    make_folder(cells)
    for name in (RESULTS, RUN):
        if (out / name).is_dir() and not (out / name).is_symlink():
            raise FileFormatError(f"expected a place that can be written, got {out / name} (a folder): move it away")
    try:
        handle = os.open(cells, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise FileFormatError(f"expected a folder that can be read, got {cells} ({error.strerror})") from None
    try:
        _lock(handle, out)
        for left_over in [*unfinished(cells, ".parquet"), *unfinished(out, RESULTS), *unfinished(out, RUN)]:
            with suppress(OSError):  # a folder that is called so
                left_over.unlink()
        yield
    finally:
        os.close(handle)


def _lock(handle: int, out: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BusyError(f"expected no other run in {out}, got another one at work: wait, or choose another") from None
    except OSError:
        pass  # a file system without locks


def _checksum(table: pa.Table, about: str) -> str:
    """Of the values, not of the file: another version of the writer may lay out the same rows differently."""
    return hashlib.sha256(f"{about}\n{_canonical(table.to_pydict())}".encode()).hexdigest()


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


SCHEMA = pa.schema(list(COLUMNS.items()))
_PANDAS: dict[pa.DataType, Any] = {pa.string(): pd.StringDtype(), pa.int64(): pd.Int64Dtype()}


def table_of(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows with all columns; what a row does not name is null, and so is NaN."""
    unknown = {name for row in rows for name in row} - set(COLUMNS)
    assert not unknown, f"columns that the table does not have: {sorted(unknown)}"
    columns = {name: [row.get(name) for row in rows] for name in COLUMNS}
    arrays = {name: pa.array(columns[name], kind, from_pandas=True) for name, kind in COLUMNS.items()}
    return pa.table(arrays, schema=SCHEMA)


def together(tables: Sequence[pa.Table]) -> pa.Table:
    """All rows in one table, sorted by (kind, key, row)."""
    table = pa.concat_tables(tables or [SCHEMA.empty_table()])
    return table.sort_by([("kind", "ascending"), ("key", "ascending"), ("row", "ascending")])


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """The same for people: Int64, string and float64."""
    out: pd.DataFrame = table.to_pandas(types_mapper=_PANDAS.get)
    return out


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
