"""Trained models, on the embedded all-MiniLM-L6-v2 and real reviews: how good the search is, and where its time goes.

The reference of the search takes many minutes and does not depend on it, so its value is kept in
benchmarks/reference.json; delete its line to measure it again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.references import reference_of
from oneword import Ball, Context, TransformerFeatures, Vocabulary, sensitivity
from oneword.maps.base import Probe
from oneword.search.exhaustive import exhaust
from oneword.search.shortlist import Shortlist, shortlist
from oneword.sets.constraints import unit
from oneword.words.effort import Effort
from oneword.words.verb import measure as measure_words

BARS = {
    "search_share_of_time_in_forward_and_backward": "≥ 0.8",
    "search_over_reference": "≥ 0.98",
    "shortlist_recall": "≥ 0.9",
    "shortlist_share_of_forward_passes": "≤ 0.1",
    "profile_seconds": "< 120",
}
STARTS, STEPS = 10, 300
CASES, WORDS = 20, 2000


def review(phi: TransformerFeatures, n: int, trial: int) -> Context:
    """A review cut to n tokens, [CLS] and [SEP] included."""
    from oneword.experiments.cells.trained import TrainedCell

    return TrainedCell(n=n, trial=trial)._text(phi)[0]


def profiled(n: int = 128) -> dict[str, float]:
    """One text with everything: sup at all positions, random words, first order, all layers at that Δ."""
    phi = TransformerFeatures.load("minilm", output="pooled")
    text = review(phi, n, 0)
    started = time.monotonic()
    found = measure_words(text, phi, effort=Effort())
    seconds = time.monotonic() - started
    (subject,) = found.subjects
    top = found.words.sort_values("value").iloc[-1]
    stages = {f"profile_seconds_{name.replace(' ', '_')}": s for name, s in subject.about["seconds by stage"].items()}
    return {
        "profile_tokens": n,
        "profile_seconds": seconds,
        **stages,
        "profile_sup": float(top["value"]),
        "profile_first_order_there": float(top["first_order"]),
        "profile_random_word": float(found.words["random_word"].mean()),
        "profile_noise_floor": subject.noise,
    }


def inside_the_model(n: int = 64) -> dict[str, float]:
    """The share of an all-position search that is spent in forward and backward passes of the model."""
    phi = TransformerFeatures.load("minilm", output="pooled")
    text = review(phi, n, 0)
    sensitivity(phi, text, positions=[1, 2], baseline=0)  # warm
    with _timed(phi) as inside:
        started = time.monotonic()
        sensitivity(phi, text, baseline=0)
        total = time.monotonic() - started
    return {"search_seconds": total, "search_share_of_time_in_forward_and_backward": inside[0] / total}


@contextmanager
def _timed(phi: TransformerFeatures) -> Iterator[list[float]]:
    """Seconds spent in the model's forward pass and in autograd's backward pass while this lasts."""
    spent = [0.0]

    def watched(function: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **named: Any) -> Any:
            started = time.monotonic()
            try:
                return function(*args, **named)
            finally:
                spent[0] += time.monotonic() - started

        return run

    forward, backward = phi.model.forward, torch.autograd.grad
    phi.model.forward, torch.autograd.grad = watched(forward), watched(backward)
    try:
        yield spent
    finally:
        phi.model.forward, torch.autograd.grad = forward, backward


def search_quality(n: int = 32, trial: int = 0) -> dict[str, float]:
    """The search against 10 random starts and 300 steps of projected ascent at every position."""
    phi = TransformerFeatures.load("minilm", output="pooled")
    text = review(phi, n, trial)
    probe = phi.at(text.X)
    started = time.monotonic()
    found = sensitivity(phi, text, baseline=0)
    seconds = time.monotonic() - started
    name = f"all-MiniLM-L6-v2 pooled n={n} trial={trial}"
    known = reference_of(name, partial(_reference, probe))
    top = int(found.per_word["value"].argmax())
    gains = probe.gains(torch.tensor([[text.rows[top][0]]]))
    step = 1e-2 * float(text.X[text.rows[top][0]].norm())
    moved = text.X[[text.rows[top][0]]] + step * gains.direction[0]
    slope = math.sqrt(float(probe.change2(moved, torch.tensor([text.rows[top][0]])))) / step
    return {
        "search_tokens": n,
        "search_value": found.value,
        "search_quality_seconds": seconds,
        "reference_value": known,
        "search_over_reference": found.value / known,
        "first_order_over_finite_difference": float(gains.norm[0]) / slope,
    }


def _reference(probe: Probe) -> float:
    """Each candidate with a step of its own; those whose step has vanished rest, which changes nothing."""
    i = torch.arange(probe.n).repeat_interleave(STARTS)
    within = Ball(relative=1.0)
    x = probe.X[i]
    r = within.reach(x)[:, None]
    y = within.toward(x, torch.randn(x.shape, generator=torch.Generator().manual_seed(1)))
    value, gradient = (torch.cat(parts) for parts in zip(*_evaluated(probe, y, i), strict=True))
    step = torch.full((len(i), 1), 0.3)
    for _ in range(STEPS):
        moving = (step[:, 0] > 1e-6).nonzero()[:, 0]
        if not len(moving):
            break
        trial = within.project(x[moving], y[moving] + step[moving] * r[moving] * unit(gradient[moving]))
        new, slope = (torch.cat(parts) for parts in zip(*_evaluated(probe, trial, i[moving]), strict=True))
        up = new > value[moving]
        rose = moving[up]
        value[rose], y[rose], gradient[rose] = new[up], trial[up], slope[up]
        step[moving] = torch.where(up[:, None], step[moving] * 1.5, step[moving] * 0.4).clamp(max=3.0)
    return math.sqrt(float(value.max())) / probe.norm


def _evaluated(probe: Probe, y: torch.Tensor, i: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [probe.value_and_gradient(a, b) for a, b in zip(y.split(32), i.split(32), strict=True)]


def recall() -> dict[str, float]:
    """How often the shortlist holds the true best of 2,000 words, all of them tried, and at what cost."""
    phi = TransformerFeatures.load("minilm", output="pooled")
    every = Vocabulary.of(phi.encoder, letters=True)
    draw = np.random.default_rng(0)
    hits, passes, ratios = 0, 0, []
    for case in range(CASES):
        n = (16, 24, 32, 48)[case % 4]
        text = review(phi, n, 100 + case)
        row = int(draw.integers(1, n - 1))
        names = [every.names[1][k] for k in sorted(draw.choice(every.count, WORDS, replace=False).tolist())]
        words = Vocabulary.of(phi.encoder, among=names)
        probe = phi.at(text.X)
        truth = exhaust(probe, torch.tensor([[row]]), words, memory=1 << 28).change2[0]
        listed = shortlist(probe, (row,), words, Shortlist(), seed=case)
        best = float(truth.max().sqrt()) / probe.norm
        hits += listed.word == words.names[1][int(truth.argmax())]
        passes += listed.passes
        ratios.append(listed.value / best)
        print(f"  case {case}: n = {n}, {listed.value / best:.4f} of the best, {listed.passes} passes", flush=True)
    return {
        "shortlist_cases": CASES,
        "shortlist_words": WORDS,
        "shortlist_recall": hits / CASES,
        "shortlist_share_of_forward_passes": passes / (CASES * WORDS),
        "shortlist_least_share_of_the_best_value": min(ratios),
    }


def measure() -> dict[str, float]:
    """Everything, on all cores."""
    torch.set_num_threads(torch.get_num_threads() if torch.get_num_threads() > 1 else 2)
    return {**profiled(), **inside_the_model(), **search_quality(), **recall()}
