"""Where kinks or saturation stop an ascent: momentum from many random starts, then restarts around the best.

At a kink a plain ascent jumps from side to side until its step has vanished, and a conditional-gradient step lands
anywhere; momentum slides along it. What is left are maxima that few starts lead to; most of them are near others that
are almost as high, so the best candidates are shaken, less each time, and climb again (basin hopping).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from oneword.maps.base import SHORT, Probe
from oneword.progress import Progress
from oneword.random import stream
from oneword.search.base import STAGE, Gradients, Rows
from oneword.search.candidates import Candidates, larger, random_words, stacked, with_gradient
from oneword.search.momentum import along, climb
from oneword.sets.constraints import Constraint

_LAST_STEP = 1e-3  # of the reach
_POSITIONS = SHORT  # sets of rows that get random starts: all of them in a short text
_WIDTH = 6  # candidates that a set keeps
_LONGER = 6  # sets whose candidates climb longer
_SHAKEN = 3  # sets whose best candidates are shaken
_EACH = 2  # candidates of such a set
# How far, of the reach. Saturated maps are all but constant between their steps, which takes more of them.
KINKED, SATURATED = (0.6, 0.3, 0.1), (0.6, 0.4, 0.3, 0.2, 0.1, 0.05)
_COPIES = 6  # shaken ones of each candidate, beside itself


def hop(
    probe: Probe,
    rows: Rows,
    candidates: Candidates,
    within: Constraint,
    *,
    random: int,
    steps: int,
    shakes: tuple[float, ...],
    memory: int,
    gradients: Gradients,
    seed: int,
    progress: Progress,
) -> Candidates:
    """The best of `candidates` and of `random` further starts a set; the leading sets climb longer, and are shaken.

    `steps` is what a polish takes: a random start gets two fifths of it, a leading set four thirds, a shaken one half.
    """
    up = _Climb(probe, within, memory, gradients)
    field = candidates.best(_WIDTH)
    lead = _leading(field, _POSITIONS)
    fresh = _unclimbed(random_words(probe.X, rows[lead], within, random, seed, "wander"))
    field = field.put(lead, field.sets(lead).beside(up(rows[lead], fresh, 2 * steps // 5)).best(_WIDTH))
    progress(STAGE, 0.8)
    lead = _leading(field, _LONGER)
    field = field.put(lead, up(rows[lead], field.sets(lead), 4 * steps // 3).best(_WIDTH))
    progress(STAGE, 0.9)
    for shake in shakes:
        lead = _leading(field, _SHAKEN)
        some = field.sets(lead)
        order = torch.arange(_WIDTH, device=lead.device).expand(len(lead), -1)
        parents, rest = some.pick(order[:, :_EACH]), some.pick(order[:, _EACH:])
        children = up(rows[lead], _shaken(probe, rows[lead], parents, within, shake, seed), steps // 2, shake)
        field = field.put(lead, _families(parents, children).beside(rest).best(_WIDTH))
    progress(STAGE, 1.0)
    return field


def _leading(candidates: Candidates, count: int) -> Int[Tensor, " q"]:
    return candidates.value.amax(1).argsort(descending=True, stable=True)[:count]


def _unclimbed(y: Float[Tensor, "p s m d"]) -> Candidates:
    return Candidates(torch.full(y.shape[:2], -torch.inf, dtype=y.dtype, device=y.device), y, y)


def _shaken(probe: Probe, rows: Rows, parents: Candidates, within: Constraint, shake: float, seed: int) -> Candidates:
    """Copies of each candidate: the first as it is, the others moved at random, by streams of the rows' own."""
    begin, y = (t.repeat_interleave(1 + _COPIES, 1) for t in (parents.begin, parents.y))
    moves = np.stack([stream(seed, "shake", *r, str(shake)).standard_normal(y.shape[1:]) for r in rows.tolist()])
    move = along(torch.from_numpy(moves).to(y))
    move[:, :: 1 + _COPIES] = 0
    x = probe.X[rows][:, None].expand_as(y)
    return replace(_unclimbed(within.project(x, y + shake * within.reach(x)[..., None] * move)), begin=begin)


def _families(parents: Candidates, children: Candidates) -> Candidates:
    """The best of each candidate and its copies: they are no independent climbs."""
    best = children.value.unflatten(1, (-1, 1 + _COPIES)).argmax(2)
    child = children.pick(best + (1 + _COPIES) * torch.arange(best.shape[1], device=best.device))
    value, y = larger(parents.value, parents.y, child.value, child.y)
    return Candidates(value, y, parents.begin)


class _Climb:
    """Momentum under one map and one constraint."""

    def __init__(self, probe: Probe, within: Constraint, memory: int, gradients: Gradients) -> None:
        self.probe, self.within, self.memory, self.gradients = probe, within, memory, gradients

    def __call__(self, rows: Rows, start: Candidates, steps: int, widest: float = 1.0) -> Candidates:
        """The best of each climb; `widest` is its first step, of the reach."""
        at_once = max(1, self.probe.rows_at_once(self.memory) // rows.shape[1])
        parts = torch.arange(len(rows), device=rows.device).split(at_once)
        return stacked([self._up(rows[part], start.sets(part), max(1, steps), widest) for part in parts])

    def _up(self, rows: Rows, start: Candidates, steps: int, widest: float) -> Candidates:
        near = self.probe.near(tuple(rows.unique().tolist()))
        best, best_y, _ = climb(
            lambda y: with_gradient(near, rows, y, self.memory, self.gradients),
            self.probe.X[rows][:, None].expand_as(start.y),
            start.y,
            start.value,
            self.within,
            steps=steps,
            keep=min(0.9, max(0.0, 1 - 8 / steps)),
            first=widest,
            last=_LAST_STEP,
        )
        return Candidates(best, best_y, start.begin)
