"""The whole vocabulary at every position: the time of one substitution against a forward pass, and against the Probe.

Each case runs in a process of its own, in float32 with one thread, so that its peak of memory is its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.speed import timed

BARS = {
    "shared_table_n128_d384_times_cheaper_than_forward": "≥ 4,000",
    "shared_table_n250_d768_times_cheaper_than_forward": "≥ 10,000",
    "placed_n128_d384_times_cheaper_than_forward": "≥ 500",
    **dict.fromkeys(
        (f"{case}_peak_memory_gb" for case in ("shared_table_n128_d384", "shared_table_n250_d768", "placed_n128_d384")),
        "≤ 1",
    ),
}
WORDS = 30_522


def shared_table(n: int, d: int) -> dict[str, float]:
    """Rows that are the same at every position: bare word embeddings, or Gaussian ones as here."""
    import oneword as ow

    X = ow.gaussian(n, d, seed=0, dtype=torch.float32).X
    return _measured(X, ow.Vectors.of(ow.gaussian(WORDS, d, seed=1, dtype=torch.float32).X), f"shared_table_n{n}_d{d}")


def placed(n: int) -> dict[str, float]:
    """Layer 0 of the embedded encoder on a real review: the row of a word depends on its position."""
    import oneword as ow

    encoder = ow.Encoder.load()
    X = ow.Corpus.load().tokens(encoder).sample(1, n, seed=0).context(0, encoder, dtype=torch.float32).X
    return _measured(X, ow.Vocabulary.of(encoder), f"placed_n{n}_d{encoder.d}")


def _measured(X: torch.Tensor, within: Any, name: str) -> dict[str, float]:
    from oneword import AttentionFeatures
    from oneword.search.exhaustive import exhaust, one_by_one

    torch.set_num_threads(1)
    phi = AttentionFeatures.draw(X.shape[1], seed=0, dtype=torch.float32)
    probe, rows = phi.at(X), torch.arange(len(X))[:, None]
    exhaust(probe, rows[:1], within)  # compiled and warm
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew from what is held now: table, text and map
    before = _peak()

    def search() -> None:
        exhaust(phi.at(X), rows, within)  # preparing the text is part of the time

    seconds, _ = timed(search, 3)
    memory = _peak() - before
    with torch.no_grad():
        forward, _ = timed(lambda: phi(X), 200)
    one = seconds / (len(X) * within.count)
    some = torch.arange(2000)
    plain, _ = timed(lambda: one_by_one(probe, rows[:1], within, some=some), 3)
    return {
        f"{name}_substitutions": len(X) * within.count,
        f"{name}_seconds": seconds,
        f"{name}_microseconds_a_substitution": one * 1e6,
        f"{name}_forward_milliseconds": forward * 1e3,
        f"{name}_times_cheaper_than_forward": forward / one,
        f"{name}_times_cheaper_than_the_probe": plain / len(some) / one,
        f"{name}_peak_memory_gb": memory,
    }


def _peak() -> float:
    """The largest memory this process has had, in GB."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024 / 1e9


CASES: dict[str, Callable[[], dict[str, float]]] = {
    "shared-128": lambda: shared_table(128, 384),
    "shared-250": lambda: shared_table(250, 768),
    "placed-128": lambda: placed(128),
}


def speed() -> dict[str, float]:
    """All cases, one process each."""
    numbers: dict[str, float] = {}
    for case in CASES:
        command = [sys.executable, "-m", "benchmarks.vocabulary", case]
        run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[1])
        numbers |= json.loads(run.stdout)
    return numbers


if __name__ == "__main__":
    print(json.dumps(CASES[sys.argv[1]]()))
