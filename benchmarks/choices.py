"""What each choice of the authors' script does to S, one at a time and all together, beside our protocol.

    python -m benchmarks.choices [ENCODER]

| choice | ours | the authors' script |
|---|---|---|
| positions | all | the first token, [CLS], alone |
| ball | ‖y − x‖ ≤ √d | the same around a word with noise of 0.1 √d, so that ‖y − x‖ reaches 1.1 √d |
| starts | many | one, random, and 50·n projected gradient steps (alone: at the position where ours is largest) |
| result | the best iterate | the last one |
| texts | of n tokens or more, cut there | shorter ones too, filled up with [PAD] |

Values are searched, so lower bounds; medians over texts of the corpus, each with weights of its own.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.protocol import step
from oneword import AttentionFeatures, Ball, Constraint, Corpus, Encoder, sensitivity
from oneword.maps.base import Probe
from oneword.text.samples import TokenisedCorpus

NOISE = 0.1  # of √d
LENGTHS = {40: 8, 120: 3}  # words, and texts of each: the 50·n steps take longest


@dataclass(frozen=True, eq=False)
class NoisedBall(Constraint):
    """‖y − (x + noise)‖ ≤ √d."""

    noise: Tensor

    def toward(self, x: Tensor, direction: Tensor) -> Tensor:
        return Ball().toward(x + self.noise, direction)

    def project(self, x: Tensor, y: Tensor) -> Tensor:
        return Ball().project(x + self.noise, y)

    def sample(self, x: Tensor, count: int, rng: np.random.Generator) -> Tensor:
        return Ball().sample(x + self.noise, count, rng)

    def reach(self, x: Tensor) -> Tensor:
        return Ball().reach(x) + self.noise.norm()

    def longest(self, x: Tensor) -> Tensor:
        return Ball().longest(x + self.noise)

    def violation(self, x: Tensor, y: Tensor) -> Tensor:
        return Ball().violation(x + self.noise, y)

    def describe(self) -> dict[str, float | str | None]:
        return {"set": "NoisedBall", "radius": None, "shown": "‖y − (x + noise)‖ ≤ √d"}


def best_and_last(probe: Probe, within: Constraint, position: int, seed: int) -> tuple[float, float]:
    """From one random start at one position, 50·n steps: the best value of all iterates, and that of the last one."""
    i = torch.tensor([position])
    draw = torch.Generator().manual_seed(seed)
    y = within.toward(probe.X[i], torch.randn(1, probe.d, dtype=probe.X.dtype, generator=draw))
    best = 0.0
    for _ in range(50 * probe.n):
        y = step(probe, y, i, 0.02 * math.sqrt(probe.d), within)
        best = max(best, float(probe.change2(y, i)))
    return math.sqrt(best) / probe.norm, math.sqrt(float(probe.change2(y, i))) / probe.norm


def choices(phi: AttentionFeatures, X: Tensor, padded: Tensor, seed: int) -> dict[str, float]:
    """S of one text, by each protocol."""
    probe, filled = phi.at(X), phi.at(padded)
    draw = torch.Generator().manual_seed(1000 + seed)
    noise = torch.randn(phi.d, dtype=X.dtype, generator=draw)
    around = NoisedBall(NOISE * math.sqrt(phi.d) * noise / noise.norm())
    how: dict[str, Any] = {"certify": False, "baseline": 0, "seed": seed}
    ours = sensitivity(phi, X, **how)
    one_start, last = best_and_last(probe, Ball(), ours.position, seed)
    return {
        "ours": ours.value,
        "first position alone": sensitivity(phi, X, positions=[0], **how).value,
        "ball around a noised word": sensitivity(phi, X, within=around, **how).value,
        "one start": one_start,
        "one start, last iterate": last,
        "padded texts": sensitivity(phi, padded, **how).value,
        "all of them": best_and_last(filled, around, 0, seed)[1],
    }


def table(encoder_name: str, lengths: Mapping[int, int] = LENGTHS) -> list[dict[str, Any]]:
    """One line per length: medians over texts, and how far each is from ours."""
    encoder = Encoder.load(encoder_name)
    corpus = TokenisedCorpus.of(Corpus.load(), encoder)
    lines = []
    for n, trials in lengths.items():
        found: dict[str, list[float]] = {}
        for trial in range(trials):
            phi = AttentionFeatures.draw(encoder.d, seed=trial)
            texts = [corpus.sample(1, n, seed=0, trial=trial, pad=pad) for pad in (False, True)]
            X, padded = (encoder.embed(torch.as_tensor(text.ids[0]).long()) for text in texts)
            for name, value in choices(phi, X, padded, trial).items():
                found.setdefault(name, []).append(value)
        medians = {name: round(statistics.median(values), 4) for name, values in found.items()}
        ratios = {
            name: round(statistics.median(np.divide(values, found["ours"]).tolist()), 4)
            for name, values in found.items()
        }
        lines.append(
            {"encoder": encoder.name, "d": encoder.d, "n": n, "texts": trials, "S": medians, "of ours": ratios}
        )
        print(json.dumps(lines[-1]), file=sys.stderr)
    return lines


def measure() -> list[dict[str, Any]]:
    from oneword.text.sources import EMBEDDED_MODELS

    names = [name for name in ("minilm", "mpnet") if EMBEDDED_MODELS[name].installed]
    with ProcessPoolExecutor(len(names), get_context("spawn")) as pool:  # they are independent, and not timed
        return [line for lines in pool.map(table, names) for line in lines]


if __name__ == "__main__":
    print(json.dumps(table(*sys.argv[1:2]) if len(sys.argv) > 1 else measure(), indent=1))
