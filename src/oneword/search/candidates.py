"""Batches of candidates: new words for sets of rows, what they attain, and where their climbs began."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import torch
from jaxtyping import Float, Int
from torch import Tensor

from oneword.maps.base import Probe
from oneword.memory import batch_size
from oneword.random import stream
from oneword.search.base import Gradients, Rows
from oneword.sets.constraints import Constraint

SAME = 1e-3  # of S: two climbs that end this close have found the same height


@dataclass(frozen=True, eq=False)
class Candidates:
    """s candidates for each of p sets of rows; those that stem from the same start have the same `begin`."""

    value: Float[Tensor, "p s"]
    y: Float[Tensor, "p s m d"]
    begin: Float[Tensor, "p s m d"]

    def sets(self, which: Int[Tensor, " q"]) -> Self:
        """The candidates of some sets of rows."""
        return type(self)(self.value[which], self.y[which], self.begin[which])

    def pick(self, order: Int[Tensor, "p k"]) -> Self:
        """Some candidates of every set."""
        return type(self)(pick(self.value, order), pick(self.y, order), pick(self.begin, order))

    def best(self, count: int) -> Self:
        """The best `count` of every set, in order; copies of the first where there are not as many."""
        order = self.value.argsort(dim=1, descending=True, stable=True)[:, :count]
        missing = count - order.shape[1]
        return self.pick(order if missing <= 0 else torch.cat([order, order[:, :1].expand(-1, missing)], 1))

    def beside(self, other: Self) -> Self:
        """Both, for the same sets."""
        mine, theirs = ((c.value, c.y, c.begin) for c in (self, other))
        return type(self)(*(torch.cat(pair, 1) for pair in zip(mine, theirs, strict=True)))

    def put(self, which: Int[Tensor, " q"], new: Self) -> Self:
        """`new` in place of the candidates of some sets."""
        pairs = ((self.value, new.value), (self.y, new.y), (self.begin, new.begin))
        return type(self)(*(old.index_copy(0, which, fresh) for old, fresh in pairs))

    def confirmed(self, at: int) -> bool:
        """Whether a climb from another start ended as high as the best of this set."""
        value, begin = self.value[at], self.begin[at]
        top = value.argmax()
        as_high = value >= (1 - SAME) ** 2 * value[top]
        return bool((as_high & (begin != begin[top]).flatten(1).any(1)).any())


def stacked(parts: list[Candidates]) -> Candidates:
    """The candidates of several groups of sets, one after the other."""
    each = zip(*((c.value, c.y, c.begin) for c in parts), strict=True)
    return Candidates(*(torch.cat(column) for column in each))


def random_words(
    X: Float[Tensor, "n d"], rows: Rows, within: Constraint, count: int, seed: int, purpose: str
) -> Float[Tensor, "p count m d"]:
    """Random allowed words, from a stream of each row's own: they do not depend on what else is searched."""
    if count == 0:
        return X.new_zeros((len(rows), 0, rows.shape[1], X.shape[1]))
    words = {row: within.sample(X[row], count, stream(seed, purpose, row)) for row in rows.unique().tolist()}
    return torch.stack([torch.stack([words[row] for row in together], 1) for together in rows.tolist()])


def first_starts(
    probe: Probe, rows: Rows, within: Constraint, random: int, quick: bool, seed: int
) -> Float[Tensor, "p s m d"]:
    """Where to begin: along the directions that the Probe knows (`quick`: the leading one) and at random words."""
    known = probe.leading_direction(rows) if quick else probe.directions(rows)
    if known is None:
        return random_words(probe.X, rows, within, max(1, random), seed, "start")
    x = probe.X[rows][:, None].expand_as(known)
    return torch.cat([within.toward(x, known), random_words(probe.X, rows, within, random, seed, "start")], 1)


def with_gradient(
    probe: Probe, rows: Rows, y: Float[Tensor, "p s m d"], memory: int, gradients: Gradients
) -> tuple[Float[Tensor, "p s"], Float[Tensor, "p s m d"]]:
    """`change2` of s candidates for each set of rows, and its gradient."""
    i, flat = _flatten(rows, y)
    parts = [gradients.at(probe, a, b) for a, b in _batches(probe, flat, i, memory)]
    values, uphill = zip(*parts, strict=True)
    return torch.cat(values).view(y.shape[:2]), torch.cat(uphill).view(y.shape)


def evaluate(probe: Probe, rows: Rows, y: Float[Tensor, "p s m d"], memory: int) -> Float[Tensor, "p s"]:
    """`change2` of s candidates for each set of rows."""
    if y.shape[1] == 0:
        return y.new_zeros(y.shape[:2])
    i, flat = _flatten(rows, y)
    with torch.no_grad():
        parts = [probe.change2(a, b) for a, b in _batches(probe, flat, i, memory)]
    return torch.cat(parts).view(y.shape[:2])


def larger(best: Tensor, best_y: Tensor, value: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The better of two candidates in every place."""
    better = value > best
    return torch.where(better, value, best), torch.where(better[..., None, None], y, best_y)


def pick(values: Tensor, order: Int[Tensor, "p k"]) -> Tensor:
    """values[p, order[p]] along the second axis."""
    return values[torch.arange(len(order), device=order.device)[:, None], order]


def _flatten(rows: Rows, y: Float[Tensor, "p s m d"]) -> tuple[Int[Tensor, "b m"], Float[Tensor, "b m d"]]:
    return rows[:, None].expand(y.shape[:3]).flatten(0, 1), y.flatten(0, 1)


def _batches(probe: Probe, y: Tensor, i: Tensor, memory: int) -> list[tuple[Tensor, Tensor]]:
    size = batch_size(probe.bytes_per_candidate(i.shape[1]), memory)
    return list(zip(y.split(size), i.split(size), strict=True))
