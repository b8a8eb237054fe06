"""Many cells: what a run costs above computing them, how soon it goes on, and what more workers bring.

    python -m benchmarks.cells            everything
    python -m benchmarks.cells COUNT      so many tiny cells; with PYTHONPATH=OTHER/src, those of another checkout

Overhead is the time of all cores less the time of the cells, both by the clock, over the number of cells: it counts
starting processes, sending, writing, waiting and the table at the end.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from oneword.maps.attention import AttentionFeatures

TINY = {"maps": "attention", "n": 4, "d": 8}
LENGTHS = (  # cells of a tenth of a second, a third of one and a whole one, and how many
    ({"maps": "attention", "n": 16, "d": 48}, 800),
    ({"maps": "attention", "n": 30, "d": 64}, 360),
    ({"maps": "attention", "n": 60, "d": 96}, 140),
)
PAIRS = 3  # runs with one worker and with two, in turn: what a machine does beside them shows in all of them
SLEEP = 0.5
SLEEPY = {"maps": "benchmarks.cells:sleeper", "n": 2, "d": 4, "search": "quick"}
MANY = 30  # workers that sleep; each needs memory all the same


def sleeper(n: int, d: int, seed: int) -> AttentionFeatures:
    """Stands for a long computation on another machine: it takes its time, and no core of this one."""
    time.sleep(SLEEP)
    return AttentionFeatures.draw(d, seed=seed)


def one_run(spec: dict[str, Any], out: Path, workers: int | str, order: float | None) -> dict[str, Any]:
    """In this process: seconds in all and of the cells, and the time and largest memory of this process.

    `workers` is how many, or the address of a scheduler; `order` the seconds of work in an order.
    """
    from oneword.experiments.run import run
    from oneword.experiments.spec import grid

    if order is not None:
        from oneword.experiments import dispatch

        dispatch.SECONDS = order
    cells = grid("sensitivity", spec, trust_code=True)
    told: list[tuple[float, int, float]] = []
    started = time.perf_counter()
    where = {"cluster": workers} if isinstance(workers, str) else {"workers": workers}
    table = run(
        cells, out, **where,
        progress=lambda stage, _: told.append((time.perf_counter(), int(stage.split()[0]), time.process_time())),
    )  # fmt: skip
    seconds = time.perf_counter() - started
    said = json.loads((out / "run.json").read_text())
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    disk = sum(path.stat().st_size for path in out.rglob("*") if path.name.startswith("cells") and path.is_file())
    found = {
        "cells": len(cells),
        "rows": len(table),
        "seconds": round(seconds, 2),
        "cell_seconds": round(sum(said["cell_seconds"].values()), 2),
        "client_mb": round(megabytes),
        "bytes_a_cell": round(disk / len(cells)),
    }
    amid = [each for each in told if 0.2 * len(cells) <= each[1] <= 0.8 * len(cells)]
    if len(amid) > 1 and amid[-1][1] > amid[0][1]:  # cells were done, and not only read
        span, done, busy = (last - first for first, last in zip(amid[0], amid[-1], strict=True))
        found["amid"] = {
            "cells_a_second": round(done / span, 1),
            "client_ms_a_cell": round(1000 * busy / done, 4),
            "cells_a_delivery": round(done / (len(amid) - 1), 2),
        }
    return found


def apart(spec: dict[str, Any], out: Path, workers: int | str, order: float | None = None) -> dict[str, Any]:
    """The same in a process of its own, whose time and memory count alone."""
    command = [sys.executable, "-m", "benchmarks.cells", json.dumps([spec, str(out), workers, order])]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def tiny(count: int, spec: dict[str, Any] = TINY, workers: int = 2) -> dict[str, Any]:
    """So many tiny cells, and the same run again when all are done."""
    with tempfile.TemporaryDirectory() as folder:
        first, again = (apart({**spec, "trials": count}, Path(folder) / "out", workers) for _ in range(2))
    overhead = (workers * first["seconds"] - first["cell_seconds"]) / count
    return first | {
        "overhead_ms": round(1000 * overhead, 2),
        "cell_ms": round(1000 * first["cell_seconds"] / count, 2),
        "resume_seconds": again["seconds"],
        "resume_client_mb": again["client_mb"],
    }


def speed_up(spec: dict[str, Any], count: int) -> dict[str, Any]:
    """The same cells with one worker and with two, in turn, starting and ending included: all pairs, and the median.

    Beside each pair the same for plain processes with nothing between them, which is what the machine itself allows.
    """
    pairs = []
    for _ in range(PAIRS):
        with tempfile.TemporaryDirectory() as folder:
            one, two = (apart({**spec, "trials": count}, Path(folder) / str(w), w) for w in (1, 2))
            alone, both = (plain({**spec, "trials": count}, Path(folder) / f"plain-{w}", w) for w in (1, 2))
        pairs.append(
            {
                "seconds_a_cell": round(one["cell_seconds"] / count, 4),
                "one": one["seconds"],
                "two": two["seconds"],
                "speed_up": round(one["seconds"] / two["seconds"], 3),
                "amid": round(two["amid"]["cells_a_second"] / one["amid"]["cells_a_second"], 3),
                "plain": round(alone / both, 3),
            }
        )
        print(spec, pairs[-1], file=sys.stderr, flush=True)
    middle = {name: median(pair[name] for pair in pairs) for name in ("speed_up", "amid", "plain")}
    return {"cells": count, **middle, "pairs": pairs}


def plain(spec: dict[str, Any], out: Path, processes: int) -> float:
    """Seconds for the same cells in so many processes at once, a share of them each, without Dask."""
    seeds = [{**spec, "trials": spec["trials"] // processes, "seed": seed} for seed in range(processes)]
    with ThreadPoolExecutor(processes) as pool:
        done = list(pool.map(lambda each: apart(each, out / str(each["seed"]), 0), seeds))
    return max(each["cell_seconds"] for each in done)


@contextmanager
def scheduler(folder: Path, workers: int) -> Iterator[tuple[str, int]]:
    """A scheduler of its own with so many workers: its address, and its process."""
    file = folder / "scheduler.json"
    dask = [sys.executable, "-m", "dask"]
    local = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(file)]
    commands = [[*dask, "scheduler", *local, "--port", "0"]]
    commands += [[*dask, "worker", *local, "--nthreads", "1", "--no-nanny"]] * workers
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMBA")}
    started = []
    try:
        for command in commands:
            started.append(subprocess.Popen(command, env=os.environ | threads, stderr=subprocess.DEVNULL))
            while not file.exists():
                time.sleep(0.1)
        yield json.loads(file.read_text())["address"], started[0].pid
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait()


def client_cost(count: int = 2000) -> dict[str, Any]:
    """CPU time of client and scheduler for an order and for a cell in it, from orders of one cell and of many."""
    import psutil

    said = {}
    with tempfile.TemporaryDirectory() as folder, scheduler(Path(folder), 2) as (address, process):
        spec = {**TINY, "search": "quick", "trials": count}
        for name, order in (("single", 0.001), ("many", 0.4)):
            before = psutil.Process(process).cpu_times().user + psutil.Process(process).cpu_times().system
            said[name] = apart(spec, Path(folder) / name, address, order)["amid"]
            after = psutil.Process(process).cpu_times().user + psutil.Process(process).cpu_times().system
            said[name]["scheduler_ms_a_cell"] = round(1000 * (after - before) / count, 4)
    orders = {name: 1 / one["cells_a_delivery"] for name, one in said.items()}
    costs: dict[str, Any] = {}
    for who in ("client", "scheduler"):
        single, many = (said[name][f"{who}_ms_a_cell"] for name in ("single", "many"))
        an_order = (single - many) / (orders["single"] - orders["many"])
        costs[who] = {"ms_an_order": round(an_order, 2), "ms_a_cell": round(many - an_order * orders["many"], 3)}
    return {**costs, **said}


def many_workers() -> dict[str, Any]:
    """Workers that sleep, so that there can be more of them than cores: what is lost of their time."""
    with tempfile.TemporaryDirectory() as folder:
        found = apart({**SLEEPY, "trials": 60 * MANY}, Path(folder) / "out", MANY)
    rate = found["amid"]["cells_a_second"]
    each = found["cell_seconds"] / found["cells"]
    busy = round(rate * each / MANY, 3)
    return {"workers": MANY, "seconds_a_cell": round(each, 4), "busy": busy, "cores": os.cpu_count(), **found}


def measure() -> dict[str, Any]:
    return {
        "tiny": tiny(10_000),
        "hundred_thousand": tiny(100_000, {**TINY, "search": "quick"}),
    }


def more_workers() -> dict[str, Any]:
    """What a second core brings and what an order costs; anything else that runs on the machine shows in it."""
    return {
        "two": [speed_up(spec, count) for spec, count in LENGTHS],
        "client": client_cost(),
        "many": many_workers(),
    }


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].startswith("["):
        what, where, processes, seconds = json.loads(sys.argv[1])
        print(json.dumps(one_run(what, Path(where), processes, seconds)))
    else:
        everything = {"cells": measure, "more_workers": more_workers}
        found = {name: section() for name, section in everything.items()} if len(sys.argv) < 2 else None
        print(json.dumps(found or tiny(int(sys.argv[1])), indent=1))
