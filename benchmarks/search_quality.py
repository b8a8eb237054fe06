"""How near the search comes to the sup: against 20 random starts and 2,000 steps of projected ascent at every position.

The reference takes minutes and does not depend on the search, so its values are kept in benchmarks/reference.json,
keyed by case; delete the file to measure them again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

import torch

from benchmarks.references import reference_of
from oneword import (
    AttentionFeatures,
    Ball,
    Context,
    DeepRandomFeatures,
    FeatureMap,
    RandomFeatures,
    gaussian,
)
from oneword.maps.base import Probe
from oneword.search.defaults import DefaultSearch
from oneword.sets.constraints import unit
from oneword.text.context import clustered

STARTS, STEPS = 20, 2000


def cases() -> Iterator[tuple[str, FeatureMap, Context]]:
    """(name, map, text): softmax attention from flat to sharp, ReLU attention, RF, DRF; Gaussian words and clusters."""
    sizes = [(2, 8), (5, 16), (12, 32), (24, 64), (40, 32), (64, 128)]
    scales = [0.3, 1.0, 3.0, 10.0]
    for number, (n, d) in enumerate(sizes * 4):
        scale = scales[number // len(sizes)]
        groups = (1, 2, 4, 8)[number % 4]
        text = gaussian(n, d, seed=number) if groups == 1 else clustered(n, d, clusters=groups, seed=number)
        W = scale * AttentionFeatures.draw(d, seed=number).W
        yield f"softmax W×{scale:g} n={n} d={d} clusters={groups} seed={number}", AttentionFeatures(W), text
    for number, (n, d) in enumerate([(8, 16), (24, 64), (48, 32)]):
        text = clustered(n, d, clusters=2 * number + 2, seed=number)
        for score in ("relu", "relu-unnormalised"):
            phi = AttentionFeatures.draw(d, score=score, seed=number)
            yield f"{score} n={n} d={d} clusters={2 * number + 2} seed={number}", phi, text
    for number, (n, d, sigma) in enumerate([(6, 16, "relu"), (20, 24, "relu"), (20, 24, "tanh"), (12, 32, "gelu")]):
        phi = RandomFeatures.draw(n, d, activation=sigma, seed=number)
        yield f"rf {sigma} n={n} d={d} seed={number}", phi, gaussian(n, d, seed=number)
    for number, depth in enumerate([2, 3]):
        phi = DeepRandomFeatures.draw(10, 16, depth=depth, k=320, seed=number)
        yield f"drf-{depth} n=10 d=16 k=320 seed={number}", phi, clustered(10, 16, clusters=3, seed=number)


def reference(probe: Probe) -> float:
    """The best S of many random starts and a long projected ascent with a step of its own for each."""
    i = torch.arange(probe.n).repeat_interleave(STARTS)
    x, near, within = probe.X[i], probe.near(tuple(range(probe.n))), Ball()
    r = math.sqrt(probe.d)
    y = within.toward(x, torch.randn(x.shape, dtype=x.dtype, generator=torch.Generator().manual_seed(1)))
    step = torch.full((len(i), 1), 0.3 * r, dtype=x.dtype)
    value, gradient = near.value_and_gradient(y, i)
    for _ in range(STEPS):
        trial = within.project(x, y + step * unit(gradient))
        trial_value, trial_gradient = near.value_and_gradient(trial, i)
        up = (trial_value > value)[:, None]
        y, gradient = torch.where(up, trial, y), torch.where(up, trial_gradient, gradient)
        value = torch.maximum(value, trial_value)
        step = torch.where(up, step * 1.5, step * 0.4).clamp(min=1e-9 * r, max=3 * r)
    return math.sqrt(float(value.max())) / probe.norm


def measure() -> dict[str, object]:
    """The ratio of the search to the best value known (its own or the reference's), for every case."""
    lines = []
    for name, phi, text in cases():
        probe = phi.at(text.X)
        known = reference_of(name, partial(reference, probe))
        rows = torch.arange(text.n)[:, None]
        found = DefaultSearch().run(probe, rows, Ball())
        value = math.sqrt(float(found.change2.max())) / probe.norm
        outside = float(Ball().violation(probe.X, found.y[:, 0]).max())
        top = int(found.change2.argmax())
        changed = text.X.clone()
        changed[top] = found.y[top, 0]
        forward = float((phi(changed) - phi(text.X)).norm()) / probe.norm
        lines.append(
            {
                "case": name,
                "value": value,
                "reference": known,
                "ratio": value / known,
                "outside_the_ball": outside,
                "forward_pass_relative_error": abs(forward / value - 1),
            }
        )
        print(f"  {value / known:.4f}  {name}", flush=True)
    return {
        "cases": len(lines),
        "least_ratio": min(line["ratio"] for line in lines),
        "cases_at_least_0.99": sum(line["ratio"] >= 0.99 for line in lines),
        "largest_distance_outside_the_ball": max(line["outside_the_ball"] for line in lines),
        "largest_forward_pass_relative_error": max(line["forward_pass_relative_error"] for line in lines),
        "each": lines,
    }
