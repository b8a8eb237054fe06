"""Bringing a linear functional h of the features down, by the search that all Probes share.

`FunctionalProbe` has √(1+h²) − h as its squared change: it is positive and falls with h, so `ascend` climbs it as it
climbs any other. What is found is attained, hence an upper bound on the true minimum of h.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from oneword.learning.functionals import Functionals
from oneword.maps.base import SHORT, Probe
from oneword.search.ascent import Ascent, ascend
from oneword.search.several import Word, choose_words
from oneword.search.status import Status
from oneword.sets.constraints import Ball, unit

# Much less than a sup of the squared change needs: the functional itself knows where to start.
EFFORT = Ascent(random=4, steps=6, keep=4, leading=8, polish=60)
# Downhill from the text and a little further: enough where all that counts is to get below some value.
QUICK = Ascent(random=0, steps=3, keep=1, leading=1, polish=0)


def by_default(search: Ascent) -> bool:
    """Whether it is the default effort; memory alone may be set by hand."""
    return replace(search, memory=EFFORT.memory) == EFFORT


def suited(search: Ascent, probe: Probe) -> Ascent:
    """The default effort spent where it counts; what was set by hand stays."""
    if not by_default(search):
        return search
    if not probe.many_maxima:  # nearly linear in Δ: downhill is nearly the answer
        return replace(search, random=0, steps=4, keep=1, leading=4, polish=30)
    if probe.cheap and probe.n <= SHORT:  # many minima of nearly the same depth, and starts cost little
        return replace(search, random=16, keep=8, leading=12, polish=100)
    return search


@dataclass(frozen=True)
class Scope:
    """Which rows may change, how many of them at once, how far; and how hard to look."""

    rows: tuple[int, ...]
    words: int
    within: Ball
    search: Ascent
    seed: int


@dataclass(frozen=True, eq=False)
class Lowest:
    """The lowest h found for each set of rows, and the new rows that attain it."""

    rows: Int[Tensor, "p m"]
    value: Float[Tensor, " p"]
    y: Float[Tensor, "p m d"]
    status: Status

    @property
    def best(self) -> tuple[Int[Tensor, " m"], Float[Tensor, "m d"]]:
        """The rows where h is lowest, and their new values."""
        top = int(self.value.argmin())
        return self.rows[top], self.y[top]


@final
class FunctionalProbe(Probe):
    """A Probe whose squared change is √(1+h²) − h, h a weighted sum of functionals. `known` starts beside downhill."""

    norm = 1.0

    def __init__(self, of: Functionals, weights: tuple[float, ...], *, known: bool = True) -> None:
        self.of, self.known, self.X = of, known, of.probe.X
        self.weights = self.X.new_tensor(weights)
        self.many_maxima, self.cheap = of.probe.many_maxima, of.probe.cheap

    @property
    def positions(self) -> tuple[int, ...]:
        return self.of.probe.positions

    def change2(self, y: Tensor, i: Tensor) -> Float[Tensor, " b"]:
        return torch.exp(-torch.asinh(self.of(y, i) @ self.weights))  # no cancellation where h is large

    def features(self, y: Tensor, i: Tensor) -> Tensor:
        return self.of.probe.features(y, i)

    def near(self, rows: tuple[int, ...]) -> FunctionalProbe:
        near = self.of.near(rows)
        return self if near is self.of else FunctionalProbe(near, tuple(self.weights.tolist()), known=self.known)

    def rows_at_once(self, memory: int) -> int:
        return self.of.probe.rows_at_once(memory)

    def bytes_per_candidate(self, m: int) -> int:
        return self.of.bytes_per_candidate(m)

    def leading_direction(self, i: Int[Tensor, "p m"]) -> Float[Tensor, "p 1 m d"]:
        """Downhill at the text itself."""
        return unit(self.value_and_gradient(self.X[i], i)[1])[:, None]

    def directions(self, i: Int[Tensor, "p m"]) -> Float[Tensor, "p s m d"]:
        downhill = self.leading_direction(i)
        known = self.of.directions(i, -self.weights, downhill[:, 0]) if self.known else None
        return downhill if known is None else torch.cat([downhill, known], 1)


def lowest(of: Functionals, scope: Scope) -> Lowest:
    """The lowest value of a single functional: of each row alone, or of several rows that are chosen greedily."""
    probe = FunctionalProbe(of, (1.0,))
    alone = descend(probe, torch.tensor(scope.rows, device=probe.X.device)[:, None], scope)
    if scope.words == 1:
        return alone
    each: dict[Word, Tensor] = {(int(row),): y for row, y in zip(alone.rows[:, 0], alone.y, strict=True)}
    chosen, y = choose_words(probe, list(each), each, scope.words, scope.within, scope.search.memory)
    order = sorted(range(scope.words), key=lambda slot: chosen[slot])
    rows = alone.rows.new_tensor([chosen[slot] for slot in order]).mT
    # Beside all of them together, the best one by itself: more words never do worse.
    first, only = alone.best
    by_itself = torch.where((rows[0] == first)[:, None], only, probe.X[rows[0]])
    return descend(probe, rows, scope, starts=torch.stack([y[order], by_itself])[None])


def descend(
    probe: FunctionalProbe, rows: Int[Tensor, "p m"], scope: Scope, *, starts: Float[Tensor, "p s m d"] | None = None
) -> Lowest:
    """Bring h down at every set of rows, from `starts` beside the usual ones."""
    found = ascend(probe, rows, scope.within, scope.search, seed=scope.seed, starts=starts)
    return Lowest(rows, torch.sinh(-found.change2.log()), found.y, found.status)
