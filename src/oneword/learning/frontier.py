"""The frontier: the least error on a changed text that the old model told apart by no more than γ ≤ g.

With drift = yδ the new model's answer, times y, is 1 + drift + (F−1)(1−yf), and −1 is asked for. First F alone is
brought down, and the answer alone; then, between and beyond, F + s·drift for several s, each of which gives the lowest
F that its drift allows (s is a Lagrange multiplier). Between two such points drift = −g: the lowest answer for γ ≤ g.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import attrgetter

import torch
from jaxtyping import Float, Int
from scipy.optimize import brentq
from torch import Tensor

from oneword.learning.descent import FunctionalProbe, Lowest, Scope, descend, effort_for
from oneword.learning.functionals import Functionals
from oneword.search.ascent import Ascent

STEPS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # |s|, in units in which both functionals have the same norm
REFINE = 2  # further values of s for each g, at the position that leads there
SHARES = (1.0, 0.8, 0.6, 0.4, 0.2)  # of the way from the text to a path, where to look for the answer −1
INSIDE = 1 - 1e-9  # of g is used, so that rounding does not leave γ above g
ZERO = 1e-20  # an error that is rounding
ASIDE, JUMP = 1e-9, 1e-4  # a step of this share of a way that moves an answer this far is a jump, not a slope


@dataclass(frozen=True, eq=False)
class Point:
    """A change of one set of rows, and what the old and the new model make of it, times y."""

    rows: Int[Tensor, " m"]
    y: Float[Tensor, "m d"]
    drift: float
    answer: float  # 1 at the text itself, −1 is asked for
    s: float

    @property
    def err(self) -> float:
        return (1 + self.answer) ** 2


Path = list[Point]  # of one set of rows, s increasing


@dataclass(frozen=True, eq=False)
class Tradeoff:
    """`of` holds ±F, the sign being that of 1 − yf, and y·⟨φ, θ*⟩; `clean` is what they are at the text itself."""

    of: Functionals
    clean: tuple[float, float]
    residual: float  # |1 − yf|
    scope: Scope

    def frontier(self, aligned: Lowest, answering: Lowest, grid: Sequence[float]) -> list[Point]:
        """For each g the best point found with |drift| ≤ g, from the lowest ±F and the lowest answer of each set."""
        half = self._effort.leading // 2
        lead = torch.cat([found.value.argsort(stable=True)[:half] for found in (aligned, answering)]).unique()
        rows = aligned.rows[lead]
        held = replace(self, of=self.of.near(tuple(rows.unique().tolist())))
        return held._along(held._paths(rows, aligned.y[lead], answering.y[lead], grid), grid)

    def _along(self, paths: list[Path], grid: Sequence[float]) -> list[Point]:
        pool = [self._unchanged(paths[0][0].rows)]
        for g in sorted(grid):
            self._refine(paths, g)
            for path in paths:
                ends = [*_feasible(path, g), *self._crossings(path, g)]
                pool += ends
                if _best(pool, g).err > ZERO:
                    pool += self._exact(path, [end for end in ends if end.answer < -1], g)
        return [_best(pool, g) for g in grid]

    @property
    def _effort(self) -> Ascent:
        return replace(effort_for(self.of.probe).follow, memory=self.scope.search.memory)

    def _paths(
        self,
        rows: Int[Tensor, "p m"],
        aligned: Float[Tensor, "p m d"],
        answering: Float[Tensor, "p m d"],
        grid: Sequence[float],
    ) -> list[Path]:
        """Points of many s for each set of rows, until every drift of the grid is passed."""
        unit = float(self.of.V[0].norm() / self.of.V[1].norm())
        most = min(1 / max(self.residual, 1e-9), STEPS[-1] * unit)  # the answer is F + drift/(1 − yf)
        first, last = self._points(rows, aligned, 0.0), self._points(rows, answering, most)
        columns, now = [first, last], first
        for step in STEPS:
            if step * unit < most and max(point.drift for point in now) > -max(grid):
                now = self._follow(now, step * unit, zip(now, last, strict=True))
                columns.append(now)
        now = first
        for step in STEPS:
            if min(point.drift for point in now) < -min(grid):
                now = self._follow(now, -step * unit, zip(now, strict=True))
                columns.append(now)
        return [sorted(path, key=attrgetter("s")) for path in zip(*columns, strict=True)]

    def _follow(self, points: Sequence[Point], s: float, starts: Iterable[Iterable[Point]]) -> list[Point]:
        """The points for another s, searched from those given."""
        rows = torch.stack([point.rows for point in points])
        begin = torch.stack([torch.stack([start.y for start in some]) for some in starts])
        scope = replace(self.scope, search=self._effort)
        probe = FunctionalProbe(self.of, (1.0, s), known=False)
        return self._points(rows, descend(probe, rows, scope, starts=begin).y, s)

    def _refine(self, paths: list[Path], g: float) -> None:
        """More values of s where drift = −g, at the set of rows that promises most there."""
        for _ in range(REFINE):
            pairs = [(path, *pair) for path in paths for pair in _brackets(path, -g)]
            if not pairs:
                return
            path, a, b = min(pairs, key=lambda pair: _between(pair[1], pair[2], -g).answer)
            path += self._follow([a], _between(a, b, -g).s, [[a, b]])
            path.sort(key=attrgetter("s"))

    def _crossings(self, path: Path, g: float) -> list[Point]:
        """Points between those of the path where the drift is −g."""
        return [
            self._root(a, b, lambda point: point.drift + INSIDE**2 * g) for a, b in _brackets(path, -(INSIDE**2) * g)
        ]

    def _exact(self, path: Path, beyond: Sequence[Point], g: float) -> list[Point]:
        """The answer −1 itself, where points within the limit lie beyond it."""
        straight = [self._root(self._unchanged(end.rows), end, lambda point: point.answer + 1) for end in beyond]
        if not beyond or _feasible(straight, g):
            return straight
        # On the straight way from the text the drift gets too large: at each share of the way, step sideways along the
        # path to where the drift is that share of −g.
        stops = [(share, side[0]) for share in SHARES if (side := self._sideways(path, share, g))]
        for (far, end), (near, start) in pairwise(stops):
            if end.answer < -1 <= start.answer:

                def excess(share: float) -> float:
                    return ((self._sideways(path, share, g) or beyond)[0]).answer + 1

                share = brentq(excess, near, far, xtol=1e-15, rtol=1e-14)
                return [*straight, *self._sideways(path, share, g)]
        return straight

    def _sideways(self, path: Path, share: float, g: float) -> list[Point]:
        """At a share of the way from the text to the path, the lowest answer with the drift −share·g."""
        x = self.of.probe.X[path[0].rows]
        y = torch.stack([x + share * (point.y - x) for point in path])
        shrunk = self._points(path[0].rows.expand(len(path), -1), y, 0.0)
        return sorted(self._crossings(shrunk, share * g), key=lambda point: point.answer)

    def _root(self, a: Point, b: Point, f: Callable[[Point], float]) -> Point:
        """Where f changes its sign between two changes of the same rows."""

        def at(share: float) -> Point:
            (point,) = self._points(a.rows[None], (a.y + share * (b.y - a.y))[None], a.s)
            return point

        if f(at(0.0)) * f(at(1.0)) >= 0:  # one of them is the root, but for rounding
            return min(a, b, key=lambda point: abs(f(point)))
        share = brentq(lambda share: f(at(share)), 0.0, 1.0, xtol=1e-15, rtol=1e-14)
        root, sides = at(share), [at(max(0.0, share - ASIDE)), at(min(1.0, share + ASIDE))]
        # Where f jumps over 0, as it may where a ReLU row comes to attend to nothing, rounding decides on which side
        # the point is: keep away from the jump.
        jumps = abs(f(sides[1]) - f(sides[0])) > JUMP
        return min(sides, key=lambda point: abs(f(point))) if jumps else root

    def _unchanged(self, rows: Int[Tensor, " m"]) -> Point:
        return Point(rows, self.of.probe.X[rows], 0.0, 1.0, 0.0)

    def _points(self, rows: Int[Tensor, "p m"], y: Float[Tensor, "p m d"], s: float) -> list[Point]:
        with torch.no_grad():
            h = self.of(y, rows)
        drift = h[:, 1] - self.clean[1]
        answer = 1 + drift + self.residual * (h[:, 0] - self.clean[0])
        return [Point(*point, s) for point in zip(rows, y, drift.tolist(), answer.tolist(), strict=True)]


def _best(points: Sequence[Point], g: float) -> Point:
    """The least error within the limit; among errors that are 0, the least drift."""
    return min(_feasible(points, g), key=lambda point: (max(point.err, ZERO), abs(point.drift)))


def _feasible(points: Sequence[Point], g: float) -> list[Point]:
    return [point for point in points if abs(point.drift) <= INSIDE * g]


def _brackets(path: Path, drift: float) -> list[tuple[Point, Point]]:
    """Neighbours on the path with that drift between them."""
    return [(a, b) for a, b in pairwise(path) if (a.drift - drift) * (b.drift - drift) < 0]


def _between(a: Point, b: Point, drift: float) -> Point:
    """What a straight line between two points says about the point of that drift."""
    share = (drift - a.drift) / (b.drift - a.drift)
    line = [u + share * (v - u) for u, v in ((a.answer, b.answer), (a.s, b.s))]
    return Point(a.rows, a.y, drift, *line)
