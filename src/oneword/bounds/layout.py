"""The tables that the kernels of the branch and bound read: their columns, and grids of logits.

Compiled kernels hold what stands here, so a change here needs one in kernels.py, too, or their cache does not see it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Cell = tuple[float, float, float, float]  # centre (s, a) and half-widths

LIMIT = 14.0  # beyond ±LIMIT, q differs from 0 or 1 by less than 1e-6: bounded by its slope instead
# Every sum is inflated by this multiple of the size of its terms; its true rounding error is far smaller.
ROUNDING = 1e-12


class Row(NamedTuple):
    """The columns of the table of rows."""

    score: int = 0  # softmax: the logit of p; ReLU: the score
    share: int = 1  # p; −1 for row i itself, which is left out
    inverse: int = 2  # 1/(1 − p), or 1 where v is x_i − o_j⁻
    v2: int = 3  # ‖v‖²
    v_s: int = 4  # v·v̂, v·k̂
    v_a: int = 5
    k_s: int = 6  # K·v̂, K·k̂
    k_a: int = 7
    k_off: int = 8  # what is left of ‖K‖
    v_off: int = 9  # what is left of ‖v‖; −1 for a row of the group
    rest: int = 10  # ReLU: what the other words have; softmax: −1
    doubt: int = 11  # the rounding of a score
    extra0: int = 12  # what a ball that is not centred on x_i adds to φ: a parabola in q
    extra1: int = 13
    extra2: int = 14


class Shape(NamedTuple):
    """The entries of `shape`: what is known of one position besides its rows."""

    r2: int = 0  # r²
    group: int = 1  # rows of the group
    away_s: int = 2  # (x_i − ō)·v̂, (x_i − ō)·k̂
    away_a: int = 3
    top2: int = 4  # σ₁²
    spread2: int = 5  # ‖CO‖²
    leak: int = 6  # 2|G|‖ρ‖
    own2: int = 7  # ‖g‖², g = c − o_i for a ball centred at c; g·v̂, g·k̂, and what is left of ‖g‖
    own_s: int = 8
    own_a: int = 9
    own_off: int = 10
    far2: int = 11  # the farthest that row i can go to without word i, squared
    most2: int = 12  # another bound on the squared move of row i
    keys: int = 13  # max_j ‖K_j‖
    line: int = 14  # 1 if there is no v̂, so that s = 0 alone is meant
    price: int = 15  # the unit of a price


ROW, SHAPE = Row(), Shape()
# sup of (dq/dℓ)² and of |d²q/dℓ²| for the logistic function, rounded up.
SLOPE2, CURVATURE = 0.0625, 0.09623


class Nodes(NamedTuple):
    """A grid of logits ℓ and what is needed there; t = ℓ − score for softmax, t = rest·e^ℓ − score for ReLU.

    `slope2` and `curvature` bound (dq/dℓ)² and |d²q/dℓ²| between a node and its neighbours.
    """

    logits: Array
    shares: Array
    powers: Array  # e^ℓ
    slope2: Array
    curvature: Array


class Tables(NamedTuple):
    """One position, as the kernels read it: rows and shape with the entries of `ROW` and `SHAPE`."""

    rows: Array
    shape: Array
    keys: Array  # K along its axes but the first
    v: Array  # v̂ along the same axes, and what is left of it outside them all
    sigma2: Array  # the squared singular values, 0 for outside
    grid: Nodes


def nodes(per_unit: int) -> Nodes:
    """A grid of so many nodes a unit of ℓ."""
    logits = np.arange(-LIMIT * per_unit, LIMIT * per_unit + 1) / per_unit
    fine = np.linspace(logits[0] - 1 / per_unit, logits[-1] + 1 / per_unit, 32 * (len(logits) + 1) + 1)
    q = 1 / (1 + np.exp(-fine))
    slope, bend = q * (1 - q), np.abs(q * (1 - q) * (1 - 2 * q))

    def around(values: Array) -> Array:
        """The largest of a fine grid from one node before to one node after; 2 % for what lies in between."""
        windows = np.lib.stride_tricks.sliding_window_view(values, 65)[::32]
        return np.asarray(1.02 * windows.max(1))

    return Nodes(logits, 1 / (1 + np.exp(-logits)), np.exp(logits), around(slope**2), around(bend))


SOFTMAX, RELU = nodes(8), nodes(16)
