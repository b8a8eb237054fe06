"""Batches of candidates: new words for sets of rows, what they attain, and where their climbs began."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from oneword.maps.base import Probe, Slope
from oneword.memory import batch_size
from oneword.progress import Progress, part, silent
from oneword.random import stream
from oneword.search.base import Batch, Gradients, Rows
from oneword.sets.constraints import Constraint

SAME = 1e-3  # of S: two climbs that end this close have found the same height


class Candidates(NamedTuple):
    """s candidates for each of p sets of rows; `origin` is the start that one stems from: its rows, or its number."""

    value: Float[Tensor, "p s"]
    y: Batch
    origin: Tensor

    def sets(self, which: Int[Tensor, " q"]) -> Candidates:
        """The candidates of some sets of rows."""
        return Candidates(*(each[which] for each in self))

    def pick(self, order: Int[Tensor, "p k"]) -> Candidates:
        """Some candidates of every set."""
        return Candidates(*(pick(each, order) for each in self))

    def first(self, count: int) -> Candidates:
        """The first `count` of every set."""
        return Candidates(*(each[:, :count] for each in self))

    def best(self, count: int) -> Candidates:
        """The best `count` of every set, in order; copies of the first where there are not as many."""
        order = self.value.argsort(dim=1, descending=True, stable=True)[:, :count]
        missing = count - order.shape[1]
        return self.pick(order if missing <= 0 else torch.cat([order, order[:, :1].expand(-1, missing)], 1))

    def leading(self, count: int) -> Int[Tensor, " q"]:
        """The sets with the best candidates, in order."""
        return self.value.amax(1).argsort(descending=True, stable=True)[:count]

    def beside(self, other: Candidates) -> Candidates:
        """Both, for the same sets."""
        return Candidates(*(torch.cat(pair, 1) for pair in zip(self, other, strict=True)))

    def put(self, which: Int[Tensor, " q"], new: Candidates) -> Candidates:
        """`new` in place of the candidates of some sets."""
        return Candidates(*(old.index_copy(0, which, fresh) for old, fresh in zip(self, new, strict=True)))

    def confirmed(self, at: int) -> bool:
        """Whether a climb from another start ended as high as the best of this set."""
        value, origin = self.value[at], self.origin[at]
        top = value.argmax()
        as_high = value >= (1 - SAME) ** 2 * value[top]
        return bool((as_high & (origin != origin[top]).flatten(1).any(1)).any())


def stacked(parts: list[Candidates]) -> Candidates:
    """The candidates of several groups of sets, one after the other."""
    return Candidates(*(torch.cat(column) for column in zip(*parts, strict=True)))


@dataclass(frozen=True, eq=False)
class Landscape:
    """What one search climbs: the squared change of a map at one text, over the allowed new rows.

    `memory` is the number of bytes that a batch may take, `seed` that of everything random.
    """

    probe: Probe
    within: Constraint
    memory: int
    seed: int = 0
    gradients: Gradients = field(default_factory=Gradients)

    def near(self, rows: Rows) -> Landscape:
        """The same for changes of these rows only; see `Probe.near`."""
        return replace(self, probe=self.probe.near(tuple(rows.unique().tolist())))

    def in_parts(self, rows: Rows, progress: Progress = silent) -> Iterator[tuple[Int[Tensor, " q"], Progress]]:
        """The numbers of as many sets as `near` may be given at once, and what reports their progress."""
        at_once = max(1, self.probe.rows_at_once(self.memory) // rows.shape[1])
        parts = torch.arange(len(rows), device=rows.device).split(at_once)
        for count, some in enumerate(parts):
            yield some, part(progress, count / len(parts), (count + 1) / len(parts))

    def random_words(self, rows: Rows, count: int, purpose: str) -> Batch:
        """Random allowed words, from a stream of each row's own: they do not depend on what else is searched."""
        X = self.probe.X
        if count == 0:
            return X.new_zeros((len(rows), 0, rows.shape[1], X.shape[1]))
        draws = {row: stream(self.seed, purpose, row) for row in rows.unique().tolist()}
        words = {row: self.within.sample(X[row], count, rng) for row, rng in draws.items()}
        return torch.stack([torch.stack([words[row] for row in together], 1) for together in rows.tolist()])

    def first_starts(self, rows: Rows, random: int, quick: bool) -> Batch:
        """Where to begin: along the directions that the Probe knows (`quick`: the leading one) and at random words."""
        known = self.probe.leading_direction(rows) if quick else self.probe.directions(rows)
        if known is None:
            return self.random_words(rows, max(1, random), "start")
        x = self.probe.X[rows][:, None].expand_as(known)
        return torch.cat([self.within.toward(x, known), self.random_words(rows, random, "start")], 1)

    def slope(self, rows: Rows, count: int) -> Slope:
        """`change2` of `count` candidates for each set of rows and its gradient, as a function of the candidates."""
        i = repeated(rows, count)
        if len(i) <= self._at_once(rows.shape[1]):
            climb = self.gradients.slope_at(self.probe, i)
        else:  # what a Probe prepares for one batch takes as much memory as a batch may
            climb = self._in_batches(i)

        def slope(y: Batch) -> tuple[Float[Tensor, "p s"], Batch]:
            values, uphill = climb(y.flatten(0, 1))
            # Contiguous: the order of the entries in memory decides in which order they are summed up.
            return values.view(y.shape[:2]), uphill.contiguous().view(y.shape)

        return slope

    def _in_batches(self, i: Int[Tensor, "b m"]) -> Slope:
        def slope(y: Float[Tensor, "b m d"]) -> tuple[Float[Tensor, " b"], Float[Tensor, "b m d"]]:
            values, uphill = zip(*(self.gradients.at(self.probe, a, b) for a, b in self.batches(y, i)), strict=True)
            return torch.cat(values), torch.cat(uphill)

        return slope

    def value(self, rows: Rows, y: Batch) -> Float[Tensor, "p s"]:
        """`change2` of s candidates for each set of rows."""
        if y.shape[1] == 0:
            return y.new_zeros(y.shape[:2])
        with torch.no_grad():
            parts = [self.probe.change2(a, b) for a, b in self.batches(*flattened(rows, y))]
        return torch.cat(parts).view(y.shape[:2])

    def batches(self, y: Float[Tensor, "b m d"], *more: Tensor) -> list[tuple[Tensor, ...]]:
        """Candidates, and what else there is for each of them, in parts that fit into memory."""
        size = self._at_once(y.shape[1])
        return list(zip(*(each.split(size) for each in (y, *more)), strict=True))

    def _at_once(self, m: int) -> int:
        """How many candidates with m changed rows fit into memory."""
        return batch_size(self.probe.bytes_per_candidate(m), self.memory)


def larger(best: Tensor, best_y: Tensor, value: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The better of two candidates in every place."""
    better = value > best
    return torch.where(better, value, best), torch.where(better[..., None, None], y, best_y)


def pick(values: Tensor, order: Int[Tensor, "p k"]) -> Tensor:
    """values[p, order[p]] along the second axis."""
    return values[torch.arange(len(order), device=order.device)[:, None], order]


def flattened(rows: Rows, y: Batch) -> tuple[Float[Tensor, "b m d"], Int[Tensor, "b m"]]:
    """All candidates of all sets one after the other, each with its rows."""
    return y.flatten(0, 1), repeated(rows, y.shape[1])


def repeated(rows: Rows, count: int) -> Int[Tensor, "b m"]:
    """The rows of each set, once for each of its `count` candidates."""
    return rows[:, None].expand(-1, count, -1).flatten(0, 1)
