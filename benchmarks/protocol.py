"""The plain protocol that fast searches are compared with: one position, one start, 50·n projected gradient steps.

Each step is a full forward and backward pass through φ, as a research script would write it. Its value is what the last
iterate attains. The same iterates can be computed on an incremental Probe, which is how the value of all 50·n steps is
known without waiting for them; only the time is measured on the plain pass.
"""

from __future__ import annotations

import math
import statistics
import time

import torch
from torch import Tensor

from oneword import AttentionFeatures, Ball, Constraint
from oneword.maps.base import Probe
from oneword.sets.constraints import unit


def step(probe: Probe, y: Tensor, i: Tensor, length: float, within: Constraint | None = None) -> Tensor:
    """One projected step along the normalised gradient; within the ball of radius √d unless another set is given."""
    _, gradient = probe.value_and_gradient(y, i)
    return (within or Ball()).project(probe.X[i], y + length * unit(gradient))


def last_value(probe: Probe, position: int, steps: int) -> float:
    """S at the last iterate, from one random start."""
    i = torch.tensor([position])
    r = math.sqrt(probe.d)
    start = torch.randn(1, probe.d, dtype=probe.X.dtype, generator=torch.Generator().manual_seed(0))
    y = Ball().toward(probe.X[i], start)
    for _ in range(steps):
        y = step(probe, y, i, 0.02 * r)
    return math.sqrt(float(probe.change2(y, i))) / probe.norm


def seconds_a_step(phi: AttentionFeatures, X: Tensor, position: int, steps: int = 100) -> float:
    """Median time of one plain step: the whole text forward, the whole text backward."""
    clean = phi(X)
    delta = torch.zeros(X.shape[1], dtype=X.dtype)
    times = []
    for count in range(steps + 5):
        started = time.perf_counter()
        delta.requires_grad_(True)
        changed = X.index_add(0, torch.tensor([position]), delta[None])
        loss = (phi(changed) - clean).square().sum()
        (gradient,) = torch.autograd.grad(loss, delta)
        with torch.no_grad():
            delta = delta + 0.02 * math.sqrt(len(delta)) * unit(gradient + (count == 0))
            delta = delta * min(1.0, math.sqrt(len(delta)) / float(delta.norm()))
        times.append(time.perf_counter() - started)
    return statistics.median(times[5:])
