"""How near the default search comes to the sup where that is hard: ReLU attention, and random features far from linear.

ReLU attention has kinks, and rows that a word does not reach have no gradient. Random features with large weights, or
in a large ball, saturate. The reference is a search of another kind: starts from random words and random mixtures of
the text's own words and keys, all climbing by momentum, the better half once more with a step of its own, then restarts
around the best. It takes at least 20 times the effort of the search. Its values are kept in benchmarks/reference.json,
keyed by case; delete them to measure again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.references import reference_of
from oneword import (
    AttentionFeatures,
    Ball,
    Context,
    DeepRandomFeatures,
    FeatureMap,
    RandomFeatures,
    Status,
    gaussian,
)
from oneword.maps.base import Probe
from oneword.search.defaults import DefaultSearch
from oneword.sets.constraints import Constraint, unit
from oneword.text.context import clustered

SEEDS = 3  # of the search
STARTS, STEPS = 120, 300  # of every position; more starts where these are few
SHAKES, AGAIN = (0.6, 0.3, 0.1), 150  # of the reach; steps


@dataclass(frozen=True)
class Case:
    """A map at a text and how far a word may move."""

    name: str
    kind: str
    phi: FeatureMap
    text: Context
    within: Constraint = field(default_factory=Ball)


def cases() -> Iterator[Case]:
    """ReLU attention in 30 cases, the other scores beside it, and random features from easy to saturated."""
    yield _attention("relu", 50, 24, 1, 1.0, 30, weights=7)
    sizes = [(5, 8), (5, 96), (8, 16), (12, 48), (12, 24), (16, 64), (20, 24), (24, 96), (32, 32), (40, 16), (50, 24)]
    sizes += [(64, 48), (64, 96), (6, 32), (10, 10)]
    for number in range(29):
        n, d = sizes[number % len(sizes)]
        scale, groups = (0.3, 1.0, 3.0)[number % 3], (1, 2, 1, 4, 8)[number % 5]
        yield _attention("relu", n, d, groups, scale, number)
    for number, score in enumerate(["relu-unnormalised", "sigmoid", "sparsemax", "softmax"] * 3):
        n, d = [(12, 48), (20, 24), (16, 16), (8, 16), (24, 32), (50, 24)][number % 6]
        yield _attention(score, n, d, (1, 2, 4)[number // 4], (1.0, 3.0, 0.3)[number // 4], 50 + number)
    grid = [(1, 1), (1, 10), (10, 1), (10, 3), (40, 1), (40, 10)]  # V × the first, a ball of √d × the second
    for number, (sigma, (scale, reach)) in enumerate((s, g) for g in grid for s in ("tanh", "relu", "gelu")):
        n, d = [(8, 16), (20, 24), (12, 32)][number % 3]
        V = scale * torch.cat([RandomFeatures.draw(n, d, seed=number).blocks[i] for i in range(n)], 1)
        name = f"rf {sigma} V×{scale} reach {reach}√d n={n} d={d} seed={number}"
        phi = RandomFeatures(V, n, activation=sigma)
        yield Case(name, "rf", phi, gaussian(n, d, seed=number), Ball(reach * math.sqrt(d)))
    for number, (scale, reach) in enumerate(grid):
        n, d, depth, sigma = 8, 16, 2 + number % 2, ("tanh", "relu", "gelu")[number // 2]
        drawn = DeepRandomFeatures.draw(n, d, depth=depth, seed=number)
        V = scale * torch.cat([drawn.blocks[i] for i in range(n)], 1)
        name = f"drf-{depth} {sigma} V×{scale} reach {reach}√d n={n} d={d} seed={number}"
        phi = DeepRandomFeatures([V, *drawn.layers], n, activation=sigma)
        yield Case(name, "drf", phi, gaussian(n, d, seed=number), Ball(reach * math.sqrt(d)))


def _attention(score: str, n: int, d: int, groups: int, scale: float, seed: int, *, weights: int | None = None) -> Case:
    text = gaussian(n, d, seed=seed) if groups == 1 else clustered(n, d, clusters=groups, seed=seed)
    W = scale * AttentionFeatures.draw(d, seed=seed if weights is None else weights).W
    name = f"hard {score} W×{scale:g} n={n} d={d} clusters={groups} seed={seed}"
    return Case(name, score, AttentionFeatures(W, score=score), text)


def reference(probe: Probe, within: Constraint) -> float:
    """The best S of many starts at every position, long climbs of two kinds, and restarts around the best."""
    rng = np.random.default_rng(1)
    near = probe.near(tuple(range(probe.n)))
    i = torch.arange(probe.n).repeat_interleave(max(STARTS, 2000 // probe.n))
    value, y = _momentum(near, i, _starts(probe, within, i, rng), within, STEPS, 1.0)
    for shake in (*SHAKES, 0.0):
        better = value.argsort(descending=True)[: max(64, len(i) // 2)]
        i, value, y = i[better], value[better], y[better]
        value, y = _larger(value, y, *_adaptive(near, i, y, within, STEPS))
        if shake:
            x = probe.X[i]
            move = shake * within.reach(x)[:, None] * unit(torch.from_numpy(rng.standard_normal(y.shape)).to(y))
            again = _momentum(near, i, within.project(x, y + move), within, AGAIN, shake)
            value, y = _larger(value, y, *again)
    return math.sqrt(float(value.max())) / probe.norm


def _starts(probe: Probe, within: Constraint, i: Tensor, rng: np.random.Generator) -> Tensor:
    """A third random directions, a third mixtures of the words, a third of the keys (where the map has any)."""
    x = probe.X[i]
    random = torch.from_numpy(rng.standard_normal(x.shape)).to(x)
    signs = torch.from_numpy(rng.standard_normal((len(i), probe.n)) ** 3).to(x)
    mixed = [random, unit(signs @ probe.X) + 0.1 * unit(random), unit(signs @ getattr(probe, "K", probe.X))]
    kind = torch.arange(len(i)) % 3
    full = within.toward(x, torch.stack(mixed)[kind, torch.arange(len(i))])
    share = torch.from_numpy(rng.random((len(i), 1)) ** 0.25).to(x)
    return within.project(x, x + share * (full - x))


def _momentum(
    probe: Probe, i: Tensor, y: Tensor, within: Constraint, steps: int, widest: float
) -> tuple[Tensor, Tensor]:
    """Heavy ball along normalised gradients, the step falling along a cosine; the best on the way."""
    x = probe.X[i]
    reach = within.reach(x)[:, None]
    best, best_y, mean = torch.full((len(i),), -torch.inf, dtype=x.dtype), y, torch.zeros_like(y)
    for k in range(steps):
        value, gradient = probe.value_and_gradient(y, i)
        best, best_y = _larger(best, best_y, value, y)
        mean = 0.9 * mean + 0.1 * unit(gradient)
        length = widest * (1 + math.cos(math.pi * k / steps)) / 2 + 1e-3
        y = within.project(x, y + length * reach * unit(mean))
    return best, best_y


def _adaptive(probe: Probe, i: Tensor, y: Tensor, within: Constraint, steps: int) -> tuple[Tensor, Tensor]:
    """Projected ascent with a step of its own for each candidate."""
    x = probe.X[i]
    reach = within.reach(x)[:, None]
    step = torch.full((len(i), 1), 0.3, dtype=x.dtype)
    value, gradient = probe.value_and_gradient(y, i)
    for _ in range(steps):
        trial = within.project(x, y + step * reach * unit(gradient))
        new, slope = probe.value_and_gradient(trial, i)
        up = (new > value)[:, None]
        y, gradient, value = torch.where(up, trial, y), torch.where(up, slope, gradient), torch.maximum(value, new)
        step = torch.where(up, step * 1.5, step * 0.4).clamp(min=1e-9, max=3)
    return value, y


def _larger(best: Tensor, best_y: Tensor, value: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    better = value > best
    return torch.where(better, value, best), torch.where(better[:, None], y, best_y)


def measure() -> dict[str, object]:
    """The ratio of the search to the best value known (any of its own seeds, or the reference), and what it says."""
    lines = []
    for case in cases():
        probe = case.phi.at(case.text.X)
        known = reference_of(case.name, partial(reference, probe, case.within))
        rows = torch.arange(probe.n)[:, None]
        started = time.process_time()
        found = [DefaultSearch().run(probe, rows, case.within, seed=seed) for seed in range(SEEDS)]
        seconds = (time.process_time() - started) / SEEDS
        values = [math.sqrt(float(one.change2.max())) / probe.norm for one in found]
        best = max(known, *values)
        ratios = [value / best for value in values]
        statuses = [str(one.status) for one in found]
        lines.append(
            {"case": case.name, "kind": case.kind, "best": best, "ratios": ratios, "said": statuses, "seconds": seconds}
        )
        print(f"  {min(ratios):.4f}  {', '.join(statuses)}  {case.name}", flush=True)
    return {**{kind: _summary(lines, kind) for kind in dict.fromkeys(line["kind"] for line in lines)}, "each": lines}


def _summary(lines: list[dict[str, Any]], kind: str) -> dict[str, float]:
    some = [line for line in lines if line["kind"] == kind]
    each = [pair for line in some for pair in zip(line["ratios"], line["said"], strict=True)]
    ratios, sure = [r for r, _ in each], [r for r, said in each if said == str(Status.CONVERGED)]
    return {
        "searches": len(each),
        "least_ratio": min(ratios),
        "median_ratio": float(np.median(ratios)),
        "said_converged": len(sure),
        "least_ratio_of_converged": min(sure, default=math.nan),
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    for kind, summary in measure().items():
        if kind != "each":
            print(kind, summary)
