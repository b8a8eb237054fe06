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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from oneword.checks import check_function, described, shown
from oneword.errors import CellError, FileFormatError, MemoryLimitError, MissingExtraError
from oneword.experiments import store
from oneword.experiments import workers as processes
from oneword.experiments.cell import Cell, whole
from oneword.experiments.draws import Inputs, prepare
from oneword.experiments.own_maps import MapLike
from oneword.experiments.spec import grid
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
    cluster: str | None = None,
    progress: Progress = silent,
    on_start: Callable[[Plan], None] | None = None,
    about: Mapping[str, Any] | None = None,
) -> pd.DataFrame:
    """Do all cells and return the table of their rows, which is also OUT/results.parquet.

    | argument | meaning |
    |---|---|
    | `out` | the folder of the run; what it holds of these cells is not done again |
    | `workers` | processes on this machine: by default as many as cores, 0 does everything in this one |
    | `cluster` | address of a Dask scheduler of your own, instead |
    | `progress` | called with the stage ("3 of 8 cells") and the fraction of the expected cost that is done |
    | `on_start` | called with the Plan before work begins |
    | `about` | goes into OUT/run.json beside versions, machine and timings |

    Raises CellError, after all other cells are done, if some failed.
    """
    started = time.monotonic()
    todo = list({cell.key: cell for cell in cells}.values())
    wanted = None if workers is None else whole("workers", workers, 0)
    if cluster is None:
        _check_memory(todo, wanted)
        if wanted:
            processes.dask()
    out = Path(out)
    with store.opened(out):
        inputs = prepare(todo)
        work = _Work(out, todo, inputs, progress)
        kept, missing = len(work.done), work.missing
        count = _count(missing, wanted, work.seconds_left) if cluster is None else 0
        if on_start is not None:
            on_start(Plan(len(todo), kept, count, work.seconds_left))
        work.tell()
        with work.interruptible(), _outcomes(missing, inputs, count, cluster) as outcomes:
            work.finish(outcomes)
        table = store.write_results(out, [work.done[cell.key].table for cell in todo])
        made = {"workers": count, "cluster": cluster, "cells": len(todo), "cells_kept_from_before": kept}
        timings = {"seconds": round(time.monotonic() - started, 3), "cell_seconds": work.timings()}
        content = {"format": FORMAT, **(about or {}), **_machine(), **made, "inputs": _named(todo, inputs), **timings}
        write_own(out / store.RUN, json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n")
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
    cluster: str | None = None,
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
    | `cluster` | None | the address of a Dask scheduler of your own instead, tcp://host:port |
    | `trust_code` | False | whether maps given as "package.module:factory" may be imported, which runs their code |
    | `progress` | silent | called with the stage ("3 of 8 cells") and the fraction that is done |
    | `certify` | None | None: no upper bound; 0: the closed form; 1.2: refined until upper/value ≤ 1.2 |
    | `search` | "full" | "full" or "quick"; one's own map brings its search by `Search.default_for` |
    | `more` | | `depth` of drf, `k`, `activation`, `seed`, `positions`, `baseline`, `changed`, `encoder`, `corpus`, … |

    Lists are multiplied out. A map of your own is a FeatureMap, which is used in all trials, or a factory
    `(n, d, seed) -> FeatureMap`, which draws one for each trial; `maps={"name": …}` names them. Kept cells of such a
    map are used again only if its code and parameters are the same.

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
    if out is not None:
        if not isinstance(out, str | os.PathLike):
            raise FileFormatError(f"expected out= the name of a folder, got {shown(out)}: give one, or None")
        return run(cells, out, workers=workers, cluster=cluster, progress=progress)
    with tempfile.TemporaryDirectory(prefix="oneword-") as folder:
        return run(cells, folder, workers=workers, cluster=cluster, progress=progress)


class _Work:
    """What is done, what has failed and what is left, in one folder."""

    def __init__(self, out: Path, cells: Sequence[Cell], inputs: Mapping[str, Inputs], progress: Progress) -> None:
        self.out, self.cells, self.inputs, self.progress = out, cells, inputs, progress
        self.done: dict[str, store.Kept] = {}
        self.failed: dict[str, processes.Outcome] = {}
        for cell in cells:
            try:
                kept = store.read_cell(out, cell, inputs[cell.key])
            except FileFormatError as error:  # its place is taken
                self.failed[cell.key] = processes.Outcome(None, reason=described(error))
            else:
                self.done |= {} if kept is None else {cell.key: kept}
        self.cost = {cell.key: cell.estimate_cost() for cell in cells}
        _mention_versions(self.done.values())

    @property
    def missing(self) -> list[Cell]:
        """The costliest first, so that no long cell is left for the end."""
        left = [cell for cell in self.cells if cell.key not in self.done and cell.key not in self.failed]
        return sorted(left, key=lambda cell: (-self.cost[cell.key], cell.key))

    @property
    def seconds_left(self) -> float:
        return sum(self.cost[cell.key] for cell in self.missing)

    def finish(self, outcomes: Iterable[tuple[Cell, processes.Outcome]]) -> None:
        """Keep what comes in; raise when all has come and something failed."""
        for cell, outcome in outcomes:
            self._take(cell, outcome)
            self.tell()
        if self.failed:
            causes = [outcome.cause for outcome in self.failed.values() if outcome.cause is not None]
            raise CellError(self._failures()) from (causes[0] if causes else None)

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Ctrl-C says how far the run is, also while processes start and end."""
        try:
            yield
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"{self._how_far()}; the same command goes on from there") from None

    def timings(self) -> dict[str, float]:
        return {cell.key: round(self.done[cell.key].seconds, 3) for cell in self.cells}

    def _take(self, cell: Cell, outcome: processes.Outcome) -> None:
        if outcome.table is None:
            self.failed[cell.key] = outcome
            return
        try:
            store.write_cell(self.out, cell, outcome.table, outcome.seconds, self.inputs[cell.key])
        except FileFormatError as error:
            if not store.cell_path(self.out, cell).is_dir():  # no other cell could be kept either
                raise FileFormatError(f"{error}; {self._how_far()}, and the same command goes on from there") from None
            self.failed[cell.key] = processes.Outcome(None, reason=described(error))
            return
        self.done[cell.key] = store.Kept(outcome.table, outcome.seconds, store.versions())

    def tell(self) -> None:
        """Report how far it got."""
        ended = [self.cost[key] for key in self.cost if key in self.done or key in self.failed]
        total = sum(self.cost.values())
        self.progress(f"{len(ended)} of {len(self.cells)} cells", sum(ended) / total if total else 1.0)

    def _how_far(self) -> str:
        return f"{len(self.done)} of {len(self.cells)} cells are done"

    def _failures(self) -> str:
        cells = [cell for cell in self.cells if cell.key in self.failed]
        shown = "; ".join(f"the {cell.title}: {self.failed[cell.key].reason}" for cell in cells[:3])
        more = f"; and {len(cells) - 3} more" if len(cells) > 3 else ""
        wanted = f"expected all {len(self.cells)} cells to succeed"
        return f"{wanted}, got {len(cells)} that failed ({shown}{more}): the others are kept in {self.out}"


@contextmanager
def _outcomes(
    cells: Sequence[Cell], inputs: Mapping[str, Inputs], count: int, cluster: str | None
) -> Iterator[Iterator[tuple[Cell, processes.Outcome]]]:
    if not cells or (cluster is None and not count):
        yield processes.in_process(cells, inputs)
        return
    with processes.local_cluster(count) if cluster is None else processes.remote_cluster(cluster) as client:
        if cluster is not None:
            largest = max(cells, key=lambda cell: cell.estimate_bytes())
            _refuse(largest, processes.memory_of_workers(client), f"a worker of {cluster}", "give workers more memory")
        with closing(processes.on_cluster(client, cells, inputs)) as outcomes:  # before the cluster is
            yield outcomes


def _count(missing: Sequence[Cell], wanted: int | None, seconds: float) -> int:
    """How many processes to start."""
    if wanted is not None:
        return min(wanted, len(missing))
    if len(missing) < 2 or seconds < WORTH_IT:
        return 0
    try:
        processes.dask()
    except MissingExtraError:
        warnings.warn("Dask is not installed, so one core does it all: pip install 'oneword[cluster]'", stacklevel=3)
        return 0
    fit = int(SHARE * physical_memory() / max(cell.estimate_bytes() for cell in missing))
    count = min(len(os.sched_getaffinity(0)), len(missing), fit)
    return count if count > 1 else 0


def _check_memory(cells: Sequence[Cell], wanted: int | None) -> None:
    """Refuse what cannot fit, before anything is allocated. Without a number asked for, as few workers as need be."""
    if not cells:
        return
    budget = SHARE * physical_memory()
    largest = max(cells, key=lambda cell: cell.estimate_bytes())
    fit = int(budget / largest.estimate_bytes())
    if fit:
        _refuse(largest, budget / max(1, wanted or 1), f"each of {wanted} workers", f"use workers = {fit}")
    else:
        _refuse(largest, budget, "this machine", "use a smaller n, d, k or N, or positions = one")


def _refuse(cell: Cell, budget: float, whose: str, remedy: str) -> None:
    needed = cell.estimate_bytes()
    if needed > budget:
        raise MemoryLimitError(
            f"expected every cell to fit into {budget / 1e9:.1f} GB, the share of {whose}, "
            f"got about {needed / 1e9:.1f} GB for the {cell.title}: {remedy}"
        )


def _mention_versions(kept: Iterable[store.Kept]) -> None:
    ours = dict(store.versions())
    other = [found.versions for found in kept if dict(found.versions) != ours]
    if other:
        differ = ", ".join(f"{name} {theirs}" for name, theirs in other[0].items() if ours.get(name) != theirs)
        warnings.warn(
            f"{len(other)} cells were made with {differ} and are kept; numbers may differ in the last bits: "
            "remove OUT/cells to make them again",
            stacklevel=3,
        )


def _machine() -> dict[str, Any]:
    """What changes from machine to machine is said beside the table, not in it."""
    system, memory = f"{platform.system()} {platform.machine()}", round(physical_memory() / 1e9, 1)
    machine = {"system": system, "cpu": cpu_name(), "cores": os.cpu_count(), "memory_gb": memory}
    return {"versions": dict(store.versions()), "machine": machine}


def _named(cells: Sequence[Cell], inputs: Mapping[str, Inputs]) -> list[dict[str, str]]:
    """Encoders and corpora, with the versions they had."""
    found = {(what, str(getattr(cell, what)), mark) for cell in cells for what, mark in inputs[cell.key].items()}
    return [{"what": what, "name": name, "version": mark} for what, name, mark in sorted(found)]


def cpu_name() -> str:
    """What the machine calls its processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
