"""The sup over positions and new words, for any Probe: many starts, conditional gradient, then projected ascent.

Conditional-gradient steps y ← argmax_{y allowed} y·∇ climb fast and need no step size, but from one start they miss the
sup by up to a third. So every position gets many starts; they are thinned out while they climb, and the best few of
the leading positions are polished by projected gradient ascent with a step of their own. The best iterate counts,
never the last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from oneword._random import stream
from oneword.errors import NonFiniteError, RangeError
from oneword.maps.base import SHORT, Probe
from oneword.perturb import Constraint, unit
from oneword.search.alone import climb_alone
from oneword.search.race import race
from oneword.search.slopes import Slopes
from oneword.search.status import Status

Rows = Int[Tensor, "p m"]  # p sets of m rows; the rows of a set change together
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
    search = search.suited_to(probe)
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
    change2, y, baseline2 = (torch.cat(found) for found in zip(*groups, strict=True))
    best, best_y = change2[:, 0].clone(), y[:, 0].clone()
    status = Status.QUICK if search.is_quick else Status.UNPOLISHED
    if search.polish:
        lead = best.argsort(descending=True, stable=True)[: search.leading]
        done = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
        parts = lead.split(batch)
        for count, part in enumerate(parts):

            def polished(done: float, before: int = count) -> None:
                progress(exploring + (1 - exploring) * (before + done) / len(parts))

            value, where, done[part] = _polish(probe, rows[part], y[part], within, search, slopes, polished)
            best[part], best_y[part] = _larger(best[part], best_y[part], value, where)
        status = Status.CONVERGED if bool(done[best.argmax()]) else Status.STEP_LIMIT
    if search.finish:
        top = best.argmax()[None]
        near = probe.near(tuple(rows[top].unique().tolist()))
        go_on = replace(search, steps=search.finish, keep=1)
        value, where = _climb(near, rows[top], best_y[top][:, None], within, go_on, slopes, lambda done: None)
        best[top], best_y[top] = _larger(best[top], best_y[top], value[:, 0], where[:, 0])
    progress(1.0)
    _check_finite(best)
    return Found(best, best_y, baseline2, status if slopes.seen else Status.ZERO_GRADIENT, search)


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
    random = _random(probe.X, rows, within, baseline, seed, "baseline")
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
) -> tuple[Float[Tensor, "p keep"], Float[Tensor, "p keep m d"], Float[Tensor, "p r"]]:
    """Climb from every start: the best `keep` candidates of each set, and the baseline."""
    near = probe.near(tuple(rows.unique().tolist()))
    starts = _starts(near, rows, within, search, seed)  # (p, s, m, d)
    if given is not None:
        starts = torch.cat([given, starts], 1)
    change2, y = _climb(near, rows, starts, within, search, slopes, progress)
    baseline2 = evaluate(near, rows, _random(near.X, rows, within, baseline, seed, "baseline"), search.memory)
    return change2, y, baseline2


def _starts(probe: Probe, rows: Rows, within: Constraint, search: Ascent, seed: int) -> Float[Tensor, "p s m d"]:
    known = probe.leading_direction(rows) if search.is_quick else probe.directions(rows)
    if known is None:
        return _random(probe.X, rows, within, max(1, search.random), seed, "start")
    x = probe.X[rows][:, None].expand_as(known)
    return torch.cat([within.toward(x, known), _random(probe.X, rows, within, search.random, seed, "start")], 1)


def _random(
    X: Float[Tensor, "n d"], rows: Rows, within: Constraint, count: int, seed: int, purpose: str
) -> Float[Tensor, "p count m d"]:
    """Random allowed words, from a stream of each row's own: they do not depend on what else is searched."""
    if count == 0:
        return X.new_zeros((len(rows), 0, rows.shape[1], X.shape[1]))
    words = {row: within.sample(X[row], count, stream(seed, purpose, row)) for row in rows.unique().tolist()}
    return torch.stack([torch.stack([words[row] for row in together], 1) for together in rows.tolist()])


def _climb(
    probe: Probe,
    rows: Rows,
    y: Float[Tensor, "p s m d"],
    within: Constraint,
    search: Ascent,
    slopes: Slopes,
    progress: Progress,
) -> tuple[Float[Tensor, "p keep"], Float[Tensor, "p keep m d"]]:
    """Conditional gradient from all starts; after a quarter and a half of the steps only the better starts go on."""
    x = probe.X[rows][:, None]
    if y.shape[:2] == (1, 1):

        def with_gradient(at: Tensor) -> tuple[float, Tensor]:
            value, gradient = slopes.at(probe, at[None], rows)
            return float(value), gradient[0]

        top, where = climb_alone(with_gradient, x[0, 0], y[0, 0], within, search.steps)
        return _padded(y.new_tensor([[top]]), search.keep), _padded(where[None, None], search.keep)
    rounding = 4 * torch.finfo(y.dtype).eps
    best = torch.full(y.shape[:2], -torch.inf, dtype=y.dtype, device=y.device)
    best_y = y.clone()
    for step in range(search.steps):
        if step in (search.steps // 4, search.steps // 2) and step:
            stay = max(search.keep + 1, -(-y.shape[1] // 3))  # the best ones, and the first
            rank = best.index_fill(1, best.new_zeros(1, dtype=torch.long), torch.inf)  # the first start always goes on
            order = rank.argsort(dim=1, descending=True, stable=True)[:, :stay]
            best, best_y, y = (_pick(t, order) for t in (best, best_y, y))
        value, gradient = _with_gradient(probe, rows, y, search.memory, slopes)
        # A set of rows that has come to rest stays there, whatever the others do.
        rising = (value > best * (1 + rounding)).any(1)
        best, best_y = _larger(best, best_y, value, y)
        if not bool(rising.any()):
            break
        y = torch.where(rising[:, None, None, None], within.toward(x.expand_as(y), gradient), y)
        progress((step + 1) / search.steps)
    best, best_y = _larger(best, best_y, evaluate(probe, rows, y, search.memory), y)
    order = best.argsort(dim=1, descending=True, stable=True)[:, : search.keep]
    return _padded(_pick(best, order), search.keep), _padded(_pick(best_y, order), search.keep)


def _polish(
    probe: Probe,
    rows: Rows,
    y: Float[Tensor, "p keep m d"],
    within: Constraint,
    search: Ascent,
    slopes: Slopes,
    progress: Progress,
) -> tuple[Float[Tensor, " p"], Float[Tensor, "p m d"], Bool[Tensor, " p"]]:
    """Projected ascent along the normalised gradient, the step growing on success and shrinking on failure."""
    near = probe.near(tuple(rows.unique().tolist()))
    x = probe.X[rows][:, None].expand_as(y)
    reach = within.reach(x)[..., None]  # (p, keep, m, 1)
    step = torch.full_like(reach[..., :1, :], 0.3)
    value, gradient = _with_gradient(near, rows, y, search.memory, slopes)
    settled = torch.zeros_like(value, dtype=torch.bool)
    recent = value
    for count in range(1, search.polish + 1):
        direction = unit(gradient.flatten(-2)).view_as(gradient) * rows.shape[1] ** 0.5
        trial = within.project(x, y + step * reach * direction)
        trial_value, trial_gradient = _with_gradient(near, rows, trial, search.memory, slopes)
        up = trial_value > value
        value = torch.where(up, trial_value, value)
        y = torch.where(up[..., None, None], trial, y)
        gradient = torch.where(up[..., None, None], trial_gradient, gradient)
        step = torch.where(up[..., None, None], step * 1.5, step * 0.4).clamp(max=3.0)
        progress(count / search.polish)
        if count == 30 and y.shape[1] > 8:  # by now the better ones show
            order = value.argsort(dim=1, descending=True, stable=True)[:, :8]
            value, y, gradient, step, x, reach, recent = (
                _pick(t, order) for t in (value, y, gradient, step, x, reach, recent)
            )
        if count % 15 == 0:  # settled: fifteen steps brought less than one part in 10⁶, or the step has vanished
            settled = (value <= recent * (1 + 1e-6)) | (step.flatten(1) < 1e-7)
            step = step * ~settled[..., None, None]  # it stays there, however long the others go on
            recent = value
            if bool(settled.all()):
                break
    top = value.argmax(1)
    p = torch.arange(len(rows), device=y.device)
    return value[p, top], y[p, top], settled[p, top]


def _larger(best: Tensor, best_y: Tensor, value: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The better of two candidates in every place."""
    better = value > best
    return torch.where(better, value, best), torch.where(better[..., None, None], y, best_y)


def _with_gradient(
    probe: Probe, rows: Rows, y: Float[Tensor, "p s m d"], memory: int, slopes: Slopes
) -> tuple[Float[Tensor, "p s"], Float[Tensor, "p s m d"]]:
    i, flat = _flatten(rows, y)
    parts = [slopes.at(probe, a, b) for a, b in _batches(probe, flat, i, memory)]
    values, gradients = zip(*parts, strict=True)
    return torch.cat(values).view(y.shape[:2]), torch.cat(gradients).view(y.shape)


def evaluate(probe: Probe, rows: Rows, y: Float[Tensor, "p s m d"], memory: int) -> Float[Tensor, "p s"]:
    """`change2` of s candidates for each set of rows."""
    if y.shape[1] == 0:
        return y.new_zeros(y.shape[:2])
    i, flat = _flatten(rows, y)
    with torch.no_grad():
        parts = [probe.change2(a, b) for a, b in _batches(probe, flat, i, memory)]
    return torch.cat(parts).view(y.shape[:2])


def _flatten(rows: Rows, y: Float[Tensor, "p s m d"]) -> tuple[Int[Tensor, "b m"], Float[Tensor, "b m d"]]:
    return rows[:, None].expand(y.shape[:3]).flatten(0, 1), y.flatten(0, 1)


def _batches(probe: Probe, y: Tensor, i: Tensor, memory: int) -> list[tuple[Tensor, Tensor]]:
    size = max(1, memory // probe.bytes_per_candidate(i.shape[1]))
    return list(zip(y.split(size), i.split(size), strict=True))


def _pick(values: Tensor, order: Int[Tensor, "p k"]) -> Tensor:
    """values[p, order[p]] along the second axis."""
    return values[torch.arange(len(order), device=order.device)[:, None], order]


def _padded(values: Tensor, width: int) -> Tensor:
    """The second axis repeated up to `width`, so that groups of positions can be stacked."""
    missing = width - values.shape[1]
    return values if missing <= 0 else torch.cat([values, values[:, :1].expand(-1, missing, *values.shape[2:])], 1)
