"""Learning a one-word change: the search for the retrained error of attention against the plain protocol, in one run.

The plain protocol is that of benchmarks/protocol.py (one position, one start, 50·n steps, each a full forward and
backward pass), on top of dense pseudo-inverses of Φ. Its steps are timed on a few of them and multiplied. A projector
P⊥ of p × p would be 17 GB here, so the plain linear algebra is counted as what fits: one pinv of Φ to pre-train, and
one of Φ with the new row to retrain.
"""

from __future__ import annotations

import math
import statistics
import subprocess
import sys
import time

import torch
from torch import Tensor

from benchmarks.speed import timed
from oneword import Ascent, AttentionFeatures, Ball, FeatureMap, gaussian
from oneword.learning import Interpolator, NewSample
from oneword.learning.descent import FunctionalProbe, descend
from oneword.learning.functionals import Functionals, functionals
from oneword.maps.base import ForwardProbe
from oneword.sets.constraints import unit

BARS = {
    "one_position_times_faster_than_protocol": "≥ 500",
    "all_positions_times_faster_than_protocol": "≥ 500",
    "learn_and_one_position_times_faster_than_pinv_and_protocol": "≥ 500",
    "peak_memory_gb": "≤ 2",
}
n, d, N = 120, 384, 1000
GRID = (0.1, 0.25, 0.5, 1.0)


def texts() -> tuple[Tensor, Tensor]:
    """N + 1 texts of Gaussian words, and labels."""
    X = torch.stack([gaussian(n, d, seed=j).X for j in range(N + 1)])
    return X, 1 - 2 * (torch.arange(N + 1) % 2)


def speed() -> dict[str, float]:
    """The retrained error of RAF at n = 120, d = 384, N = 1,000, one thread."""
    torch.set_num_threads(1)
    X, labels = texts()
    phi = AttentionFeatures.draw(d, seed=0)
    fit, trained = timed(lambda: Interpolator.fit(phi, X[:N], labels[:N]))

    def new_sample() -> NewSample:
        return trained.new_sample(X[N], int(labels[N]))

    def search(positions: list[int] | None, repeat: int) -> tuple[float, float]:
        untouched = [new_sample() for _ in range(repeat)]  # anew each time: a sample keeps what it has found
        return timed(lambda: untouched.pop().find_change("loss", "retrained", positions=positions).err, repeat)

    search([0], 1)  # warm up
    learn_seconds, sample = timed(new_sample, 5)
    one_seconds, one = search([0], 9)
    all_seconds, every = search(None, 5)
    plain = _plain_last(sample, 0, 50 * n)
    if one > plain or every > plain:
        raise SystemExit(f"the search attains {one} and {every}: more than {plain}")
    plain_step = _plain_step(phi, sample, 0)
    features = trained.span.features
    pinv_seconds, _ = timed(lambda: torch.linalg.pinv(features))
    plain_seconds = plain_step * 50 * n
    alignment_seconds, _ = timed(lambda: sample.lowest_alignment("retrained"))
    return {
        "fit_seconds": fit,
        "pinv_seconds": pinv_seconds,
        "fit_times_faster_than_pinv": pinv_seconds / fit,
        "learn_seconds": learn_seconds,
        "protocol_seconds_a_step": plain_step,
        "protocol_err_last_of_6000_steps": plain,
        "one_position_err": one,
        "one_position_seconds": one_seconds,
        "one_position_times_faster_than_protocol": plain_seconds / one_seconds,
        "all_positions_err": every,
        "all_positions_seconds": all_seconds,
        "all_positions_times_faster_than_protocol": plain_seconds * n / all_seconds,
        "all_positions_times_faster_than_protocol_at_one": plain_seconds / all_seconds,
        "learn_and_one_position_times_faster_than_pinv_and_protocol": (pinv_seconds + plain_seconds)
        / (learn_seconds + one_seconds),
        "lowest_alignment_seconds": alignment_seconds,
        "lowest_alignment_times_faster_than_protocol": plain_seconds * n / alignment_seconds,
        "frontier_of_four_seconds": timed(lambda: sample.frontier("retrained", GRID))[0],
        "all_positions_times_faster_than_same_search_recomputed": _recomputed(phi, sample),
        "peak_memory_gb": _memory(),
    }


def _plain_step(phi: FeatureMap, sample: NewSample, position: int, steps: int = 40) -> float:
    """Median time of one plain step: the whole text forward, the whole text backward, for one position."""
    X, theta, y = sample.probe.X, sample.theta_r.view(n, d), sample.y
    delta = torch.zeros(d, dtype=X.dtype)
    times = []
    for count in range(steps + 5):
        started = time.perf_counter()
        delta.requires_grad_(True)
        changed = X.index_add(0, torch.tensor([position]), delta[None])
        loss = ((phi(changed) * theta).sum() + y) ** 2
        (gradient,) = torch.autograd.grad(loss, delta)
        with torch.no_grad():
            delta = delta - 0.02 * math.sqrt(d) * unit(gradient + (count == 0))
            delta = delta * min(1.0, math.sqrt(d) / float(delta.norm()))
        times.append(time.perf_counter() - started)
    return statistics.median(times[5:])


def _plain_last(sample: NewSample, position: int, steps: int) -> float:
    """Err at the last iterate of the plain protocol, its iterates computed on the incremental form."""
    h = functionals(sample.probe, sample.theta_r[None])
    x, i, r = sample.probe.X[[position]], torch.tensor([position]), math.sqrt(d)
    y = Ball().toward(x, torch.randn(1, d, dtype=x.dtype, generator=torch.Generator().manual_seed(0)))
    for _ in range(steps):
        y.requires_grad_(True)
        loss = (h(y, i)[0, 0] + sample.y) ** 2
        (gradient,) = torch.autograd.grad(loss, y)
        y = Ball().project(x, y.detach() - 0.02 * r * unit(gradient))
    return float((h(y, i)[0, 0] + sample.y) ** 2)


def _recomputed(phi: FeatureMap, sample: NewSample) -> float:
    """The same steps at all positions with a full forward and backward pass each: how many times slower."""
    v, every = (sample.y * sample.theta_r)[None], torch.arange(n)[:, None]
    fast, plain = functionals(sample.probe, v), Functionals(ForwardProbe(phi, sample.probe.X), v)
    plain.directions = fast.directions  # type: ignore[method-assign]  # the same starts
    scope = sample._scope({"search": Ascent(random=0, steps=2, keep=1, polish=0)})
    fast_seconds, a = timed(lambda: descend(FunctionalProbe(fast, (1.0,)), every, scope), 3)
    slow_seconds, b = timed(lambda: descend(FunctionalProbe(plain, (1.0,)), every, scope))
    assert torch.allclose(a.value, b.value, rtol=1e-8)  # the same search, not a similar one
    return slow_seconds / fast_seconds


_MEMORY = """
import re, torch
from benchmarks.learning import AttentionFeatures, Interpolator, N, d, n, texts
X, labels = texts()
sample = Interpolator.fit(AttentionFeatures.draw(d, seed=0), X[:N], labels[:N]).new_sample(X[N], int(labels[N]))
sample.find_change("loss", "retrained")
sample.frontier("retrained", [0.5])
# Not getrusage: its peak starts from that of the process that started this one.
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read()).group(1)) * 1024 / 1e9)
"""


def _memory() -> float:
    """The peak of a process that makes the texts, fits, learns and searches."""
    run = subprocess.run([sys.executable, "-c", _MEMORY], capture_output=True, text=True, check=True)
    return float(run.stdout)
