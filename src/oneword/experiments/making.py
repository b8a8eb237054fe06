"""Make a cell: its rows, a pure function of its spec, on one thread; and who made them, with what.

This is what runs in a worker. A cell comes in as its spec and goes out as text, because text is small, is compared and
summed up at once, and says every number exactly.
"""

from __future__ import annotations

import json
import platform
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numba
import pandas as pd
import pyarrow as pa
import torch
from threadpoolctl import threadpool_limits

from oneword import _version
from oneword.checks import described
from oneword.errors import FileFormatError, OnewordError
from oneword.experiments.cell import Cell
from oneword.experiments.cells import from_dict
from oneword.experiments.draws import Inputs, inputs_of
from oneword.experiments.own_maps import OwnMap
from oneword.experiments.results import table_of, to_pandas
from oneword.experiments.rows import COLUMNS

# One batch of a process at a time: another one that ends would give all of them their threads back.
_ALONE = threading.RLock()
_HERE = "in process"


@dataclass(frozen=True)
class Maker:
    """Who made a cell, and what the last bits of its numbers depend on."""

    worker: str
    host: str
    cpu: str
    versions: Mapping[str, str]
    threads: int

    @classmethod
    def here(cls, worker: str = _HERE) -> Maker:
        """This process, as it makes cells; `worker` is its address in a cluster."""
        with one_thread():
            threads = max(torch.get_num_threads(), numba.get_num_threads())
        return cls(worker, platform.node(), cpu_name(), dict(versions()), threads)

    @cached_property
    def text(self) -> str:
        """All of it as JSON."""
        return canonical(asdict(self))


@dataclass(frozen=True, eq=False)
class Outcome:
    """The rows of a cell as JSON and the seconds they took; or why there are none."""

    rows: str | None
    seconds: float = 0.0
    reason: str = ""
    cause: Exception | None = None  # if it was none of ours
    maker: Maker | None = None


@dataclass(frozen=True, eq=False)
class Order:
    """Cells for one worker, in this order. It stops before a cell when `seconds` are over."""

    specs: Sequence[Mapping[str, Any]]
    own: Sequence[OwnMap | None]
    inputs: Sequence[Inputs]
    seconds: float
    versions: Mapping[str, str]  # that the worker must have
    bytes_needed: int


@dataclass(frozen=True, eq=False)
class Delivery:
    """What came of an order: outcomes of its first cells; or why this worker does none."""

    number: int
    outcomes: Sequence[Outcome] = ()
    refused: str = ""


@cache
def versions() -> Mapping[str, str]:
    """What the last bits of a number depend on, apart from the CPU."""
    return _version.versions("torch", "numpy", "scipy", "numba")


@cache
def cpu_name() -> str:
    """What the machine calls its processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def canonical(value: Any) -> str:
    """JSON that is the same for the same value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def do_cell(cell: Cell) -> str:
    """The rows of a cell as JSON."""
    with one_thread():
        rows = cell.rows()
    return canonical(
        [{"kind": cell.kind, "key": cell.key, "row": row, **_plain(values)} for row, values in enumerate(rows)]
    )


def run_cell(cell: Cell) -> pd.DataFrame:
    """The same as a data frame."""
    return to_pandas(table_of(json.loads(do_cell(cell))))


_PLAIN: dict[pa.DataType, type] = {pa.string(): str, pa.int64(): int, pa.float64(): float}


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with Python's own types, without what it does not know."""
    known = {name: value for name, value in row.items() if value is not None and value == value}  # NaN is not itself
    out = {name: _PLAIN[COLUMNS[name]](value) for name, value in known.items()}
    assert all(out[name] == value for name, value in known.items()), f"values that their columns cannot hold: {known}"
    return out


@contextmanager
def one_thread() -> Iterator[None]:
    """torch, BLAS, OpenMP and numba on one thread each: how a sum is split among threads decides its last bits."""
    with _ALONE:
        if torch.get_num_threads() == numba.get_num_threads() == 1 and _limited:
            yield
            return
        with threadpool_limits(1):
            threads = torch.get_num_threads(), numba.get_num_threads()
            torch.set_num_threads(1)
            numba.set_num_threads(1)
            _limited.append(True)
            try:
                yield
            finally:
                _limited.pop()
                torch.set_num_threads(threads[0])
                numba.set_num_threads(threads[1])


_limited: list[bool] = []  # not empty within `one_thread`: what it does costs 2 ms, so a batch does it once


def try_cell(cell: Cell, inputs: Inputs, maker: Maker) -> Outcome:
    """Do a cell in this process, if it reads here what it is meant to read."""
    started = time.perf_counter()
    try:
        differ = [what for what, mark in inputs_of(cell).items() if inputs.get(what) != mark]
        if differ:
            raise FileFormatError(f"expected the {' and '.join(differ)} that the run was started with, got another one")
        rows = do_cell(cell)
    except OnewordError as error:
        return Outcome(None, reason=described(error))
    except Exception as error:  # whatever a cell may raise
        return Outcome(None, reason=described(error), cause=error)
    return Outcome(rows, time.perf_counter() - started, maker=maker)


def in_process(cells: Sequence[Cell], inputs: Mapping[str, Inputs]) -> Iterator[list[tuple[Cell, Outcome]]]:
    """One cell after the other."""
    maker = Maker.here()
    for cell in cells:
        yield [(cell, try_cell(cell, inputs[cell.key], maker))]


def fill_order(order: Order, number: int) -> Delivery:
    """In a worker: check that it can do the cells, then do as many as time allows, at least one."""
    worker, limit = _dask_worker()
    if reason := refusal(order, limit):
        return Delivery(number, refused=reason)
    started, done = time.monotonic(), list[Outcome]()
    with one_thread():
        maker = Maker.here(worker)
        for spec, own, inputs in zip(order.specs, order.own, order.inputs, strict=True):
            if done and time.monotonic() - started > order.seconds:
                break
            try:
                if own is not None:
                    own.check_unchanged()
            except OnewordError as error:
                done.append(Outcome(None, reason=described(error)))
            else:
                cell = from_dict({**spec, **({} if own is None else {"own": own})})
                done.append(try_cell(cell, inputs, maker))
    return Delivery(number, done)


def refusal(order: Order, memory: float) -> str:
    """Why this process must not do these cells; empty if it may. `memory` is what it may use."""
    differ = [name for name, theirs in order.versions.items() if versions().get(name) != theirs]
    if differ:
        wanted = ", ".join(f"{name} {order.versions[name]}" for name in differ)
        got = ", ".join(f"{name} {versions().get(name, 'none')}" for name in differ)
        return f"expected {wanted}, got {got}: install the same there"
    if order.bytes_needed > memory:
        needed = f"{order.bytes_needed / 1e9:.1f} GB for the largest cell"
        return f"expected {needed}, got {memory / 1e9:.1f} GB: give it more memory"
    return ""


def _dask_worker() -> tuple[str, float]:
    """The address of the Dask worker that this runs in, and the bytes it may use."""
    from distributed import get_worker

    worker = get_worker()
    return str(worker.address), float(worker.memory_manager.memory_limit or "inf")
