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

from oneword.errors import RangeError
from oneword.maps.base import Probe
from oneword.progress import Progress, part, silent
from oneword.search.base import MEMORY, STAGE, Found, Gradients, Rows, Search, Status
from oneword.search.basin_hopping import KINKED, SATURATED, hop
from oneword.search.candidates import (
    Candidates,
    evaluate,
    first_starts,
    larger,
    pick,
    random_words,
    stacked,
    with_gradient,
)
from oneword.search.fixed_point import climb_to_fixed_point
from oneword.search.polish import Polished, polish
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
        for name in ("random", "polish", "finish", "fallback"):
            if (getattr(self, name) or 0) < 0:
                raise RangeError(f"expected Ascent({name}=…) ≥ 0, got {getattr(self, name)}")
        for name in ("steps", "keep", "leading", "memory"):
            if not getattr(self, name) >= 1:
                raise RangeError(f"expected Ascent({name}=…) ≥ 1, got {getattr(self, name)}")

    @property
    def is_quick(self) -> bool:
        return self.random == 0 and self.polish == 0

    def run(
        self,
        probe: Probe,
        rows: Rows,
        within: Constraint,
        *,
        starts: Float[Tensor, "p s m d"] | None = None,
        baseline: int = 0,
        seed: int = 0,
        progress: Progress = silent,
    ) -> Found:
        return _ascend(self, probe, rows, within, starts, baseline, seed, progress)

    def settle(self, probe: Probe, rows: Rows, within: Constraint, starts: Float[Tensor, "p s m d"]) -> Found:
        return _SETTLE.run(probe, rows, within, starts=starts)


_SETTLE = Ascent(random=0, steps=4, keep=1, leading=1, polish=0)


def _ascend(
    search: Ascent,
    probe: Probe,
    rows: Rows,
    within: Constraint,
    starts: Float[Tensor, "p s m d"] | None,
    baseline: int,
    seed: int,
    progress: Progress,
) -> Found:
    if search.is_quick and len(rows) == 1:  # no position to choose: the one climb does all the steps
        search = replace(search, steps=search.steps + search.finish, finish=0)
    batch = max(1, probe.rows_at_once(search.memory) // rows.shape[1])
    parts = torch.arange(len(rows)).split(batch)
    exploring = 0.6 if search.polish else 1.0
    gradients = Gradients()
    groups = []
    for count, some in enumerate(parts):
        begin, end = (exploring * at / len(parts) for at in (count, count + 1))
        given = None if starts is None else starts[some]
        climbed = part(progress, begin, end)
        groups.append(_explore(probe, rows[some], within, search, gradients, given, baseline, seed, climbed))
    field, baseline2 = stacked([found for found, _ in groups]), torch.cat([beside for _, beside in groups])
    status = Status.QUICK if search.is_quick else Status.UNPOLISHED
    if search.polish:
        field, status = _refined(probe, rows, field, within, search, gradients, seed, batch, progress)
    best, best_y = field.value[:, 0].clone(), field.y[:, 0].clone()
    if search.finish:
        top = best.argmax()[None]
        near = probe.near(tuple(rows[top].unique().tolist()))
        go_on = replace(search, steps=search.finish, keep=1)
        found = _climb(near, rows[top], best_y[top][:, None], within, go_on, gradients, silent)
        best[top], best_y[top] = larger(best[top], best_y[top], found.value[:, 0], found.y[:, 0])
    progress(STAGE, 1.0)
    return Found(best, best_y, baseline2, status if gradients.seen else Status.ZERO_GRADIENT, search)


def _refined(
    probe: Probe,
    rows: Rows,
    field: Candidates,
    within: Constraint,
    search: Ascent,
    gradients: Gradients,
    seed: int,
    batch: int,
    progress: Progress,
) -> tuple[Candidates, Status]:
    """The leading sets polished, and more where that is not enough; the best candidate of every set comes first."""
    lead = field.value[:, 0].argsort(descending=True, stable=True)[: search.leading]
    groups: list[Polished] = []
    parts = lead.split(batch)
    for count, some in enumerate(parts):
        begin, end = (0.6 + 0.3 * at / len(parts) for at in (count, count + 1))
        groups.append(
            polish(
                probe,
                rows[some],
                field.sets(some),
                within,
                search.polish,
                search.memory,
                gradients,
                part(progress, begin, end),
            )
        )
    ends, settled = stacked([group.ends for group in groups]), torch.cat([group.settled for group in groups])
    done = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
    done[lead] = pick(settled, ends.value.argmax(1, keepdim=True))[:, 0]
    ends = ends.beside(field.sets(lead).best(1))
    width = ends.value.shape[1]
    field = field.best(width).put(lead, ends.best(width))
    top = int(field.value[:, 0].argmax())
    kinks = probe.kinked or any(group.stopped_by_kinks() for group in groups)
    more = search.random if search.fallback is None else search.fallback
    if more and (kinks or _bends(probe, rows[[top]], within, gradients)):
        field = hop(
            probe,
            rows,
            field,
            within,
            random=max(search.random, (1 if kinks else 2) * more),
            steps=search.polish,
            shakes=KINKED if kinks else SATURATED,
            memory=search.memory,
            gradients=gradients,
            seed=seed,
            progress=part(progress, 0.9, 1.0),
        )
        top = int(field.value[:, 0].argmax())
    elif not bool(done[top]):
        return field, Status.STEP_LIMIT
    elif more and not search.random:
        field = _with_second_starts(probe, rows, field, top, within, search, gradients, seed)
    return field, Status.CONVERGED if field.confirmed(top) else Status.UNCONFIRMED


def _bends(probe: Probe, rows: Rows, within: Constraint, gradients: Gradients) -> bool:
    """Whether a map that passes for nearly linear in Δ is not, within this reach: its best start is no fixed point."""
    direction = probe.first_order_direction(rows)
    if direction is None:
        return False
    x = probe.X[rows]
    y = within.toward(x, direction[:, 0])
    _, gradient = gradients.at(probe.near(tuple(rows[0].tolist())), y, rows)
    moved, uphill = unit((y - x).flatten(1)), unit(gradient.flatten(1))
    return float((moved * uphill).sum()) < _STRAIGHT


def _with_second_starts(
    probe: Probe,
    rows: Rows,
    field: Candidates,
    top: int,
    within: Constraint,
    search: Ascent,
    gradients: Gradients,
    seed: int,
) -> Candidates:
    """Random starts of the best set, which has had none, beside its candidates."""
    which, at = torch.tensor([top], device=rows.device), rows[[top]]
    near, starts = probe.near(tuple(at[0].tolist())), random_words(probe.X, at, within, _SECOND, seed, "start")
    effort = replace(search, steps=_SECOND_STEPS, keep=_SECOND)
    found = _climb(near, at, starts, within, effort, gradients, silent)
    return field.put(which, field.sets(which).beside(found).best(field.value.shape[1]))


def _explore(
    probe: Probe,
    rows: Rows,
    within: Constraint,
    search: Ascent,
    gradients: Gradients,
    given: Float[Tensor, "p s m d"] | None,
    baseline: int,
    seed: int,
    progress: Progress,
) -> tuple[Candidates, Float[Tensor, "p r"]]:
    """Climb from every start: the best `keep` candidates of each set, and the baseline."""
    near = probe.near(tuple(rows.unique().tolist()))
    starts = first_starts(near, rows, within, search.random, search.is_quick, seed)  # (p, s, m, d)
    if given is not None:
        starts = torch.cat([given, starts], 1)
    found = _climb(near, rows, starts, within, search, gradients, progress)
    random = random_words(near.X, rows, within, baseline, seed, "baseline")
    return found, evaluate(near, rows, random, search.memory)


def _climb(
    probe: Probe,
    rows: Rows,
    y: Float[Tensor, "p s m d"],
    within: Constraint,
    search: Ascent,
    gradients: Gradients,
    progress: Progress,
) -> Candidates:
    """Conditional gradient from all starts; after a quarter and a half of the steps only the better starts go on."""
    if y.shape[:2] == (1, 1):
        return _lone(probe, rows, y, within, search.steps, gradients).best(search.keep)
    x = probe.X[rows][:, None]
    rounding = 4 * torch.finfo(y.dtype).eps
    begin, best_y = y, y.clone()
    best = torch.full(y.shape[:2], -torch.inf, dtype=y.dtype, device=y.device)
    for step in range(search.steps):
        if step in (search.steps // 4, search.steps // 2) and step:
            stay = max(search.keep + 1, -(-y.shape[1] // 3))  # the best ones, and the first
            rank = best.index_fill(1, best.new_zeros(1, dtype=torch.long), torch.inf)  # the first start always goes on
            order = rank.argsort(dim=1, descending=True, stable=True)[:, :stay]
            best, best_y, y, begin = (pick(t, order) for t in (best, best_y, y, begin))
        value, gradient = with_gradient(probe, rows, y, search.memory, gradients)
        # A set of rows that has come to rest stays there, whatever the others do.
        rising = (value > best * (1 + rounding)).any(1)
        best, best_y = larger(best, best_y, value, y)
        if not bool(rising.any()):
            break
        y = torch.where(rising[:, None, None, None], within.toward(x.expand_as(y), gradient), y)
        progress(STAGE, (step + 1) / search.steps)
    best, best_y = larger(best, best_y, evaluate(probe, rows, y, search.memory), y)
    return Candidates(best, best_y, begin).best(search.keep)


def _lone(
    probe: Probe, rows: Rows, y: Float[Tensor, "1 1 m d"], within: Constraint, steps: int, gradients: Gradients
) -> Candidates:
    """One start of one set."""

    def with_slope(at: Tensor) -> tuple[float, Tensor]:
        value, gradient = gradients.at(probe, at[None], rows)
        return float(value), gradient[0]

    top, where = climb_to_fixed_point(with_slope, probe.X[rows[0]], y[0, 0], within, steps)
    return Candidates(y.new_tensor([[top]]), where[None, None], y)
