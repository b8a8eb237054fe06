"""Cells done by processes: a local Dask cluster bound to 127.0.0.1, or the user's own scheduler.

One task a cell. A cell goes over the wire as its spec and comes back as its rows; a worker that dies is replaced and
its cell done again. A cell that fails says so as its outcome, and the others go on.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
import uuid
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from typing import Any

import numba
import pandas as pd
import pyarrow as pa
import torch
from threadpoolctl import threadpool_limits

from oneword.checks import described, shown
from oneword.errors import ClusterError, FileFormatError, OnewordError
from oneword.experiments.cell import Cell
from oneword.experiments.cells import from_dict
from oneword.experiments.draws import Inputs, inputs_of
from oneword.experiments.own_maps import OwnMap
from oneword.experiments.store import table_of, to_pandas, versions
from oneword.text.sources import Package

Client = Any  # distributed.Client

# Before a worker starts, so that its libraries find them; and nothing of Dask's own shows on the terminal.
_ENVIRONMENT = {
    **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMBA")},
    "TOKENIZERS_PARALLELISM": "false",
    "DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "critical",
}
_CONFIGURATION: dict[str, Any] = {
    "distributed.scheduler.worker-saturation": 1.0,  # a worker gets its next cell when it has done the last one
    "distributed.scheduler.worker-ttl": None,  # a long computation is no sign of death
    "distributed.scheduler.allowed-failures": 5,
    "distributed.scheduler.http.routes": [],  # dashboard off: there is nothing to be seen
    "distributed.worker.http.routes": [],
    "distributed.comm.timeouts.connect": "60s",  # a loaded machine is slow to start processes
    # Dask has freed memory given back at once; fetching it anew for every step took more than half of the time.
    "distributed.nanny.pre-spawn-environ": {
        "MALLOC_TRIM_THRESHOLD_": str(1 << 31),
        "MALLOC_MMAP_THRESHOLD_": str(1 << 25),
    },
    # Memory was checked before: a worker that waits or spills would only be slower, and never done.
    **{f"distributed.worker.memory.{what}": False for what in ("target", "spill", "pause", "terminate")},
}
# One cell of a process at a time: another one that ends would give all of them their threads back.
_ALONE = threading.RLock()
_SILENT = logging.CRITICAL + 1
_PATIENCE = 60  # seconds for a scheduler to answer and for its first worker to appear


@dataclass(frozen=True, eq=False)
class Outcome:
    """The rows of a cell and the seconds they took; or why there are none."""

    table: pa.Table | None
    seconds: float = 0.0
    reason: str = ""
    cause: Exception | None = None  # if it was none of ours


def do_cell(cell: Cell) -> pa.Table:
    """The rows of a cell: a pure function of its spec, on one thread."""
    with one_thread():
        rows = cell.rows()
    return table_of([{"kind": cell.kind, "key": cell.key, "row": row, **values} for row, values in enumerate(rows)])


def run_cell(cell: Cell) -> pd.DataFrame:
    """The same as a data frame."""
    return to_pandas(do_cell(cell))


@contextmanager
def one_thread() -> Iterator[None]:
    """torch, BLAS, OpenMP and numba on one thread each: how a sum is split among threads decides its last bits."""
    with _ALONE, threadpool_limits(1):
        threads = torch.get_num_threads(), numba.get_num_threads()
        torch.set_num_threads(1)
        numba.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads[0])
            numba.set_num_threads(threads[1])


def try_cell(cell: Cell, inputs: Inputs) -> Outcome:
    """Do a cell in this process, if it reads here what it is meant to read."""
    started = time.perf_counter()
    try:
        differ = [what for what, mark in inputs_of(cell).items() if inputs.get(what) != mark]
        if differ:
            raise FileFormatError(f"expected the {' and '.join(differ)} that the run was started with, got another one")
        table = do_cell(cell)
    except OnewordError as error:
        return Outcome(None, reason=described(error))
    return Outcome(table, time.perf_counter() - started)


def in_process(cells: Sequence[Cell], inputs: Mapping[str, Inputs]) -> Iterator[tuple[Cell, Outcome]]:
    """One cell after the other."""
    for cell in cells:
        try:
            outcome = try_cell(cell, inputs[cell.key])
        except Exception as error:  # whatever a cell may raise
            outcome = Outcome(None, reason=described(error), cause=error)
        yield cell, outcome


def on_cluster(client: Client, cells: Sequence[Cell], inputs: Mapping[str, Inputs]) -> Generator[tuple[Cell, Outcome]]:
    """Cells as they are done, the first ones started first."""
    run = uuid.uuid4().hex[:8]  # a scheduler may remember tasks of other runs
    waiting = {}
    for place, cell in enumerate(cells):
        options = {"key": f"cell-{run}-{cell.key}", "priority": -place, "retries": 1, "pure": False}
        own = getattr(cell, "own", None)
        waiting[client.submit(_task, cell.to_dict(), own, inputs[cell.key], **options)] = cell
    try:
        for future in dask().as_completed(list(waiting), loop=client.loop):
            yield waiting.pop(future), _outcome(future)
            future.release()
    finally:  # an interrupt, or whoever listens has heard enough
        client.cancel(list(waiting), force=True)


def _task(spec: Mapping[str, Any], own: OwnMap | None, inputs: Inputs) -> Outcome:
    try:
        if own is not None:
            own.check_unchanged()
    except OnewordError as error:
        return Outcome(None, reason=described(error))
    return try_cell(from_dict({**spec, **({} if own is None else {"own": own})}), inputs)


def _outcome(future: Any) -> Outcome:
    try:
        outcome: Outcome = future.result()
        return outcome
    except dask().KilledWorker:
        return Outcome(None, reason="its process died every time, as it does when memory runs out: use fewer workers")
    except Exception as error:  # whatever a cell, or the way to the worker, may raise
        return Outcome(None, reason=described(error), cause=error)


@contextmanager
def local_cluster(count: int) -> Iterator[Client]:
    """So many processes of one thread each on this machine."""
    with _environment(), _silence():
        distributed = dask()
        with dask("dask").config.set(_CONFIGURATION), ExitStack() as stack:
            try:
                with _interrupts_held():
                    cluster = distributed.LocalCluster(
                        n_workers=count,
                        threads_per_worker=1,
                        processes=True,
                        host="127.0.0.1",
                        dashboard_address=None,
                        # Without a port it would be 8787, which another run may have.
                        scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
                        memory_limit=None,
                        silence_logs=_SILENT,
                    )
                    stack.enter_context(cluster)
            except (RuntimeError, OSError, TimeoutError) as error:
                remedy = "use workers=0 or, in a script, put the call under `if __name__ == '__main__':`"
                none = f"none ({described(error)})"
                raise ClusterError(f"expected {count} worker processes, got {none}: {remedy}") from None
            yield stack.enter_context(distributed.Client(cluster, set_as_default=False))


@contextmanager
def remote_cluster(address: str) -> Iterator[Client]:
    """The user's own scheduler, with workers that run what runs here."""
    with _silence():
        try:
            client = dask().Client(address, timeout=_PATIENCE, set_as_default=False)
        except (OSError, TimeoutError, ValueError, TypeError) as error:
            raise ClusterError(
                f"expected a Dask scheduler at {shown(address)}, got none ({described(error)})"
            ) from None
        with client:
            _check_workers(client, address)
            yield client


def memory_of_workers(client: Client) -> float:
    """Bytes that the smallest worker has for a cell."""
    limits = [worker["memory_limit"] for worker in client.scheduler_info(n_workers=-1)["workers"].values()]
    return min((limit for limit in limits if limit), default=float("inf"))


def dask(module: str = "distributed") -> Any:
    """A module of Dask, which is an extra."""
    return Package(module, module, "cluster").imported()


def _check_workers(client: Client, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=_PATIENCE)
    except TimeoutError:
        remedy = f"start some with `dask worker {address} --nthreads 1`"
        raise ClusterError(f"expected a worker at {address}, got none within {_PATIENCE} s: {remedy}") from None
    try:
        found = client.run(versions)
    except Exception as error:  # no oneword there, or one that cannot be imported
        wanted = f"oneword {versions()['oneword']} on every worker of {address}"
        raise ClusterError(f"expected {wanted}, got {described(error)}: install it there") from None
    for worker, theirs in found.items():
        differ = [f"{name} {theirs.get(name)}" for name, ours in versions().items() if theirs.get(name) != ours]
        if differ:
            wanted = ", ".join(f"{name} {version}" for name, version in versions().items())
            raise ClusterError(f"expected {wanted}, got {', '.join(differ)} at {worker}: install the same there")
    threads = max(worker["nthreads"] for worker in client.scheduler_info(n_workers=-1)["workers"].values())
    if threads > 1:
        warnings.warn(
            f"workers with {threads} threads do one cell at a time all the same: start more of them with --nthreads 1",
            stacklevel=2,
        )


@contextmanager
def _environment() -> Iterator[None]:
    """Workers inherit what is set here, also those that replace a dead one; afterwards all is as it was."""
    before = dict(os.environ)
    os.environ.update(_ENVIRONMENT)
    try:
        yield
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Threads and processes that begin in here never see Ctrl-C, which a terminal sends to all of them: only this one
    does, after it, and ends them in good order."""
    resource_tracker.ensure_running()  # it would begin in here otherwise, and let Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _silence() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("distributed", "tornado", "asyncio")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(_SILENT)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
