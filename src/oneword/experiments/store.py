"""The folder of a run: one file a cell, written whole or not at all and verified when read, and the table of them all.

    OUT/cells/<key>.parquet    the rows of one cell, its spec, versions, seconds and a checksum
    OUT/results.parquet        all rows, sorted: the same bits from run to run

Whoever kills a run loses the cells under way and nothing else.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from oneword import _version
from oneword.errors import BusyError, FileFormatError, OnewordError
from oneword.experiments.cell import Cell
from oneword.experiments.cells import from_dict
from oneword.experiments.table import from_bytes, to_bytes, to_pandas, together
from oneword.files import write_whole

RESULTS = "results.parquet"
_ABOUT = "oneword.cell"


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
    cell_path(out, cell).parent.mkdir(parents=True, exist_ok=True)
    write_whole(cell_path(out, cell), to_bytes(table, {_ABOUT: text, "sha256": _checksum(table, text)}))


def read_cell(out: Path, cell: Cell, inputs: Mapping[str, str] | None = None) -> Kept | None:
    """What was kept of this cell; None if nothing was, or, with a warning, if it is not what it should be."""
    path = cell_path(out, cell)
    try:
        return _verified(path, cell, dict(inputs or {}))
    except FileNotFoundError:
        return None
    except (OnewordError, OSError) as error:
        warnings.warn(f"{error}: the cell is made again", stacklevel=2)
        return None


def _verified(path: Path, cell: Cell, inputs: Mapping[str, str]) -> Kept:
    table, said = from_bytes(path.read_bytes(), path.name)
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
    write_whole(out / RESULTS, to_bytes(table))
    return to_pandas(table)


def read_results(path: str | os.PathLike[str]) -> pd.DataFrame:
    """A table that a run wrote: the file, or the folder it is in."""
    path = Path(path)
    path = path / RESULTS if path.is_dir() else path
    try:
        return to_pandas(from_bytes(path.read_bytes(), path.name)[0])
    except OSError as error:
        raise FileFormatError(f"expected a table of results, got {path} ({error.strerror})") from None


@contextmanager
def opened(out: Path) -> Iterator[None]:
    """The folder, made if need be and locked: two runs at once would do the same work twice."""
    cells = out / "cells"
    try:
        cells.mkdir(parents=True, exist_ok=True)
        handle = os.open(cells, os.O_RDONLY)
    except OSError as error:
        raise FileFormatError(
            f"expected a folder that can be made and written, got {out} ({error.strerror}): choose another"
        ) from None
    try:
        _lock(handle, out)
        for left_over in [*cells.glob(".*.parquet.*"), *out.glob(f".{RESULTS}.*"), *out.glob(".run.json.*")]:
            left_over.unlink(missing_ok=True)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, out: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BusyError(
            f"expected {out} for this run alone, got another one at work in it: wait, or choose another"
        ) from None
    except OSError:
        pass  # a file system without locks


def _checksum(table: pa.Table, about: str) -> str:
    """Of the values, not of the file: another version of the writer may lay out the same rows differently."""
    return hashlib.sha256(f"{about}\n{_canonical(table.to_pydict())}".encode()).hexdigest()


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))
