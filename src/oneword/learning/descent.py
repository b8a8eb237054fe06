"""Bringing a linear functional h of the features down, by the search that all Probes share.

`FunctionalProbe` has √(1+h²) − h as its squared change: it is positive and falls with h, so `ascend` climbs it as it
climbs any other. What is found is attained, hence an upper bound on the true minimum of h.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from oneword.learning.functionals import Functionals
from oneword.maps.attention_probe import AttentionProbe
from oneword.maps.base import SHORT, Probe
from oneword.maps.multihead_probe import MultiHeadProbe
from oneword.maps.random import LayeredProbe
from oneword.search.ascent import Ascent
from oneword.search.base import Status
from oneword.search.greedy import Word, choose_words
from oneword.sets.constraints import Ball, unit

# Downhill from the text and a little further: enough where all that counts is to get below some value.
QUICK = Ascent(random=0, steps=3, keep=1, leading=1, polish=0)


@dataclass(frozen=True)
class Effort:
    """How hard to look: `search` for the lowest value; `follow` from one trade-off of the frontier to the next."""

    # Much less than a sup of the squared change needs: the functional itself knows where to start.
    search: Ascent = Ascent(random=4, steps=6, keep=4, leading=8, polish=60)  # noqa: RUF009
    follow: Ascent = Ascent(random=0, steps=1, keep=1, leading=4, polish=20)  # noqa: RUF009


@singledispatch
def effort_for(probe: Probe) -> Effort:
    """What suits this Probe, where nobody says; registered by its type."""
    return Effort()


@effort_for.register(LayeredProbe)
def _of_layers(probe: LayeredProbe) -> Effort:
    """Nearly linear in Δ: downhill is nearly the answer."""
    return Effort(
        search=Ascent(random=0, steps=4, keep=1, leading=4, polish=30),
        follow=Ascent(random=0, steps=3, keep=1, leading=4, polish=0),
    )


@effort_for.register(AttentionProbe)
@effort_for.register(MultiHeadProbe)
def _of_attention(probe: AttentionProbe | MultiHeadProbe) -> Effort:
    """Short texts have many minima of nearly the same depth, and starts cost little there."""
    return Effort(search=Ascent(random=16, steps=6, keep=8, leading=12, polish=100)) if probe.n <= SHORT else Effort()


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

    def first_order_direction(self, i: Int[Tensor, "p m"]) -> Float[Tensor, "p 1 m d"] | None:
        return None if self.of.probe.first_order_direction(i) is None else self.leading_direction(i)

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
    chosen, y = choose_words(probe, list(each), each, scope.words, scope.within, scope.search)
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
    found = scope.search.run(probe, rows, scope.within, seed=scope.seed, starts=starts)
    return Lowest(rows, torch.sinh(-found.change2.log()), found.y, found.status)
