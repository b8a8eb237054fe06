"""Branch and bound for softmax attention: the certificate that counts (docs/certificates.md has the proof).

For one position, Δ = s v̂ + a k̂ + Δ' is split along two directions: k̂, in which the keys of all rows agree, and v̂,
which leads away from where their outputs are. A cell of the (s, a) plane gets an upper bound that holds for every Δ in
it, for any multipliers (e, m, μ, c₀); the multipliers are tuned, and the cell with the largest bound is split, until
the target is met. Positions resemble each other, so the leaves of the first one seed the rest.
"""

from __future__ import annotations

import heapq
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from oneword.bounds.kernels import LOGITS, ROUNDING, SHARES, Array, rows_bound, trust_region_dual
from oneword.maps.attention_probe import AttentionProbe
from oneword.maps.leave_one_out import SHARP

Cell = tuple[float, float, float, float]  # centre (s, a) and half-widths
Multipliers = Array  # e, log m, log μ, c₀
GRID = 6  # the first cells: GRID × GRID
MOST_CELLS = 4000  # a position


@dataclass(frozen=True)
class Leaf:
    """A cell with the multipliers that bounded it; `tuned` counts cuts since they were last tuned (0: never)."""

    cell: Cell
    multipliers: Multipliers
    tuned: int


class Keys:
    """What all positions share: the spectrum of the keys and of the outputs."""

    def __init__(self, probe: AttentionProbe) -> None:
        self.probe = probe
        K, O = probe.K, probe.O
        _, sigma, axes = torch.linalg.svd(K, full_matrices=False)
        # The singular values are those of a matrix within rounding of K: lift all but the first by more than that.
        self.sigma2 = _numpy(sigma[1:].square() + ROUNDING * sigma[0].square())
        self.axes = axes[1:]
        agree = torch.sign((K @ axes[0]).sum())
        self.k_hat = axes[0] * (agree if agree != 0 else 1.0)
        centred = O - O.mean(0)
        centred = centred - torch.outer(centred @ self.k_hat, self.k_hat)
        self.spread2 = float(torch.linalg.matrix_norm(centred, 2)) ** 2 * (1 + ROUNDING) + ROUNDING
        self.K_along = K @ self.k_hat
        self.K2 = K.square().sum(1)


class Position:
    """The bound at one position, as a function of cell and multipliers."""

    def __init__(self, keys: Keys, i: int, r: float) -> None:
        probe, k_hat = keys.probe, keys.k_hat
        X, O, n = probe.X, probe.O, probe.n
        self.keys, self.r = keys, r
        J = torch.arange(n)[torch.arange(n) != i]
        without = probe.without
        p = without.share[i, J]
        sharp = p > SHARP
        x = X[i]

        # v̂: from the mean output of the grouped rows to x_i, orthogonal to k̂. What rounding leaves of x_i − ō outside
        # the plane is charged in `value` as `leak`.
        mean = O[J[~sharp]].mean(0) if bool((~sharp).any()) else torch.zeros_like(x)
        away = x - mean
        flat = away - (away @ k_hat) * k_hat
        flat = flat - (flat @ k_hat) * k_hat
        length = float(flat.norm())
        v_hat = flat / length if length > 1e-9 * r else torch.zeros_like(flat)
        residue = away - (away @ k_hat) * k_hat - (away @ v_hat) * v_hat
        self.v_hat = v_hat
        self.leak = 2 * float((~sharp).sum()) * float(residue.norm()) * (1 + ROUNDING)

        v = x - O[J]
        inverse = 1 / without.spare[i, J]
        off = torch.full_like(p, -1.0)
        if bool(sharp.any()):
            beta = x - without.outputs[J[sharp]]
            v[sharp] = beta
            plane = torch.outer(beta @ v_hat, v_hat) + torch.outer(beta @ k_hat, k_hat)
            off[sharp] = (beta - plane).norm(dim=1) * (1 + ROUNDING)
        K = probe.K[J]
        ks, ka = K @ v_hat, keys.K_along[J]
        K_off = (keys.K2[J] * (1 + ROUNDING) - ks.square() - ka.square()).clamp_min(0).sqrt()
        logit = without.score[i, J] - without.rest[i, J]
        columns = [logit, p, inverse, v.square().sum(1), v @ v_hat, v @ k_hat, ks, ka, K_off, off]
        self.rows = _numpy(torch.stack(columns, 1))
        total = K.sum(0)
        self.k2 = _numpy(((keys.axes @ total).abs() + ROUNDING * total.norm()).square())

        g = x - O[i]
        self.g2, self.gs, self.ga = float(g @ g), float(g @ v_hat), float(g @ k_hat)
        self.g_off = float((g - (g @ v_hat) * v_hat - (g @ k_hat) * k_hat).norm()) * (1 + ROUNDING)
        self.far2 = float((X[J] - O[i]).square().sum(1).max()) if n > 1 else 0.0

    def value(self, cell: Cell, multipliers: Multipliers) -> float:
        """An upper bound on the squared change for every Δ of the cell; negative if the cell misses the ball."""
        # Neighbouring cells overlap by a hair, so that rounding leaves no gap between them.
        s0, a0, hs, ha = cell[0], cell[1], cell[2] + ROUNDING * self.r, cell[3] + ROUNDING * self.r
        r2 = self.r**2 * (1 + ROUNDING)
        R2 = r2 - max(0.0, abs(s0) - hs) ** 2 - max(0.0, abs(a0) - ha) ** 2
        if R2 < 0:
            return -1.0
        R = math.sqrt(R2)
        e, m, mu, c0 = multipliers[0], math.exp(multipliers[1]), math.exp(multipliers[2]), multipliers[3]
        rows = rows_bound(self.rows, (s0, a0, hs, ha), R, r2, e, m, mu, c0, LOGITS, SHARES)
        dual = trust_region_dual(e, m, R2, self.k2, self.keys.sigma2)
        along = self.gs * s0 + abs(self.gs) * hs + self.ga * a0 + abs(self.ga) * ha
        own = max(self.far2, self.g2 + 2 * (along + self.g_off * R) + r2)
        return float(rows + dual + R2 * self.keys.spread2 / mu + self.leak * R + own * (1 + ROUNDING))

    def tune(self, leaf: Leaf, evaluations: int) -> tuple[float, Multipliers]:
        """Better multipliers for one cell (Nelder–Mead: the bound is cheap and has kinks)."""
        start = leaf.multipliers
        simplex = np.vstack([start, start + np.diag([0.3 * abs(start[0]) + 0.01 * self.r**2, 0.4, 0.4, 0.08])])
        options: Any = {
            "maxfev": evaluations,
            "initial_simplex": simplex,
            "xatol": 1e-4,
            "fatol": 1e-5 * self.r**2 * (len(self.rows) + 1),
        }
        found = minimize(lambda x: self.value(leaf.cell, x), start, method="Nelder-Mead", options=options)  # type: ignore[call-overload]
        return float(found.fun), np.asarray(found.x)

    @cached_property
    def first_leaves(self) -> list[Leaf]:
        h = self.r / GRID
        r2 = self.r**2
        start = np.array([r2 / 10, math.log(r2 / 15), math.log(r2 / 8), 0.7])
        centres = [-self.r + (2 * step + 1) * h for step in range(GRID)]
        return [Leaf((s, a, h, h), start, 0) for s in centres for a in centres]


class Tree:
    """The open cells of one position, worst first."""

    def __init__(self, position: Position, leaves: list[Leaf], ceiling: float) -> None:
        self.position = position
        self.ceiling = ceiling  # a bound known from elsewhere
        self._ids = count()
        self._heap: list[tuple[float, int, Leaf]] = []
        for leaf in leaves:
            self._push(leaf, math.inf)
        self.cells = len(self._heap)

    @property
    def upper(self) -> float:
        return min(self.ceiling, -self._heap[0][0]) if self._heap else 0.0

    @property
    def leaves(self) -> list[Leaf]:
        return [leaf for _, _, leaf in self._heap]

    def _push(self, leaf: Leaf, parent: float, value: float | None = None) -> None:
        value = self.position.value(leaf.cell, leaf.multipliers) if value is None else value
        if not value < 0:  # NaN, where squares overflow, is no bound: the parent's stands
            value = parent if math.isnan(value) else min(value, parent)
            heapq.heappush(self._heap, (-value, next(self._ids), leaf))

    def refine(self) -> None:
        """Tune the worst cell, or split it: one tuning for every three cuts on the way down."""
        negative, _, leaf = heapq.heappop(self._heap)
        if leaf.tuned == 0:
            value, multipliers = self.position.tune(leaf, 50)
            self._push(Leaf(leaf.cell, multipliers, 1), -negative, value)
            return
        s, a, hs, ha = leaf.cell
        if hs >= ha:
            halves: tuple[Cell, Cell] = ((s - hs / 2, a, hs / 2, ha), (s + hs / 2, a, hs / 2, ha))
        else:
            halves = ((s, a - ha / 2, hs, ha / 2), (s, a + ha / 2, hs, ha / 2))
        for half in halves:
            self._push(Leaf(half, leaf.multipliers, (leaf.tuned + 1) % 4), -negative)
        self.cells += 2

    def refine_to(self, target2: float, deadline: float) -> None:
        while self.upper > target2 and self.cells < MOST_CELLS and time.monotonic() < deadline:
            self.refine()


def branch_and_bound(
    probe: AttentionProbe,
    upper2: Array,
    value2: Array,
    rows: list[int],
    r: Array,
    target2: float,
    seconds: float,
    progress: Callable[[float], None] = lambda done: None,
) -> Array:
    """Lower the squared upper bounds of these rows until all are below target2 or the time is up.

    Always works on the position with the largest bound, so that stopping early wastes nothing. `value2` (what a search
    found) only decides which position is taken first, to seed the others.
    """
    upper2 = upper2.copy()
    open_ = [a for a in range(len(rows)) if upper2[a] > target2]
    if not open_:
        return upper2
    keys = Keys(probe)
    _warm_up(keys, rows[0], float(r[0]))
    deadline = time.monotonic() + seconds
    first = max(open_, key=lambda a: value2[a])
    seed = Position(keys, rows[first], float(r[first]))
    tree = Tree(seed, seed.first_leaves, float(upper2[first]))
    # A third of the time at most: a target out of reach must not starve the other positions.
    tree.refine_to(target2, time.monotonic() + seconds / 3)
    trees = {first: tree}
    upper2[first] = tree.upper
    scale = float(r[first])

    queue = [(-float(upper2[a]), a) for a in open_]
    heapq.heapify(queue)
    while queue and -queue[0][0] > target2 and time.monotonic() < deadline:
        _, a = heapq.heappop(queue)
        if a not in trees:
            trees[a] = Tree(
                Position(keys, rows[a], float(r[a])),
                _rescaled(tree.leaves, float(r[a]) / scale),
                float(upper2[a]),
            )
        elif trees[a].cells >= MOST_CELLS:
            continue  # its bound stands, whatever the others come to
        next_upper = -queue[0][0] if queue else 0.0
        goal = max(target2, min(next_upper, 0.98 * trees[a].upper))
        trees[a].refine_to(goal, deadline)
        upper2[a] = trees[a].upper
        heapq.heappush(queue, (-float(upper2[a]), a))
        progress(1 - max(0.0, deadline - time.monotonic()) / seconds if math.isfinite(seconds) else 0.0)
    return upper2


def _warm_up(keys: Keys, row: int, r: float) -> None:
    """Compile the kernels, which takes seconds the first time, before the clock starts."""
    position = Position(keys, row, r)
    leaf = position.first_leaves[0]
    position.value((0.0, 0.0, r, r), leaf.multipliers)


def _rescaled(leaves: list[Leaf], factor: float) -> list[Leaf]:
    """The same cells for a ball of another radius."""
    if factor == 1.0:
        return leaves
    return [Leaf(_scaled(leaf.cell, factor), leaf.multipliers, leaf.tuned) for leaf in leaves]


def _scaled(cell: Cell, factor: float) -> Cell:
    s, a, hs, ha = cell
    return s * factor, a * factor, hs * factor, ha * factor


def _numpy(values: Tensor) -> Array:
    return np.ascontiguousarray(values.detach().cpu().numpy(), dtype=np.float64)
