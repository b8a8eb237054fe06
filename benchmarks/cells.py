"""Many cells: what a run costs above computing them, how soon it goes on, and what a second worker brings.

    python -m benchmarks.cells [COUNT]

Overhead is the time of all cores less the time of the cells, both by the clock, over the number of cells: it counts
starting processes, sending, writing, waiting and the table at the end.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TINY = {"maps": "attention", "n": 4, "d": 8}
SHORT = {"maps": "attention", "n": 60, "d": 96, "search": "quick"}  # about a tenth of a second


def one_run(spec: dict[str, Any], out: Path, workers: int) -> dict[str, Any]:
    """In this process: seconds in all and of the cells, and the largest memory of this process."""
    from oneword.experiments.run import run
    from oneword.experiments.spec import grid

    cells = grid("sensitivity", spec)
    started = time.perf_counter()
    table = run(cells, out, workers=workers)
    seconds = time.perf_counter() - started
    said = json.loads((out / "run.json").read_text())
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    disk = sum(path.stat().st_size for path in out.rglob("*") if path.name.startswith("cells") and path.is_file())
    return {
        "cells": len(cells),
        "rows": len(table),
        "seconds": round(seconds, 2),
        "cell_seconds": round(sum(said["cell_seconds"].values()), 2),
        "client_mb": round(megabytes),
        "bytes_a_cell": round(disk / len(cells)),
    }


def apart(spec: dict[str, Any], out: Path, workers: int) -> dict[str, Any]:
    """The same in a process of its own, whose memory counts alone."""
    command = [sys.executable, "-m", "benchmarks.cells", json.dumps([spec, str(out), workers])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def tiny(count: int, workers: int = 2) -> dict[str, Any]:
    """So many tiny cells, and the same run again when all are done."""
    with tempfile.TemporaryDirectory() as folder:
        spec = {**TINY, "trials": count}
        first = apart(spec, Path(folder) / "out", workers)
        again = apart(spec, Path(folder) / "out", workers)
    overhead = (workers * first["seconds"] - first["cell_seconds"]) / count
    return first | {"overhead_ms": round(1000 * overhead, 2), "resume_seconds": again["seconds"]}


def speed_up(count: int = 240) -> dict[str, Any]:
    """Cells of a tenth of a second with one worker and with two, each started anew."""
    with tempfile.TemporaryDirectory() as folder:
        one, two = (apart({**SHORT, "trials": count}, Path(folder) / str(w), w) for w in (1, 2))
    each = one["cell_seconds"] / count
    started = [run["seconds"] for run in (one, two)]
    return {"cells": count, "seconds_a_cell": round(each, 4), "one": one, "two": two} | {
        "speed_up": round(started[0] / started[1], 3)
    }


def measure() -> dict[str, Any]:
    return {"tiny": tiny(10_000), "speed_up": speed_up()}


if __name__ == "__main__":
    if len(sys.argv) > 1 and sys.argv[1].startswith("["):
        what, where, processes = json.loads(sys.argv[1])
        print(json.dumps(one_run(what, Path(where), processes)))
    else:
        print(json.dumps(tiny(int(sys.argv[1])) if len(sys.argv) > 1 else measure(), indent=1))
