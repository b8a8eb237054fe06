"""The sup for maps whose every candidate is a forward pass: a few sets of rows climb first, and hand on what they find.

Deep networks are curved: conditional-gradient steps, which jump to the far side of the ball, miss their maxima, and a
plain ascent crawls. Candidates climb by momentum instead.

A new word that moves the model far at one position does so at most others, too, after a few narrow steps. So a few
sets of rows (the scouts) climb from starts of their own, all the others begin at the words that these found or at a
start that does more, and the leading sets climb furthest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from oneword.errors import RangeError
from oneword.maps.base import SHORT, Probe
from oneword.memory import batch_size
from oneword.progress import Progress, silent
from oneword.search.base import MEMORY, STAGE, Found, Gradients, Rows, Search, Status
from oneword.search.candidates import evaluate, first_starts, larger, random_words
from oneword.search.momentum import climb
from oneword.sets.constraints import Constraint

_SCOUTS = 8  # at most, unless more sets lead
_SCOUTING = 30  # steps of a scout, where all sets together take as many
_LAST_STEP = 0.01  # of the radius
_WIDEST = 0.5  # first step, of the radius, up to `_SHORT` steps; longer climbs begin with narrower ones and find more
_SHORT = 20
_NARROW = 0.3  # of that: from a candidate that has climbed already, wider steps would throw it back
_LONG = 40  # steps; from here on a climb forgets more slowly
_AGREE = 1e-3  # relative difference of S up to which two starts count as having found the same


@final
@dataclass(frozen=True)
class FrugalAscent(Search):
    """How hard to search where every candidate is a forward pass of a whole model.

    | field | meaning |
    |---|---|
    | `random` | random starts a position, beside those the map knows |
    | `steps` | steps of every position |
    | `keep` | candidates of a position that climb |
    | `leading` | how many positions climb further |
    | `polish` | their further steps |
    | `quick` | begin at the leading start of the map alone |
    | `memory` | bytes a batch may take |
    """

    tested: ClassVar[bool] = True

    random: int = 0
    steps: int = 4
    keep: int = 1
    leading: int = 3
    polish: int = 60
    quick: bool = False
    memory: int = MEMORY

    def __post_init__(self) -> None:
        for name, least in (("random", 0), ("polish", 0), ("steps", 1), ("keep", 1), ("leading", 1), ("memory", 1)):
            if not getattr(self, name) >= least:
                raise RangeError(f"expected FrugalAscent({name}=…) ≥ {least}, got {getattr(self, name)}")

    @classmethod
    def suited_to(cls, n: int, *, quick: bool = False, memory: int = MEMORY) -> FrugalAscent:
        """What suits a text of n words: about nine forward and backward passes a word in long texts."""
        if quick and SHORT // 2 < n <= SHORT:  # so many words: few steps at each, and long climbs at the best two
            return cls(steps=2, leading=2, polish=4 * n - 36, quick=True, memory=memory)
        if quick:
            return cls(steps=6 if n <= SHORT else 4, leading=2, polish=min(56, 16 + n), quick=True, memory=memory)
        if n <= SHORT:
            return cls(random=1, steps=16, keep=2, leading=4 + n // 16, polish=200, memory=memory)
        return cls(memory=memory)

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
        own, gradients = first_starts(probe, rows, within, self.random, self.quick, seed), Gradients()
        found = scout_and_climb(
            probe,
            rows,
            within,
            own if starts is None else torch.cat([starts, own], 1),
            steps=self.steps,
            keep=self.keep,
            leading=self.leading,
            polish=self.polish,
            memory=self.memory,
            gradients=gradients,
            progress=progress,
        )
        random = random_words(probe.X, rows, within, baseline, seed, "baseline")
        agree = bool(found.agree[found.change2.argmax()])
        status = Status.QUICK if self.quick else Status.CONVERGED if agree else Status.STEP_LIMIT
        status = status if gradients.seen else Status.ZERO_GRADIENT
        return Found(found.change2, found.y, evaluate(probe, rows, random, self.memory), status, self)

    def settle(self, probe: Probe, rows: Rows, within: Constraint, starts: Float[Tensor, "p s m d"]) -> Found:
        return FrugalAscent(steps=4, leading=1, polish=0, quick=True).run(probe, rows, within, starts=starts)


@dataclass(frozen=True, eq=False)
class Field:
    """Where every set of rows stands: its best change so far, and whether two independent starts agree on it."""

    change2: Float[Tensor, " p"]
    y: Float[Tensor, "p m d"]
    agree: Bool[Tensor, " p"]


@dataclass(frozen=True, eq=False)
class _Pool:
    """Candidates of each set, the best first; `origin` is the start that one has climbed from, here or elsewhere."""

    change2: Float[Tensor, "p k"]
    y: Float[Tensor, "p k m d"]
    origin: Int[Tensor, "p k"]

    @property
    def ranking(self) -> Int[Tensor, " p"]:
        """The sets, the best first."""
        return self.change2[:, 0].argsort(descending=True, stable=True)

    def at(self, sets: Int[Tensor, " q"]) -> _Pool:
        return _Pool(self.change2[sets], self.y[sets], self.origin[sets])

    def best(self, count: int) -> _Pool:
        return _Pool(self.change2[:, :count], self.y[:, :count], self.origin[:, :count])

    def and_also(self, other: _Pool) -> _Pool:
        """All candidates of both, unsorted."""
        pairs = ((self.change2, other.change2), (self.y, other.y), (self.origin, other.origin))
        return _Pool(*(torch.cat(pair, 1) for pair in pairs))

    def merged(self, other: _Pool) -> _Pool:
        """The best of both, one of each origin, as many as there were."""
        both = self.and_also(other)
        order = both.change2.argsort(dim=1, descending=True, stable=True)
        origin = both.origin.gather(1, order)
        again = (origin[:, :, None] == origin[:, None, :]).tril(-1).any(2)  # a better one of its origin comes before
        order = order.gather(1, again.int().argsort(dim=1, stable=True))[:, : self.change2.shape[1]]
        each = torch.arange(len(order), device=order.device)[:, None]
        return _Pool(both.change2[each, order], both.y[each, order], both.origin[each, order])

    def merged_at(self, sets: Int[Tensor, " q"], other: _Pool) -> _Pool:
        """The best of both at some of the sets."""
        new = self.at(sets).merged(other)
        change2, y, origin = self.change2.clone(), self.y.clone(), self.origin.clone()
        change2[sets], y[sets], origin[sets] = new.change2, new.y, new.origin
        return _Pool(change2, y, origin)


def scout_and_climb(
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
    gradients: Gradients,
    progress: Progress = silent,
) -> Field:
    """Scouts climb and hand on; all sets climb `steps` from their best `keep` candidates, the leading ones `polish`.

    Where `keep` is 2 or more, two candidates of each leading set are polished: its best beside a start that has not
    climbed yet, and from halfway on its best beside the best of another leading set.
    """
    p, s = starts.shape[:2]
    leading, keep, last = min(p, leading), min(keep, s), min(keep, s, 2)
    scouts = max(leading, min(_SCOUTS, -(-p // 8)))
    scouting = max(2 * steps, min(_SCOUTING, p * steps // scouts))
    hands = min(scouts, 1 + 4 * (keep - 1))
    tries = p * (s + hands) / 3  # a pass without its gradient costs a third
    total = tries + keep * (scouts * scouting + p * steps) + last * leading * polish
    done = 0.0

    def worked(more: float) -> None:
        nonlocal done
        done += more
        progress(STAGE, min(1.0, done / total))

    climber = _Climb(probe, within, memory, gradients, worked)
    pool = raw = _sorted(climber.values(rows, starts), starts)
    first = pool.ranking[:scouts]
    pool = pool.merged_at(first, climber.up(rows[first], pool.at(first).best(keep), scouting))
    found = pool.at(first[pool.at(first).ranking[:hands]])
    handed = within.project(probe.X[rows][:, None], found.y[None, :, 0])
    pool = pool.merged(_Pool(climber.values(rows, handed), handed, found.origin[:, 0].expand(p, -1)))
    pool = pool.merged_at(torch.arange(p, device=rows.device), climber.up(rows, pool.best(keep), steps))
    for turn, far in enumerate([polish] if last == 1 else [polish // 2, polish - polish // 2]):
        if not far:
            continue
        lead = pool.ranking[:leading]
        chosen = pool.at(lead).best(last)
        if last == 2 and turn == 0:
            chosen = chosen.best(1).and_also(_fresh(raw.at(lead), chosen, climber.climbed))
        elif last == 2 and leading > 1:
            chosen = chosen.best(1).and_also(_from_another(chosen, within, probe.X[rows[lead]]))
        pool = pool.merged_at(lead, climber.up(rows[lead], chosen, far))
    agree = (pool.change2[:, 1:2].sqrt() >= (1 - _AGREE) * pool.change2[:, :1].sqrt()).any(1)
    return Field(pool.change2[:, 0], pool.y[:, 0], agree)


def _sorted(change2: Float[Tensor, "p s"], starts: Float[Tensor, "p s m d"]) -> _Pool:
    """Every start as an origin of its own."""
    p, s = change2.shape
    order = change2.argsort(dim=1, descending=True, stable=True)
    each = torch.arange(p, device=order.device)[:, None]
    return _Pool(change2[each, order], starts[each, order], each * s + order)


def _fresh(raw: _Pool, chosen: _Pool, climbed: Int[Tensor, " c"]) -> _Pool:
    """The best start of each set that has not climbed; its second candidate where all have."""
    left = ~torch.isin(raw.origin, climbed)
    each, first = torch.arange(len(left), device=left.device), left.int().argmax(1)
    any_left = left.any(1)
    return _Pool(
        torch.where(any_left, raw.change2[each, first], chosen.change2[:, 1])[:, None],
        torch.where(any_left[:, None, None], raw.y[each, first], chosen.y[:, 1])[:, None],
        torch.where(any_left, raw.origin[each, first], chosen.origin[:, 1])[:, None],
    )


def _from_another(pool: _Pool, within: Constraint, x: Float[Tensor, "q m d"]) -> _Pool:
    """For sets in the order of their values: the new words of the best set, and for this one those of the second."""
    source = torch.zeros(len(x), dtype=torch.long, device=x.device)
    source[0] = 1
    given = pool.at(source).best(1)
    return _Pool(given.change2, within.project(x[:, None], given.y), given.origin)


class _Climb:
    """Batches of candidates under one map and one constraint; remembers which origins have climbed."""

    def __init__(
        self, probe: Probe, within: Constraint, memory: int, gradients: Gradients, worked: Callable[[float], None]
    ) -> None:
        self.probe, self.within, self.memory, self.gradients, self.worked = probe, within, memory, gradients, worked
        self.climbed = torch.zeros(0, dtype=torch.long, device=probe.X.device)

    def values(self, rows: Int[Tensor, "p m"], y: Float[Tensor, "p s m d"]) -> Float[Tensor, "p s"]:
        i, flat = rows[:, None].expand(y.shape[:3]).flatten(0, 1), y.flatten(0, 1)
        with torch.no_grad():
            parts = [self.probe.change2(a, b) for a, b in self._batches(flat, i)]
        self.worked(len(flat) / 3)
        return torch.cat(parts).view(y.shape[:2])

    def up(self, rows: Int[Tensor, "p m"], begin: _Pool, steps: int) -> _Pool:
        """The best of each climb; candidates of one batch climb together, which changes none of them."""
        y = begin.y
        i, flat = rows[:, None].expand(y.shape[:3]).flatten(0, 1), y.flatten(0, 1)
        widest = _WIDEST * min(1.0, (_SHORT / steps) ** 0.5)
        narrow = torch.isin(begin.origin, self.climbed).flatten()
        wide = torch.where(narrow, _NARROW * widest, widest).to(y)
        found = [self._climb(a, b, c, steps) for a, b, c in self._batches(flat, i, wide)]
        values, where = (torch.cat(parts) for parts in zip(*found, strict=True))
        self.climbed = torch.cat([self.climbed, begin.origin.flatten()])
        return _Pool(values.view(y.shape[:2]), where.view(y.shape), begin.origin)

    def _climb(
        self, y: Float[Tensor, "b m d"], i: Int[Tensor, "b m"], wide: Float[Tensor, " b"], steps: int
    ) -> tuple[Float[Tensor, " b"], Float[Tensor, "b m d"]]:
        memory = 0.8 if steps >= _LONG else 0.7
        nothing = torch.full((len(y),), -torch.inf, dtype=y.dtype, device=y.device)

        def slope(at: Tensor) -> tuple[Tensor, Tensor]:
            value, gradient = self.gradients.at(self.probe, at, i)
            self.worked(len(at))
            return value, gradient

        best, best_y, y = climb(
            slope, self.probe.X[i], y, nothing, self.within,
            steps=steps, keep=memory, first=wide[:, None, None], last=_LAST_STEP,
        )  # fmt: skip
        with torch.no_grad():
            return larger(best, best_y, self.probe.change2(y, i), y)

    def _batches(self, *each: Tensor) -> list[tuple[Tensor, ...]]:
        """Every tensor in parts that fit into memory."""
        size = batch_size(self.probe.bytes_per_candidate(each[1].shape[1]), self.memory)
        return list(zip(*(tensor.split(size) for tensor in each), strict=True))
