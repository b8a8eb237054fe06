"""Do cells: those that OUT already holds are taken from there, the others done by as many processes as there are cores.

The result is the same, bit for bit, whatever the number of workers, the order they finish in, and however often the run
was stopped on the way.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from oneword.checks import check_function, shown
from oneword.errors import CellError, FileFormatError, MemoryLimitError, MissingExtraError, RangeError
from oneword.experiments import making
from oneword.experiments.cell import Cell, real, whole
from oneword.experiments.cluster import Cluster, dask, local_workers, workers_of
from oneword.experiments.costs import BASE_BYTES
from oneword.experiments.dispatch import Dispatcher, Rules
from oneword.experiments.draws import Inputs, prepare
from oneword.experiments.making import Outcome, canonical, cpu_name, in_process
from oneword.experiments.own_maps import MapLike
from oneword.experiments.results import write_results
from oneword.experiments.spec import grid
from oneword.experiments.store import RUN, Made, Store, opened
from oneword.experiments.writer import Writer
from oneword.files import write_own
from oneword.memory import physical_memory
from oneword.progress import Progress, silent

FORMAT = "oneword.run/1"  # of run.json
SHARE = 0.8  # of the machine's memory, for all workers together
WORTH_IT = 5.0  # seconds of work below which processes take longer to start than they save


@dataclass(frozen=True)
class Plan:
    """What a run is about to do. `seconds` is a rough guess of the work left, on one core."""

    cells: int
    kept: int
    workers: int
    seconds: float


def run(
    cells: Iterable[Cell],
    out: str | os.PathLike[str],
    *,
    workers: int | None = None,
    cluster: str | Mapping[str, Any] | Cluster | None = None,
    cell_timeout: float | None = None,
    retries: int = Rules.retries,
    progress: Progress = silent,
    on_start: Callable[[Plan], None] | None = None,
    about: Mapping[str, Any] | None = None,
) -> pd.DataFrame:
    """Do all cells and return the table of their rows, which is also OUT/results.parquet.

    | argument | default | meaning |
    |---|---|---|
    | `out` | | the folder of the run; what it holds of these cells is not done again |
    | `workers` | None | processes on this machine: as many as cores; 0 does everything in this one |
    | `cluster` | None | a Dask scheduler of your own instead: its address, or the fields of a Cluster |
    | `cell_timeout` | None | seconds that a cell may take, in a process of its own; None: as long as it takes |
    | `retries` | 3 | how often a cell is done again whose process died, that took too long, or raised a foreign error |
    | `progress` | silent | called with the stage ("3 of 8 cells") and the fraction of the expected cost that is done |
    | `on_start` | None | called with the Plan before work begins |
    | `about` | None | goes into OUT/run.json beside versions, machine and timings |

    Raises CellError, after all other cells are done, if some failed; ClusterError if a cluster cannot be reached or no
    worker of it can do the cells.
    """
    started = time.monotonic()
    todo = list({cell.key: cell for cell in cells}.values())
    wanted = None if workers is None else whole("workers", workers, 0)
    rules = Rules(
        None if cell_timeout is None else real("cell_timeout", cell_timeout, 0.1), whole("retries", retries, 0)
    )
    if rules.timeout is not None and cluster is None and wanted == 0:
        raise RangeError("expected workers ≥ 1 with cell_timeout, got 0: a process cannot end a cell of its own")
    place = None if cluster is None else Cluster.of(cluster)
    if place is None:
        _check_memory(todo, wanted)
        if wanted:
            dask()
    out = Path(out)
    with opened(out) as store:
        inputs = prepare(todo)
        work = _Work(store, todo, inputs, progress)
        kept = len(work.done)
        count = _count(work.missing, wanted, work.seconds_left, rules) if place is None else 0
        if on_start is not None:
            on_start(Plan(len(todo), kept, count, work.seconds_left))
        work.tell()
        work.do(lambda missing: _outcomes(missing, inputs, count, place, rules))
        table = write_results(out, store.tables(work.cells, inputs))
        made = {"workers": count, "cluster": place and place.name, "cells": len(todo), "cells_kept_from_before": kept}
        timings = {"seconds": round(time.monotonic() - started, 3), "cell_seconds": work.timings()}
        who = {"inputs": _named(todo, inputs), "makers": work.makers_said()}
        content = {"format": FORMAT, **(about or {}), **_machine(), **made, **who, **timings}
        write_own(out / RUN, json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n")
    return table


def sweep(
    maps: MapLike | Sequence[MapLike] | Mapping[str, MapLike],
    n: int | Sequence[int],
    d: int | Sequence[int],
    *,
    trials: int = 10,
    words_from: str | Sequence[str] = "gaussian",
    out: str | os.PathLike[str] | None = None,
    workers: int | None = 0,
    cluster: str | Mapping[str, Any] | None = None,
    cell_timeout: float | None = None,
    retries: int = Rules.retries,
    trust_code: bool = False,
    progress: Progress = silent,
    **more: Any,
) -> pd.DataFrame:
    """The word sensitivity of every map at every length and dimension, `trials` times; one row each.

    | argument | default | meaning |
    |---|---|---|
    | `maps` | | one map or a list: names (rf, drf, attention, attention-relu, …), maps of your own (below) |
    | `n`, `d` | | words of a text and their dimension; one number or a list each |
    | `trials` | 10 | draws of text and weights at each size |
    | `words_from` | "gaussian" | "gaussian", "clustered" or "corpus" (real reviews), or a list of these |
    | `out` | None | a folder that keeps the cells, so that a sweep that was stopped goes on; None keeps nothing |
    | `workers` | 0 | processes; 0 does all in this one, None takes as many as there are cores |
    | `cluster` | None | a Dask scheduler of your own instead: its address, tcp://host:port, or a mapping (below) |
    | `cell_timeout` | None | seconds that one measurement may take, in a process of its own |
    | `retries` | 3 | how often one is made again whose process died or that took too long |
    | `trust_code` | False | whether maps given as "package.module:factory" may be imported, which runs their code |
    | `progress` | silent | called with the stage ("3 of 8 cells") and the fraction that is done |
    | `certify` | None | None: no upper bound; 0: the closed form; 1.2: refined until upper/value ≤ 1.2 |
    | `search` | "full" | "full" or "quick"; one's own map brings its search by `Search.default_for` |
    | `more` | | `depth` of drf, `k`, `activation`, `seed`, `positions`, `baseline`, `changed`, `encoder`, `corpus`, … |

    Lists are multiplied out. A map of your own is a FeatureMap, which is used in all trials, or a factory
    `(n, d, seed) -> FeatureMap`, which draws one for each trial; `maps={"name": …}` names them. Kept cells of such a
    map are used again only if its code and parameters are the same.

    A mapping for `cluster` has one of `address`, `scheduler_file` (that `dask scheduler --scheduler-file` writes) and
    `jobqueue` (a TOML file of jobs for a batch system), and for TLS `tls_ca`, `tls_cert` and `tls_key` (PEM files).

    Returns a table, sorted by the keys of its cells, with the columns map, words_from, n, d, trial, value (searched: a
    lower bound on S), upper (with `certify`), baseline (random changes), predicted (by theory), status and others; NaN
    where a column does not apply.

    Raises UnknownNameError and RangeError for what cannot be meant, MemoryLimitError for cells that would not fit,
    CellError if some cells failed (the others are done and kept), and BusyError if another run is at work in `out`.

    In a script, more than one process needs `if __name__ == "__main__":` around the call.

    >>> import oneword as ow
    >>> table = ow.sweep(maps=["attention", "rf"], n=[10, 40], d=16, trials=2, search="quick")
    >>> median = table.groupby(["map", "n"])["value"].median()
    >>> bool(median["rf", 40] < 0.7 * median["rf", 10])  # random features: S falls like 1/√n
    True
    >>> bool(median["attention", 40] > 1)  # attention: it does not
    True
    """
    given = {"maps": maps, "n": n, "d": d, "trials": trials, "words_from": words_from, **more}
    cells = grid("sensitivity", given, trust_code=trust_code)
    check_function("progress", progress)
    if out is not None and not isinstance(out, str | os.PathLike):
        raise FileFormatError(f"expected out= the name of a folder, got {shown(out)}: give one, or None")
    with nullcontext(out) if out is not None else tempfile.TemporaryDirectory(prefix="oneword-") as folder:
        return run(
            cells,
            folder,
            workers=workers,
            cluster=cluster,
            cell_timeout=cell_timeout,
            retries=retries,
            progress=progress,
        )


Outcomes = Iterator[list[tuple[Cell, Outcome]]]


class _Work:
    """What is done, what has failed and what is left, in one folder. Rows are with the store, not here."""

    def __init__(self, store: Store, cells: Sequence[Cell], inputs: Mapping[str, Inputs], progress: Progress) -> None:
        self.store, self.inputs, self.progress = store, inputs, progress
        self.cells = {cell.key: cell for cell in cells}
        self.cost = {cell.key: cell.estimate_cost() for cell in cells}
        self.total = sum(self.cost.values())
        self.failed: dict[str, Outcome] = {}
        self._read()
        _mention_versions(self.makers)

    def _read(self) -> None:
        self.done: dict[str, float] = {}  # seconds
        self.makers: Counter[str] = Counter()  # cells of each
        for cell, kept in self.store.read(self.cells, self.inputs):
            self._count(cell, kept.seconds, canonical(kept.maker))
        self.ended = sum(self.cost[key] for key in self.done)

    @property
    def missing(self) -> list[Cell]:
        """The costliest first, so that no long cell is left for the end."""
        left = [cell for key, cell in self.cells.items() if key not in self.done and key not in self.failed]
        return sorted(left, key=lambda cell: (-self.cost[cell.key], cell.key))

    @property
    def seconds_left(self) -> float:
        return sum(self.cost[cell.key] for cell in self.missing)

    def do(self, start: Callable[[Sequence[Cell]], AbstractContextManager[Outcomes]]) -> None:
        """Do what is missing and keep it; raise when all has come and something failed.

        Ctrl-C says how far the run is, also while processes start and end.
        """
        while missing := self.missing:
            before, writer = len(self.done), Writer(self.store)
            try:
                with start(missing) as outcomes, writer:
                    for some in outcomes:
                        self._take(some, writer)
            except KeyboardInterrupt:
                far = self._how_far(before + writer.written)
                raise KeyboardInterrupt(f"{far}; the same command goes on from there") from None
            except FileFormatError as error:
                if not writer.failed:
                    raise
                far = self._how_far(before + writer.written)
                raise FileFormatError(f"{error}; {far}, and the same command goes on from there") from None
            if self.store.replaced:  # somebody removed the folder: what it had is done again
                self.store.replaced = False
                self._read()
        if self.failed:
            causes = [outcome.cause for outcome in self.failed.values() if outcome.cause is not None]
            raise CellError(self._failures()) from (causes[0] if causes else None)

    def timings(self) -> dict[str, float]:
        return {key: round(self.done[key], 3) for key in self.cells}

    def makers_said(self) -> list[dict[str, Any]]:
        """Who made how many of the cells, and with what."""
        return [{"cells": count, **json.loads(maker)} for maker, count in sorted(self.makers.items())]

    def _take(self, some: Sequence[tuple[Cell, Outcome]], writer: Writer) -> None:
        for cell, outcome in some:
            self.ended += self.cost[cell.key]
            if outcome.rows is None or outcome.maker is None:
                self.failed[cell.key] = outcome
                continue
            writer.put(Made(cell, outcome.rows, outcome.seconds, outcome.maker, self.inputs[cell.key]))
            self._count(cell, outcome.seconds, outcome.maker.text)
        self.tell()

    def _count(self, cell: Cell, seconds: float, maker: str) -> None:
        self.done[cell.key] = seconds
        self.makers[maker] += 1

    def tell(self) -> None:
        """Report how far it got."""
        ended = len(self.done) + len(self.failed)
        self.progress(f"{ended} of {len(self.cells)} cells", min(1.0, self.ended / self.total) if self.total else 1.0)

    def _how_far(self, done: int) -> str:
        return f"{done} of {len(self.cells)} cells are done"

    def _failures(self) -> str:
        cells = [self.cells[key] for key in self.cells if key in self.failed]
        shown = "; ".join(f"the {cell.title}: {self.failed[cell.key].reason}" for cell in cells[:3])
        more = f"; and {len(cells) - 3} more" if len(cells) > 3 else ""
        wanted = f"expected all {len(self.cells)} cells to succeed"
        kept = f"the others are kept in {self.store.path.parent}"
        return f"{wanted}, got {len(cells)} that failed ({shown}{more}): {kept}"


@contextmanager
def _outcomes(
    cells: Sequence[Cell], inputs: Mapping[str, Inputs], count: int, cluster: Cluster | None, rules: Rules
) -> Iterator[Outcomes]:
    if cluster is None and not count:
        yield in_process(cells, inputs)
        return
    with (
        local_workers(count, _budget()) if cluster is None else workers_of(cluster) as place,
        closing(Dispatcher(place, cells, inputs, rules).outcomes()) as outcomes,  # before the cluster is
    ):
        yield outcomes


def _count(missing: Sequence[Cell], wanted: int | None, seconds: float, rules: Rules) -> int:
    """How many processes to start. A time-out needs one, at the least."""
    if wanted is not None:
        return min(wanted, len(missing))
    least = 0 if rules.timeout is None else 1
    if len(missing) < 2 or seconds < WORTH_IT:
        return min(least, len(missing))
    try:
        dask()
    except MissingExtraError:
        warnings.warn("Dask is not installed, so one core does it all: pip install 'oneword[cluster]'", stacklevel=3)
        return 0
    fit = _workers_that_fit(max(cell.estimate_bytes() for cell in missing))
    count = min(len(os.sched_getaffinity(0)), len(missing), fit)
    return count if count > 1 else least


def _check_memory(cells: Sequence[Cell], wanted: int | None) -> None:
    """Refuse what cannot fit, before anything is allocated. Without a number asked for, as few workers as need be."""
    if not cells:
        return
    largest = max(cells, key=lambda cell: cell.estimate_bytes())
    needed, others = largest.estimate_bytes(), max(0, (wanted or 1) - 1)
    budget, fit = _budget() - others * BASE_BYTES, _workers_that_fit(needed)
    if needed > budget:
        whose = f"share of one of {wanted} workers while the others wait" if fit else "share of this machine"
        remedy = f"use workers = {fit}" if fit else "use a smaller n, d, k or N, or positions = one"
        raise MemoryLimitError(
            f"expected every cell to fit into {budget / 1e9:.1f} GB, the {whose}, "
            f"got about {needed / 1e9:.1f} GB for the {largest.title}: {remedy}"
        )


def _budget() -> float:
    """Bytes for all workers of this machine."""
    return SHARE * physical_memory()


def _workers_that_fit(largest: float) -> int:
    """How many, if one does the largest cell and the others wait: orders keep all of them within the budget."""
    return max(0, 1 + int((_budget() - largest) // BASE_BYTES))


def _mention_versions(makers: Mapping[str, int]) -> None:
    ours = dict(making.versions())
    other = [(json.loads(maker)["versions"], count) for maker, count in makers.items()]
    other = [(theirs, count) for theirs, count in other if theirs != ours]
    if other:
        differ = ", ".join(f"{name} {theirs}" for name, theirs in other[0][0].items() if ours.get(name) != theirs)
        warnings.warn(
            f"{sum(count for _, count in other)} cells were made with {differ} and are kept; numbers may differ in the "
            "last bits: remove OUT/cells.sqlite to make them again",
            stacklevel=4,
        )


def _machine() -> dict[str, Any]:
    """What changes from machine to machine is said beside the table, not in it."""
    system, memory = f"{platform.system()} {platform.machine()}", round(physical_memory() / 1e9, 1)
    machine = {"system": system, "cpu": cpu_name(), "cores": os.cpu_count(), "memory_gb": memory}
    return {"versions": dict(making.versions()), "machine": machine}


def _named(cells: Sequence[Cell], inputs: Mapping[str, Inputs]) -> list[dict[str, str]]:
    """Encoders and corpora, with the versions they had."""
    found = {(what, str(getattr(cell, what)), mark) for cell in cells for what, mark in inputs[cell.key].items()}
    return [{"what": what, "name": name, "version": mark} for what, name, mark in sorted(found)]
