"""How near the searches of a trained model come to the sup: all-MiniLM-L6-v2 (pooled) at real reviews.

The search runs over all words of a text. Its best two are held against 16 starts of 300 steps at the same word, half of
them toward real words and half along random directions: `ratio` is the mean over both of value / max(reference, value).
A word without a reference of its own is held against the largest of its text. References take minutes, so they are
measured at the best two words of the default search and kept in benchmarks/reference.json; delete their lines to
measure them again.

python -m benchmarks.reach [n …]
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch

from benchmarks.models import review
from benchmarks.references import kept, reference_of
from oneword import Ball, TransformerFeatures
from oneword.maps.base import Probe
from oneword.maps.transformer_probe import TransformerProbe
from oneword.random import stream
from oneword.search.defaults import DefaultSearch
from oneword.sets.constraints import unit

LENGTHS, TRIALS = (8, 24, 64), 5
EFFORTS = {"default": DefaultSearch(), "quick": DefaultSearch(quick=True)}
BARS = {"default": 0.92, "quick": 0.75}
STARTS, STEPS = 16, 300
WIDEST, LAST, MEMORY = 0.15, 0.01, 0.8  # the first and the last step, of the radius; the memory of the direction
WITHIN = Ball(relative=1.0)


def reference(probe: TransformerProbe, row: int) -> float:
    """The largest S that many long climbs at one word find."""
    x, r = probe.X[row].expand(STARTS, -1), WITHIN.reach(probe.X[row])
    draw = stream(0, "reach", row)
    words = probe.phi.encoder.whole_words[torch.from_numpy(draw.integers(len(probe.phi.encoder.whole_words), size=8))]
    random = torch.from_numpy(draw.standard_normal((STARTS - 8, probe.d))).to(x)
    y = WITHIN.toward(x, torch.cat([probe.phi.encoder.layer0.word[words].to(x) - x[:8], random]))
    i, mean, best = torch.full((STARTS,), row), torch.zeros_like(y), torch.zeros(STARTS)
    for step in range(STEPS):
        value, gradient = probe.value_and_gradient(y, i)
        best = torch.maximum(best, value)
        mean = MEMORY * mean + (1 - MEMORY) * unit(gradient)
        length = WIDEST * (1 + math.cos(math.pi * step / STEPS)) / 2 + LAST
        y = WITHIN.project(x, y + length * r * unit(mean))
    return math.sqrt(float(best.max())) / probe.norm


@contextmanager
def counted() -> Iterator[list[float]]:
    """Texts that go through the model forward and backward while this lasts; forward alone counts a third."""
    passes = [0.0]
    both, forward = Probe.value_and_gradient, TransformerProbe.change2

    def with_gradient(self: Probe, y: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        passes[0] += len(i)
        return both(self, y, i)

    def alone(self: TransformerProbe, y: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        passes[0] += 0 if torch.is_grad_enabled() else len(i) / 3
        return forward(self, y, i)

    TransformerProbe.value_and_gradient, TransformerProbe.change2 = with_gradient, alone  # type: ignore[method-assign]
    try:
        yield passes
    finally:
        del TransformerProbe.value_and_gradient
        TransformerProbe.change2 = forward  # type: ignore[method-assign]


def searched(probe: TransformerProbe, effort: str) -> tuple[torch.Tensor, float]:
    """S at every word, and the passes that it took."""
    with counted() as passes:
        found = EFFORTS[effort].run(probe, torch.arange(probe.n)[:, None], WITHIN)
    return found.change2.sqrt() / probe.norm, passes[0]


def at_one_text(n: int, trial: int) -> dict[str, dict[str, float]]:
    """Every effort at one text: the ratio at its best two words, its largest value over the best known, its passes."""
    phi = TransformerFeatures.load("minilm", output="pooled")
    probe = phi.at(review(phi, n, trial).X)
    assert isinstance(probe, TransformerProbe)
    found = {effort: searched(probe, effort) for effort in EFFORTS}
    known = references(probe, f"reach all-MiniLM-L6-v2 pooled n={n} trial={trial}", best_two(found["default"][0]))
    most = max(*known.values(), *(float(S.max()) for S, _ in found.values()))
    lines = {}
    for effort, (S, passes) in found.items():
        ratios = [float(S[row]) / max(float(S[row]), known.get(row, max(known.values()))) for row in best_two(S)]
        ratio = statistics.mean(ratios)
        lines[effort] = {"ratio": ratio, "value": float(S.max()), "over_best": float(S.max()) / most, "passes": passes}
        print(f"  n = {n}, trial {trial}, {effort}: {lines[effort]}", flush=True)
    return lines


def references(probe: TransformerProbe, name: str, rows: list[int]) -> dict[int, float]:
    """All references of a text that are kept, those of `rows` among them."""
    for row in rows:
        reference_of(f"{name} row={row}", partial(reference, probe, row))
    known = kept()
    return {row: known[key] for row in range(probe.n) if (key := f"{name} row={row}") in known}


def best_two(S: torch.Tensor) -> list[int]:
    return [int(row) for row in S.argsort(descending=True, stable=True)[:2]]


def measure(lengths: tuple[int, ...] = LENGTHS) -> dict[str, float]:
    """Medians over the texts of each length."""
    medians = {}
    for n in lengths:
        texts = [at_one_text(n, trial) for trial in range(TRIALS)]
        for effort, bar in BARS.items():
            for what in ("ratio", "over_best", "passes"):
                medians[f"{what}_{effort}_n{n}"] = statistics.median(text[effort][what] for text in texts)
            print(f"n = {n}, {effort}: median ratio {medians[f'ratio_{effort}_n{n}']:.3f} (bar {bar})", flush=True)
    return medians


if __name__ == "__main__":
    measure(tuple(map(int, sys.argv[1:])) or LENGTHS)
