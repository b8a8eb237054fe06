"""The sup over positions and new words, for any Probe: many starts, conditional gradient, then projected ascent.

Conditional-gradient steps y ← argmax_{y allowed} y·∇ climb fast and need no step size, but from one start they miss the
sup by up to a third. So every position gets many starts; they are thinned out while they climb, and the best few of
the leading positions are polished by projected gradient ascent with a step of their own. Where that was stopped by
kinks, or a map is not as linear as its starts assume, the search goes on by momentum (`basin_hopping`). The best
iterate counts, never the last.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from oneword.maps.base import Probe
from oneword.progress import Progress, part, silent
from oneword.search.base import MEMORY, STAGE, Batch, Found, Rows, Search, Status, check_settings
from oneword.search.basin_hopping import KINKED, SATURATED, hop
from oneword.search.candidates import Candidates, Landscape, larger, pick, stacked
from oneword.search.fixed_point import climb_to_fixed_point
from oneword.search.polish import polish
from oneword.sets.constraints import Constraint, unit

_STRAIGHT = 0.8  # cosine of Δ and the gradient at a start that is best at first order: 1 for a linear map
_SECOND = 4  # random starts that may confirm the best of a nearly linear map
_SECOND_STEPS = 24


@final
@dataclass(frozen=True)
class Ascent(Search):
    """How hard to search. The defaults reach ≥ 0.99 of a far longer search (docs/measurements.json).

    | field | meaning |
    |---|---|
    | `random` | random starts a position, beside those the map knows |
    | `steps` | conditional-gradient steps |
    | `keep` | candidates polished at each leading position |
    | `leading` | how many positions are polished |
    | `polish` | steps of projected ascent |
    | `finish` | conditional-gradient steps by which the best position alone goes on |
    | `fallback` | random starts where those of the map prove not enough; None: as `random` |
    | `memory` | bytes a batch may take; a setting, so that results do not depend on the machine |
    """

    tested: ClassVar[bool] = True

    random: int = 16
    steps: int = 12
    keep: int = 3
    leading: int = 20
    polish: int = 150
    finish: int = 0
    fallback: int | None = None
    memory: int = MEMORY

    def __post_init__(self) -> None:
        least = {"random": 0, "steps": 1, "keep": 1, "leading": 1, "polish": 0, "finish": 0, "memory": 1}
        check_settings(self, least if self.fallback is None else least | {"fallback": 0})

    @property
    def is_quick(self) -> bool:
        return self.random == 0 and self.polish == 0

    def run(
        self,
        probe: Probe,
        rows: Rows,
        within: Constraint,
        *,
        starts: Batch | None = None,
        baseline: int = 0,
        seed: int = 0,
        progress: Progress = silent,
    ) -> Found:
        land, search = Landscape(probe, within, self.memory, seed), self
        if search.is_quick and len(rows) == 1:  # no position to choose: the one climb does all the steps
            search = replace(search, steps=search.steps + search.finish, finish=0)
        groups, beside = [], []
        for some, heard in land.in_parts(rows, part(progress, 0.0, 0.6 if search.polish else 1.0)):
            near, at = land.near(rows[some]), rows[some]
            begin = near.first_starts(at, search.random, search.is_quick)
            begin = begin if starts is None else torch.cat([starts[some], begin], 1)
            groups.append(_climb(near, at, begin, search, heard))
            beside.append(near.value(at, near.random_words(at, baseline, "baseline")))
        field, status = stacked(groups), Status.QUICK if search.is_quick else Status.UNPOLISHED
        if search.polish:
            field, status = _refined(land, rows, field, search, progress)
        best, best_y = field.value[:, 0].clone(), field.y[:, 0].clone()
        if search.finish:
            top = best.argmax()[None]
            go_on = replace(search, steps=search.finish, keep=1)
            found = _climb(land.near(rows[top]), rows[top], best_y[top][:, None], go_on)
            best[top], best_y[top] = larger(best[top], best_y[top], found.value[:, 0], found.y[:, 0])
        progress(STAGE, 1.0)
        status = status if land.gradients.seen else Status.ZERO_GRADIENT
        return Found(best, best_y, torch.cat(beside), status, search)

    def settle(self, probe: Probe, rows: Rows, within: Constraint, starts: Batch) -> Found:
        return _SETTLE.run(probe, rows, within, starts=starts)


_SETTLE = Ascent(random=0, steps=4, keep=1, leading=1, polish=0)


def _refined(
    land: Landscape, rows: Rows, field: Candidates, search: Ascent, progress: Progress
) -> tuple[Candidates, Status]:
    """The leading sets polished, and more where that is not enough; the best candidate of every set comes first."""
    lead = field.leading(search.leading)
    groups = [
        polish(land, rows[lead[some]], field.sets(lead[some]), search.polish, heard)
        for some, heard in land.in_parts(rows[lead], part(progress, 0.6, 0.9))
    ]
    ends, settled = stacked([group.ends for group in groups]), torch.cat([group.settled for group in groups])
    done = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
    done[lead] = pick(settled, ends.value.argmax(1, keepdim=True))[:, 0]
    ends = ends.beside(field.sets(lead).best(1))
    width = ends.value.shape[1]
    field = field.best(width).put(lead, ends.best(width))
    top = int(field.value[:, 0].argmax())
    kinks = land.probe.kinked or any(group.stopped_by_kinks() for group in groups)
    more = search.random if search.fallback is None else search.fallback
    if more and (kinks or _bends(land, rows[[top]])):
        random, shakes = max(search.random, (1 if kinks else 2) * more), KINKED if kinks else SATURATED
        rest = part(progress, 0.9, 1.0)
        field = hop(land, rows, field, random=random, steps=search.polish, shakes=shakes, progress=rest)
        top = int(field.value[:, 0].argmax())
    elif not bool(done[top]):
        return field, Status.STEP_LIMIT
    elif more and not search.random:
        # Random starts of the best set, which has had none, beside its candidates.
        which, at = torch.tensor([top], device=rows.device), rows[[top]]
        effort = replace(search, steps=_SECOND_STEPS, keep=_SECOND)
        found = _climb(land.near(at), at, land.random_words(at, _SECOND, "start"), effort)
        field = field.put(which, field.sets(which).beside(found).best(width))
    return field, Status.CONVERGED if field.confirmed(top) else Status.UNCONFIRMED


def _bends(land: Landscape, rows: Rows) -> bool:
    """Whether a map that passes for nearly linear in Δ is not, within this reach: its best start is no fixed point."""
    direction = land.probe.first_order_direction(rows)
    if direction is None:
        return False
    x = land.probe.X[rows]
    y = land.within.toward(x, direction[:, 0])
    _, gradient = land.gradients.at(land.near(rows).probe, y, rows)
    moved, uphill = unit((y - x).flatten(1)), unit(gradient.flatten(1))
    return float((moved * uphill).sum()) < _STRAIGHT


def _climb(land: Landscape, rows: Rows, y: Batch, search: Ascent, progress: Progress = silent) -> Candidates:
    """Conditional gradient from all starts; after a quarter and a half of the steps only the better starts go on."""
    if y.shape[:2] == (1, 1):
        return _lone(land, rows, y, search.steps).best(search.keep)
    x = land.probe.X[rows][:, None]
    rounding = 4 * torch.finfo(y.dtype).eps
    begin, best_y = y, y.clone()
    best = torch.full(y.shape[:2], -torch.inf, dtype=y.dtype, device=y.device)
    slope = land.slope(rows, y.shape[1])
    for step in range(search.steps):
        if step in (search.steps // 4, search.steps // 2) and step:
            stay = max(search.keep + 1, -(-y.shape[1] // 3))  # the best ones, and the first
            rank = best.index_fill(1, best.new_zeros(1, dtype=torch.long), torch.inf)  # the first start always goes on
            order = rank.argsort(dim=1, descending=True, stable=True)[:, :stay]
            best, best_y, y, begin = (pick(t, order) for t in (best, best_y, y, begin))
            slope = land.slope(rows, y.shape[1])
        value, gradient = slope(y)
        # A set of rows that has come to rest stays there, whatever the others do.
        rising = (value > best * (1 + rounding)).any(1)
        best, best_y = larger(best, best_y, value, y)
        if not bool(rising.any()):
            break
        y = torch.where(rising[:, None, None, None], land.within.toward(x.expand_as(y), gradient), y)
        progress(STAGE, (step + 1) / search.steps)
    best, best_y = larger(best, best_y, land.value(rows, y), y)
    return Candidates(best, best_y, begin).best(search.keep)


def _lone(land: Landscape, rows: Rows, y: Float[Tensor, "1 1 m d"], steps: int) -> Candidates:
    """One start of one set."""

    slope = land.gradients.slope_at(land.probe, rows)

    def with_slope(at: Tensor) -> tuple[float, Tensor]:
        value, gradient = slope(at[None])
        return float(value), gradient[0]

    top, where = climb_to_fixed_point(with_slope, land.probe.X[rows[0]], y[0, 0], land.within, steps)
    return Candidates(y.new_tensor([[top]]), where[None, None], y)
