"""The rounding floor: a change that rounding alone can explain is no lower bound.

Features have a relative error of a few ε (the precision of the dtype), and a new word x + Δ is rounded to its last
digits, so that a tiny Δ is not the Δ that was asked for. What both do together is measured: how far φ moves when the
word stays as it is, or each of its numbers by one last digit. A value at least 100 times larger is right within 1 %.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from oneword.maps.base import Probe
from oneword.search.base import Rows
from oneword.search.candidates import Landscape
from oneword.sets.constraints import Constraint

TOLERANCE = 0.01  # relative error of a value at its floor
FEATURES = 2.0  # ε: the relative error of φ(X) that is assumed, whatever is measured
CLEAR = 1e4  # ε: values relative to ‖φ(X)‖, and radii relative to ‖x‖, from which on nothing needs to be measured


@dataclass(frozen=True, eq=False)
class Rounding:
    """For each set of rows the least value that counts, and whether even Δ itself is lost in rounding."""

    floor: Float[Tensor, " p"]
    lost: Bool[Tensor, " p"]

    def explains(self, value: Float[Tensor, " p"]) -> Bool[Tensor, " p"]:
        """Where rounding alone can explain the value."""
        return (value < self.floor) & ((value > 0) | self.lost)


def rounding(probe: Probe, rows: Rows, value: Float[Tensor, " p"], within: Constraint, memory: int) -> Rounding:
    """The floors of these sets of rows, given the values that a search found there."""
    x = probe.X[rows]
    eps = torch.finfo(x.dtype).eps
    small = (within.reach(x) < CLEAR * eps * x.norm(dim=-1)).any(-1)
    noise = torch.zeros_like(value)
    doubtful = (small | (value < CLEAR * eps)).nonzero()[:, 0]
    land = Landscape(probe, within, memory)
    for some, _ in land.in_parts(rows[doubtful]):
        if len(at := doubtful[some]):
            same = land.near(rows[at]).value(rows[at], _same_but_for_digits(x[at]))
            noise[at] = same.abs().amax(1).sqrt() / probe.norm
    return Rounding((noise + FEATURES * eps) / TOLERANCE, small)


def _same_but_for_digits(x: Float[Tensor, "p m d"]) -> Float[Tensor, "p s m d"]:
    """The words themselves, and each number larger or smaller by about one last digit."""
    eps = torch.finfo(x.dtype).eps
    turn = 1 - 2 * (torch.arange(x.shape[-1], device=x.device) % 2).to(x.dtype)
    return torch.stack([x, x * (1 + eps), x * (1 - eps), x * (1 + eps * turn), x * (1 - eps * turn)], 1)
