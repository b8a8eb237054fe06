"""The sup for maps whose every candidate is a forward pass: all positions start, and the better ones climb longer.

Deep networks are curved: conditional-gradient steps, which jump to the far side of the ball, miss their maxima, and a
plain ascent crawls. Here the direction is a running mean of normalised gradients (heavy ball) and the step shrinks
along a cosine from half the radius to almost nothing, so that a climb of N steps ends at rest whatever N is. The best
iterate counts, never the last.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from oneword.maps.base import Probe
from oneword.perturb import Constraint, unit
from oneword.search.slopes import Slopes

_LAST_STEP = 0.01  # of the radius
_LONG = 60  # steps; from here on a climb begins with wider steps and forgets more slowly


@dataclass(frozen=True, eq=False)
class Field:
    """Where every set of rows stands: its best change so far."""

    change2: Float[Tensor, " p"]
    y: Float[Tensor, "p m d"]


def race(
    probe: Probe,
    rows: Int[Tensor, "p m"],
    within: Constraint,
    starts: Float[Tensor, "p s m d"],
    *,
    steps: int,
    keep: int,
    leading: int,
    polish: int,
    memory: int,
    slopes: Slopes,
    progress: Callable[[float], None] = lambda done: None,
) -> Field:
    """All sets climb `steps` from their best `keep` starts, an eighth twice as far, the leading ones `polish` steps."""
    p = len(rows)
    rounds = [(p, steps), (max(min(p, leading), -(-p // 8)), 2 * steps), (min(p, leading), polish)]
    trying = starts.shape[0] * starts.shape[1] / 3  # a pass without its gradient costs a third
    total = trying + (keep - 1) * p * steps + sum(count * far for count, far in rounds)
    done = 0.0

    def say(more: float) -> None:
        nonlocal done
        done += more
        progress(min(1.0, done / total))

    climb = _Climb(probe, within, memory, slopes, say)
    tried = climb.values(rows, starts)
    say(trying)
    order = tried.argsort(dim=1, descending=True, stable=True)[:, :keep]
    at = torch.arange(p, device=rows.device)[:, None]
    best, y = tried[at, order][:, 0].clone(), starts[at, order][:, 0].clone()
    for turn, (count, far) in enumerate(rounds):
        if not far:
            continue
        some = best.argsort(descending=True, stable=True)[:count]
        begin = starts[some[:, None], order[some]] if turn == 0 else y[some][:, None]
        value, where = climb.up(rows[some], begin, far)
        top = value.argmax(1)
        each = torch.arange(len(some), device=rows.device)
        better = value[each, top] > best[some]
        best[some] = torch.where(better, value[each, top], best[some])
        y[some] = torch.where(better[:, None, None], where[each, top], y[some])
    return Field(best, y)


class _Climb:
    """Batches of candidates under one map and one constraint."""

    def __init__(
        self, probe: Probe, within: Constraint, memory: int, slopes: Slopes, say: Callable[[float], None]
    ) -> None:
        self.probe, self.within, self.memory, self.slopes, self.say = probe, within, memory, slopes, say

    def values(self, rows: Int[Tensor, "p m"], y: Float[Tensor, "p s m d"]) -> Float[Tensor, "p s"]:
        i, flat = rows[:, None].expand(y.shape[:3]).flatten(0, 1), y.flatten(0, 1)
        with torch.no_grad():
            parts = [self.probe.change2(a, b) for a, b in self._batches(flat, i)]
        return torch.cat(parts).view(y.shape[:2])

    def up(
        self, rows: Int[Tensor, "p m"], y: Float[Tensor, "p s m d"], steps: int
    ) -> tuple[Float[Tensor, "p s"], Float[Tensor, "p s m d"]]:
        """The best of each climb; candidates of one batch climb together, which changes none of them."""
        i, flat = rows[:, None].expand(y.shape[:3]).flatten(0, 1), y.flatten(0, 1)
        found = [self._climb(a, b, steps) for a, b in self._batches(flat, i)]
        values, where = (torch.cat(parts) for parts in zip(*found, strict=True))
        return values.view(y.shape[:2]), where.view(y.shape)

    def _climb(self, y: Float[Tensor, "b m d"], i: Int[Tensor, "b m"], steps: int) -> tuple[Tensor, Tensor]:
        long = steps >= _LONG
        widest, memory = (1.0, 0.9) if long else (0.5, 0.7)
        x = self.probe.X[i]
        reach = self.within.reach(x)[..., None]
        best, best_y = torch.full((len(y),), -torch.inf, dtype=y.dtype, device=y.device), y
        mean = torch.zeros_like(y)
        for k in range(steps):
            value, gradient = self.slopes.at(self.probe, y, i)
            better = value > best
            best, best_y = torch.where(better, value, best), torch.where(better[:, None, None], y, best_y)
            mean = memory * mean + (1 - memory) * _direction(gradient)
            length = widest * (1 + math.cos(math.pi * k / steps)) / 2 + _LAST_STEP
            y = self.within.project(x, y + length * reach * _direction(mean))
            self.say(len(y))
        with torch.no_grad():
            value = self.probe.change2(y, i)
        better = value > best
        return torch.where(better, value, best), torch.where(better[:, None, None], y, best_y)

    def _batches(self, y: Tensor, i: Tensor) -> list[tuple[Tensor, Tensor]]:
        size = max(1, self.memory // self.probe.bytes_per_candidate(i.shape[1]))
        return list(zip(y.split(size), i.split(size), strict=True))


def _direction(v: Float[Tensor, "b m d"]) -> Float[Tensor, "b m d"]:
    """All rows of a candidate as one unit vector, times √m: on average each row moves by its step."""
    return unit(v.flatten(1)).view_as(v) * v.shape[1] ** 0.5
