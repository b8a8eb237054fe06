"""The sup over positions and new words, for any Probe: many starts, conditional gradient, then projected ascent.

Conditional-gradient steps y ← argmax_{y allowed} y·∇ climb fast and need no step size, but from one start they miss the
sup by up to a third. So every position gets many starts; they are thinned out while they climb, and the best few of
the leading positions are polished by projected gradient ascent with a step of their own. Where that was stopped by
kinks, or a map is not as linear as its starts assume, the search goes on by momentum (`wander`). The best iterate
counts, never the last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from oneword.errors import NonFiniteError, RangeError
from oneword.maps.base import SHORT, Probe
from oneword.search.alone import climb_alone
from oneword.search.candidates import Candidates, Rows, evaluate, larger, pick, random_words, stacked, with_gradient
from oneword.search.polish import Polished, polish
from oneword.search.race import race
from oneword.search.slopes import Slopes
from oneword.search.status import Status
from oneword.search.wander import KINKED, SATURATED, wander
from oneword.sets.constraints import Constraint, unit

_STRAIGHT = 0.8  # cosine of Δ and the gradient at a start that is best at first order: 1 for a linear map
_SECOND = 4  # random starts that may confirm the best of a nearly linear map
_SECOND_STEPS = 24
Progress = Callable[[float], None]


@dataclass(frozen=True)
class Ascent:
    """How hard to search. The defaults reach ≥ 0.99 of a far longer search (docs/measurements.json).

    | field | meaning |
    |---|---|
    | `random` | random starts a position, beside those the map knows |
    | `steps` | conditional-gradient steps |
    | `keep` | candidates polished at each leading position |
    | `leading` | how many positions are polished |
    | `polish` | steps of projected ascent |
    | `finish` | conditional-gradient steps by which the best position alone goes on |
    | `memory` | bytes a batch may take; a setting, so that results do not depend on the machine |
    """

    random: int = 16
    steps: int = 12
    keep: int = 3
    leading: int = 20
    polish: int = 150
    finish: int = 0
    memory: int = 1 << 30

    def __post_init__(self) -> None:
        for name in ("random", "polish", "finish"):
            if getattr(self, name) < 0:
                raise RangeError(f"expected Ascent({name}=…) ≥ 0, got {getattr(self, name)}")
        for name in ("steps", "keep", "leading", "memory"):
            if not getattr(self, name) >= 1:
                raise RangeError(f"expected Ascent({name}=…) ≥ 1, got {getattr(self, name)}")

    @classmethod
    def quick(cls) -> Ascent:
        """One start a position (the mean key for attention) and no polish."""
        return cls(random=0, keep=1, polish=0, finish=30)

    def suited_to(self, probe: Probe) -> Ascent:
        """The default effort spent where it counts; what was set by hand stays.

        Maps that are nearly linear in Δ (RF, DRF) need little: their known starts are within a few per cent. Short
        texts under sharp attention have many maxima of nearly the same height, and many starts there cost little.
        """
        standard = replace(self, memory=Ascent().memory)
        if probe.costly and standard in (Ascent(), Ascent.quick()):
            return self._frugal(probe.n, standard == Ascent.quick())
        if standard == Ascent.quick() and not probe.many_maxima:
            return replace(self, steps=2, finish=4)
        if standard != Ascent():
            return self
        if not probe.many_maxima:
            return replace(self, random=0, steps=4, keep=2, leading=4)
        if probe.cheap and probe.n <= SHORT:
            return replace(self, random=2 * self.random, keep=40)
        return self

    def _frugal(self, n: int, quick: bool) -> Ascent:
        """For models whose every step is a forward and a backward pass: about nine a word in long texts."""
        if quick and SHORT // 2 < n <= SHORT:  # so many words: few steps at each, and long climbs at the best two
            return replace(self, steps=2, finish=4 * n - 36)
        if quick:
            return replace(self, steps=6 if n <= SHORT else 4, finish=min(56, 16 + n))
        if n <= SHORT:
            return replace(self, random=1, steps=16, keep=2, leading=4 + n // 16, polish=200)
        return replace(self, random=0, steps=4, keep=1, leading=3, polish=60)

    @property
    def is_quick(self) -> bool:
        return self.random == 0 and self.polish == 0


@dataclass(frozen=True, eq=False)
class Found:
    """The best candidate of each set of rows, and random ones beside it."""

    change2: Float[Tensor, " p"]
    y: Float[Tensor, "p m d"]
    baseline2: Float[Tensor, "p r"]
    status: Status
    search: Ascent  # what was really done


def ascend(
    probe: Probe,
    rows: Rows,
    within: Constraint,
    search: Ascent,
    *,
    starts: Float[Tensor, "p s m d"] | None = None,
    baseline: int = 0,
    seed: int = 0,
    progress: Progress = lambda done: None,
) -> Found:
    """The largest change found for each set of rows, from the given starts beside the usual ones.

    `baseline` random changes a set are evaluated on the way. `progress` hears the fraction done.
    """
    asked, search = search, search.suited_to(probe)
    if probe.costly:
        return _race(probe, rows, within, search, starts, baseline, seed, progress)
    if search.is_quick and len(rows) == 1:  # no position to choose: the one climb does all the steps
        search = replace(search, steps=search.steps + search.finish, finish=0)
    batch = max(1, probe.rows_at_once(search.memory) // rows.shape[1])
    parts = torch.arange(len(rows)).split(batch)
    exploring = 0.6 if search.polish else 1.0
    slopes = Slopes()
    groups = []
    for count, part in enumerate(parts):

        def climbed(done: float, before: int = count) -> None:
            progress(exploring * (before + done) / len(parts))

        given = None if starts is None else starts[part]
        groups.append(_explore(probe, rows[part], within, search, slopes, given, baseline, seed, climbed))
    field, baseline2 = stacked([found for found, _ in groups]), torch.cat([beside for _, beside in groups])
    status = Status.QUICK if search.is_quick else Status.UNPOLISHED
    if search.polish:
        field, status = _refined(probe, rows, field, within, asked, search, slopes, seed, batch, progress)
    best, best_y = field.value[:, 0].clone(), field.y[:, 0].clone()
    if search.finish:
        top = best.argmax()[None]
        near = probe.near(tuple(rows[top].unique().tolist()))
        go_on = replace(search, steps=search.finish, keep=1)
        found = _climb(near, rows[top], best_y[top][:, None], within, go_on, slopes, lambda done: None)
        best[top], best_y[top] = larger(best[top], best_y[top], found.value[:, 0], found.y[:, 0])
    progress(1.0)
    _check_finite(best)
    return Found(best, best_y, baseline2, status if slopes.seen else Status.ZERO_GRADIENT, search)


def _refined(
    probe: Probe,
    rows: Rows,
    field: Candidates,
    within: Constraint,
    asked: Ascent,
    search: Ascent,
    slopes: Slopes,
    seed: int,
    batch: int,
    progress: Progress,
) -> tuple[Candidates, Status]:
    """The leading sets polished, and more where that is not enough; the best candidate of every set comes first."""
    lead = field.value[:, 0].argsort(descending=True, stable=True)[: search.leading]
    groups: list[Polished] = []
    parts = lead.split(batch)
    for count, part in enumerate(parts):

        def polished(done: float, before: int = count) -> None:
            progress(0.6 + 0.3 * (before + done) / len(parts))

        some = field.sets(part)
        groups.append(polish(probe, rows[part], some, within, search.polish, search.memory, slopes, polished))
    ends, settled = stacked([group.ends for group in groups]), torch.cat([group.settled for group in groups])
    done = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
    done[lead] = pick(settled, ends.value.argmax(1, keepdim=True))[:, 0]
    ends = ends.beside(field.sets(lead).best(1))
    width = ends.value.shape[1]
    field = field.best(width).put(lead, ends.best(width))
    top = int(field.value[:, 0].argmax())
    kinks = probe.kinked or any(group.stopped_by_kinks() for group in groups)
    if asked.random and (kinks or _bends(probe, rows[[top]], within, slopes)):
        field = wander(
            probe,
            rows,
            field,
            within,
            random=max(search.random, (1 if kinks else 2) * asked.random),
            steps=search.polish,
            shakes=KINKED if kinks else SATURATED,
            memory=search.memory,
            slopes=slopes,
            seed=seed,
            progress=lambda done: progress(0.9 + 0.1 * done),
        )
        top = int(field.value[:, 0].argmax())
    elif not bool(done[top]):
        return field, Status.STEP_LIMIT
    elif asked.random and not search.random:
        field = _with_second_starts(probe, rows, field, top, within, search, slopes, seed)
    return field, Status.CONVERGED if field.confirmed(top) else Status.UNCONFIRMED


def _bends(probe: Probe, rows: Rows, within: Constraint, slopes: Slopes) -> bool:
    """Whether a map that passes for nearly linear in Δ is not, within this reach: its best start is no fixed point."""
    if probe.many_maxima:
        return False
    direction = probe.leading_direction(rows)
    assert direction is not None  # it is what the assumption rests on
    x = probe.X[rows]
    y = within.toward(x, direction[:, 0])
    _, gradient = slopes.at(probe.near(tuple(rows[0].tolist())), y, rows)
    moved, uphill = unit((y - x).flatten(1)), unit(gradient.flatten(1))
    return float((moved * uphill).sum()) < _STRAIGHT


def _with_second_starts(
    probe: Probe,
    rows: Rows,
    field: Candidates,
    top: int,
    within: Constraint,
    search: Ascent,
    slopes: Slopes,
    seed: int,
) -> Candidates:
    """Random starts of the best set, which has had none, beside its candidates."""
    which, at = torch.tensor([top], device=rows.device), rows[[top]]
    near, starts = probe.near(tuple(at[0].tolist())), random_words(probe.X, at, within, _SECOND, seed, "start")
    effort = replace(search, steps=_SECOND_STEPS, keep=_SECOND)
    found = _climb(near, at, starts, within, effort, slopes, lambda done: None)
    return field.put(which, field.sets(which).beside(found).best(field.value.shape[1]))


def _race(
    probe: Probe,
    rows: Rows,
    within: Constraint,
    search: Ascent,
    given: Float[Tensor, "p s m d"] | None,
    baseline: int,
    seed: int,
    progress: Progress,
) -> Found:
    """Where a candidate is a forward pass of a whole model; where nothing is polished the last steps are `finish`."""
    starts, slopes = _starts(probe, rows, within, search, seed), Slopes()
    found = race(
        probe,
        rows,
        within,
        starts if given is None else torch.cat([given, starts], 1),
        steps=search.steps,
        keep=search.keep,
        leading=min(2, search.leading) if search.is_quick else search.leading,
        polish=search.polish or search.finish,
        memory=search.memory,
        slopes=slopes,
        progress=progress,
    )
    _check_finite(found.change2)
    random = random_words(probe.X, rows, within, baseline, seed, "baseline")
    baseline2 = evaluate(probe, rows, random, search.memory)
    status = Status.CONVERGED if bool(found.agree[found.change2.argmax()]) else Status.STEP_LIMIT
    status = Status.QUICK if search.is_quick else status
    return Found(found.change2, found.y, baseline2, status if slopes.seen else Status.ZERO_GRADIENT, search)


def _check_finite(change2: Float[Tensor, " p"]) -> None:
    if not bool(torch.isfinite(change2).all()):
        raise NonFiniteError("expected finite features of changed texts, got NaN or infinity: use a smaller Ball")


def _explore(
    probe: Probe,
    rows: Rows,
    within: Constraint,
    search: Ascent,
    slopes: Slopes,
    given: Float[Tensor, "p s m d"] | None,
    baseline: int,
    seed: int,
    progress: Progress,
) -> tuple[Candidates, Float[Tensor, "p r"]]:
    """Climb from every start: the best `keep` candidates of each set, and the baseline."""
    near = probe.near(tuple(rows.unique().tolist()))
    starts = _starts(near, rows, within, search, seed)  # (p, s, m, d)
    if given is not None:
        starts = torch.cat([given, starts], 1)
    found = _climb(near, rows, starts, within, search, slopes, progress)
    random = random_words(near.X, rows, within, baseline, seed, "baseline")
    return found, evaluate(near, rows, random, search.memory)


def _starts(probe: Probe, rows: Rows, within: Constraint, search: Ascent, seed: int) -> Float[Tensor, "p s m d"]:
    known = probe.leading_direction(rows) if search.is_quick else probe.directions(rows)
    if known is None:
        return random_words(probe.X, rows, within, max(1, search.random), seed, "start")
    x = probe.X[rows][:, None].expand_as(known)
    return torch.cat([within.toward(x, known), random_words(probe.X, rows, within, search.random, seed, "start")], 1)


def _climb(
    probe: Probe,
    rows: Rows,
    y: Float[Tensor, "p s m d"],
    within: Constraint,
    search: Ascent,
    slopes: Slopes,
    progress: Progress,
) -> Candidates:
    """Conditional gradient from all starts; after a quarter and a half of the steps only the better starts go on."""
    if y.shape[:2] == (1, 1):
        return _lone(probe, rows, y, within, search.steps, slopes).best(search.keep)
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
        value, gradient = with_gradient(probe, rows, y, search.memory, slopes)
        # A set of rows that has come to rest stays there, whatever the others do.
        rising = (value > best * (1 + rounding)).any(1)
        best, best_y = larger(best, best_y, value, y)
        if not bool(rising.any()):
            break
        y = torch.where(rising[:, None, None, None], within.toward(x.expand_as(y), gradient), y)
        progress((step + 1) / search.steps)
    best, best_y = larger(best, best_y, evaluate(probe, rows, y, search.memory), y)
    return Candidates(best, best_y, begin).best(search.keep)


def _lone(
    probe: Probe, rows: Rows, y: Float[Tensor, "1 1 m d"], within: Constraint, steps: int, slopes: Slopes
) -> Candidates:
    """One start of one set."""

    def with_slope(at: Tensor) -> tuple[float, Tensor]:
        value, gradient = slopes.at(probe, at[None], rows)
        return float(value), gradient[0]

    top, where = climb_alone(with_slope, probe.X[rows[0]], y[0, 0], within, steps)
    return Candidates(y.new_tensor([[top]]), where[None, None], y)
