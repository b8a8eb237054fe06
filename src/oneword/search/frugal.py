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
from typing import ClassVar, NamedTuple, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from oneword.maps.base import SHORT, Probe
from oneword.progress import Progress, silent
from oneword.search.base import MEMORY, STAGE, Batch, Found, Rows, Search, Status, check_settings
from oneword.search.candidates import Candidates, Landscape, flattened, larger
from oneword.search.momentum import climb
from oneword.sets.constraints import Constraint

_SCOUTS = 8  # at most, unless more sets lead
_SCOUTING = 30  # steps of a scout, where all sets together take as many
_LAST_STEP = 0.01  # of the radius
_WIDEST = 0.5  # first step, of the radius, up to `_SHORT` steps; longer climbs begin with narrower ones and find more
_SHORT = 20
_NARROW = 0.3  # of that: from a candidate that has climbed already, wider steps would throw it back
_LONG = 40  # steps; from here on a climb forgets more slowly
_STARTS = 4  # of a position, as a rule: toward two words, and along the largest gain both ways
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
        check_settings(self, {"random": 0, "steps": 1, "keep": 1, "leading": 1, "polish": 0, "memory": 1})

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
        starts: Batch | None = None,
        baseline: int = 0,
        seed: int = 0,
        progress: Progress = silent,
    ) -> Found:
        land = Landscape(probe, within, self.memory, seed)
        own = land.first_starts(rows, self.random, self.quick)
        pool = scout_and_climb(land, rows, own if starts is None else torch.cat([starts, own], 1), self, progress)
        change2, random = pool.value[:, 0], land.random_words(rows, baseline, "baseline")
        agree = bool(agreed(pool)[change2.argmax()])
        status = Status.QUICK if self.quick else Status.CONVERGED if agree else Status.STEP_LIMIT
        status = status if land.gradients.seen else Status.ZERO_GRADIENT
        return Found(change2, pool.y[:, 0], land.value(rows, random), status, self)

    def work(self, probe: Probe, sets: int) -> float:
        return _Plan.of(self, sets, _STARTS + self.random).total

    def settle(self, probe: Probe, rows: Rows, within: Constraint, starts: Batch) -> Found:
        return FrugalAscent(steps=4, leading=1, polish=0, quick=True).run(probe, rows, within, starts=starts)


class _Plan(NamedTuple):
    """How many sets and candidates take part in what, and the passes with a gradient that all of it takes."""

    leading: int
    keep: int
    last: int
    scouts: int
    scouting: int
    hands: int
    total: float

    @classmethod
    def of(cls, search: FrugalAscent, p: int, s: int) -> _Plan:
        """For p sets with s starts each."""
        steps = search.steps
        leading, keep, last = min(p, search.leading), min(search.keep, s), min(search.keep, s, 2)
        scouts = max(leading, min(_SCOUTS, -(-p // 8)))
        scouting = max(2 * steps, min(_SCOUTING, p * steps // scouts))
        hands = min(scouts, 1 + 4 * (keep - 1))
        tries = p * (s + hands) / 3  # a pass without its gradient costs a third
        total = tries + keep * (scouts * scouting + p * steps) + last * leading * search.polish
        return cls(leading, keep, last, scouts, scouting, hands, total)


def scout_and_climb(
    land: Landscape, rows: Rows, starts: Batch, search: FrugalAscent, progress: Progress = silent
) -> Candidates:
    """Scouts climb and hand on; all sets climb `steps` from their best `keep` candidates, the leading ones `polish`.

    Where `keep` is 2 or more, two candidates of each leading set are polished: its best beside a start that has not
    climbed yet, and from halfway on its best beside the best of another leading set. Each set has its best candidates
    first, one of each origin.
    """
    p, s = starts.shape[:2]
    steps, polish = search.steps, search.polish
    plan, done = _Plan.of(search, p, s), 0.0
    leading, keep, last, scouts, scouting, hands, total = plan

    def worked(more: float) -> None:
        nonlocal done
        done += more
        progress(STAGE, min(1.0, done / total))

    climber, origin = _Climb(land, worked), torch.arange(p * s, device=rows.device).view(p, s)
    pool = raw = Candidates(climber.values(rows, starts), starts, origin).best(s)
    first = pool.leading(scouts)
    pool = _merged_at(pool, first, climber.up(rows[first], pool.sets(first).first(keep), scouting))
    found = pool.sets(first[pool.sets(first).leading(hands)])
    handed = land.within.project(land.probe.X[rows][:, None], found.y[None, :, 0])
    pool = _merged(pool, Candidates(climber.values(rows, handed), handed, found.origin[:, 0].expand(p, -1)))
    pool = _merged(pool, climber.up(rows, pool.first(keep), steps))
    for turn, far in enumerate([polish] if last == 1 else [polish // 2, polish - polish // 2]):
        if not far:
            continue
        lead = pool.leading(leading)
        chosen = pool.sets(lead).first(last)
        if last == 2 and turn == 0:
            chosen = chosen.first(1).beside(_fresh(raw.sets(lead), chosen, climber.climbed))
        elif last == 2 and leading > 1:
            chosen = chosen.first(1).beside(_from_another(chosen, land.within, land.probe.X[rows[lead]]))
        pool = _merged_at(pool, lead, climber.up(rows[lead], chosen, far))
    return pool


def agreed(pool: Candidates) -> Bool[Tensor, " p"]:
    """Whether two independent starts of a set agree on its best change."""
    return (pool.value[:, 1:2].sqrt() >= (1 - _AGREE) * pool.value[:, :1].sqrt()).any(1)


def _merged(pool: Candidates, other: Candidates) -> Candidates:
    """The best of both, one of each origin, as many as there were."""
    both = pool.beside(other)
    order = both.value.argsort(dim=1, descending=True, stable=True)
    origin = both.origin.gather(1, order)
    again = (origin[:, :, None] == origin[:, None, :]).tril(-1).any(2)  # a better one of its origin comes before
    return both.pick(order.gather(1, again.int().argsort(dim=1, stable=True))[:, : pool.value.shape[1]])


def _merged_at(pool: Candidates, sets: Int[Tensor, " q"], other: Candidates) -> Candidates:
    """The best of both at some of the sets."""
    return pool.put(sets, _merged(pool.sets(sets), other))


def _fresh(raw: Candidates, chosen: Candidates, climbed: Int[Tensor, " c"]) -> Candidates:
    """The best start of each set that has not climbed; its second candidate where all have."""
    left = ~torch.isin(raw.origin, climbed)
    first, some = left.int().argmax(1, keepdim=True), left.any(1, keepdim=True)
    value, y, origin = zip(raw.pick(first), chosen.pick(torch.ones_like(first)), strict=True)
    return Candidates(torch.where(some, *value), torch.where(some[..., None, None], *y), torch.where(some, *origin))


def _from_another(pool: Candidates, within: Constraint, x: Float[Tensor, "q m d"]) -> Candidates:
    """For sets in the order of their values: the new words of the best set, and for this one those of the second."""
    source = torch.zeros(len(x), dtype=torch.long, device=x.device)
    source[0] = 1
    given = pool.sets(source).first(1)
    return given._replace(y=within.project(x[:, None], given.y))


class _Climb:
    """Climbs of one search; remembers which origins have climbed."""

    def __init__(self, land: Landscape, worked: Callable[[float], None]) -> None:
        self.land, self.worked = land, worked
        self.climbed = torch.zeros(0, dtype=torch.long, device=land.probe.X.device)

    def values(self, rows: Rows, y: Batch) -> Float[Tensor, "p s"]:
        found = self.land.value(rows, y)
        self.worked(found.numel() / 3)
        return found

    def up(self, rows: Rows, begin: Candidates, steps: int) -> Candidates:
        """The best of each climb; candidates of one batch climb together, which changes none of them."""
        y = begin.y
        widest = _WIDEST * min(1.0, (_SHORT / steps) ** 0.5)
        narrow = torch.isin(begin.origin, self.climbed).flatten()
        wide = torch.where(narrow, _NARROW * widest, widest).to(y)
        found = [self._climb(a, b, c, steps) for a, b, c in self.land.batches(*flattened(rows, y), wide)]
        values, where = (torch.cat(parts) for parts in zip(*found, strict=True))
        self.climbed = torch.cat([self.climbed, begin.origin.flatten()])
        return Candidates(values.view(y.shape[:2]), where.view(y.shape), begin.origin)

    def _climb(self, y: Tensor, i: Tensor, wide: Tensor, steps: int) -> tuple[Tensor, Tensor]:
        probe, keep = self.land.probe, 0.8 if steps >= _LONG else 0.7
        nothing, first = torch.full((len(y),), -torch.inf, dtype=y.dtype, device=y.device), wide[:, None, None]

        def slope(at: Tensor) -> tuple[Tensor, Tensor]:
            found = self.land.gradients.at(probe, at, i)
            self.worked(len(at))
            return found

        best, best_y, y = climb(
            slope, probe.X[i], y, nothing, self.land.within, steps=steps, keep=keep, first=first, last=_LAST_STEP
        )
        with torch.no_grad():
            return larger(best, best_y, probe.change2(y, i), y)
