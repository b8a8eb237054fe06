"""Branch and bound for normalised attention: the certificate that counts (docs/certificates.md has the proof).

For one position, Δ = s v̂ + a k̂ + Δ' is split along two directions: k̂, in which the keys of all rows agree, and v̂,
which leads away from where their outputs are. A cell of the (s, a) plane gets an upper bound that holds for every Δ in
it, for any multipliers; the cell with the largest bound is tuned, then split. The ladder brings all positions down to
one ratio of upper to value before any of them goes on to the next, so that a ratio out of reach starves nobody.
"""

from __future__ import annotations

import heapq
import math
import time
from dataclasses import dataclass
from enum import Enum
from itertools import count

from jaxtyping import Float
from torch import Tensor

from oneword.bounds.layout import Array, Cell
from oneword.bounds.position import Keys, Multipliers, Position
from oneword.maps.attention_probe import AttentionProbe
from oneword.progress import Progress, silent

# upper/value that all positions reach before the next is tried. A target only says where this sequence stops.
RUNGS = (3.0, 2.0, 1.6, 1.4, 1.3, 1.25, 1.2, 1.15, 1.12, 1.1, 1.08, 1.06, 1.05, 1.04, 1.03, 1.02, 1.01, 1.0)
MOST_CELLS = 400  # a position: where so many do not reach a rung, more rarely do
# Evaluations and first step to tune a cell from nothing, and from its parent's multipliers: close to these, and every
# other time further away.
_FROM_NOTHING, _CLOSE, _WIDE = (40, 1.0), (20, 0.1), (20, 0.4)


class Tuning(Enum):
    """Where the multipliers of a cell come from."""

    NONE = 0
    PARENT = 1
    OWN = 2


@dataclass(frozen=True)
class Leaf:
    """A cell with the multipliers that bounded it; these are the first ones, its parent's, or tuned for it."""

    cell: Cell
    multipliers: Multipliers
    tuning: Tuning


class Tree:
    """The open cells of one position, worst first."""

    def __init__(self, position: Position, leaves: list[Leaf], ceiling: float) -> None:
        self.position = position
        self.ceiling = ceiling  # a bound known from elsewhere
        self._ids = count()
        self._heap: list[tuple[float, int, Leaf]] = []
        for leaf in leaves:
            self._push(leaf, math.inf)
        self.cells = len(self._heap)

    @classmethod
    def rooted(cls, position: Position, ceiling: float) -> Tree:
        """One cell for every Δ."""
        return cls(position, [Leaf(position.whole, position.first_multipliers, Tuning.NONE)], ceiling)

    def handed(self, position: Position, ceiling: float) -> Tree:
        """The same cells and multipliers for another position, whose ball may have another radius."""
        if self.position.on_a_line and not position.on_a_line:  # the cells left are those around s = 0
            return Tree.rooted(position, ceiling)
        scale, i = position.r / self.position.r, self.position.i
        leaves = [
            Leaf(_scaled(leaf.cell, scale), leaf.multipliers.handed(i, position.i), leaf.tuning) for leaf in self.leaves
        ]
        return Tree(position, leaves, ceiling)

    @property
    def upper(self) -> float:
        return min(self.ceiling, -self._heap[0][0]) if self._heap else 0.0

    @property
    def leaves(self) -> list[Leaf]:
        return [leaf for _, _, leaf in self._heap]

    def _push(self, leaf: Leaf, parent: float, value: float | None = None) -> None:
        value = self.position.value(leaf.cell, leaf.multipliers) if value is None else value
        if not value < 0:  # NaN, where squares overflow, is no bound: the parent's stands
            value = parent if math.isnan(value) else min(value, parent)
            heapq.heappush(self._heap, (-value, next(self._ids), leaf))

    def refine(self) -> None:
        """Tune the worst cell, or split it if it was tuned as it is."""
        negative, _, leaf = heapq.heappop(self._heap)
        if leaf.tuning is not Tuning.OWN:
            again = _CLOSE if self.cells % 2 else _WIDE
            evaluations, step = again if leaf.tuning is Tuning.PARENT else _FROM_NOTHING
            value, multipliers = self.position.tune(leaf.cell, leaf.multipliers, evaluations, step)
            self._push(Leaf(leaf.cell, multipliers, Tuning.OWN), -negative, value)
            return
        s, a, hs, ha = leaf.cell
        if hs >= ha:
            halves: tuple[Cell, Cell] = ((s - hs / 2, a, hs / 2, ha), (s + hs / 2, a, hs / 2, ha))
        else:
            halves = ((s, a - ha / 2, hs, ha / 2), (s, a + ha / 2, hs, ha / 2))
        for half in halves:
            self._push(Leaf(half, leaf.multipliers, Tuning.PARENT), -negative)
        self.cells += 1


@dataclass(frozen=True, eq=False)
class Spots:
    """The positions to be bounded, and what is known of each: the new word lies within `r` of `centre`.

    `upper2` bounds the squared change already, `own2` that of row i alone; a search attained `value2`.
    """

    rows: list[int]
    centre: Float[Tensor, "p d"]
    r: Array
    upper2: Array
    own2: Array
    value2: Array


class Stop(Enum):
    """Why a ladder ended above its target."""

    WORK = "its budget of work is spent"
    TIME = "its seconds are over"
    CELLS = "more cells would not help"


class Ladder:
    """All positions of one text, refined rung by rung within a budget of work (rows bounded) and of seconds."""

    def __init__(self, probe: AttentionProbe, spots: Spots, work: float, seconds: float | None = None) -> None:
        self.keys, self.spots = Keys(probe), spots
        self.upper2 = spots.upper2.copy()
        self.largest2 = float(spots.value2.max())
        self.order = sorted(range(len(spots.rows)), key=lambda a: -spots.value2[a])
        self.trees: dict[int, Tree] = {}
        self.budget = work
        self.deadline: float | None = None
        if seconds is not None:
            self._compile()
            self.deadline = time.monotonic() + seconds

    def climb(self, target2: float, progress: Progress = silent) -> Stop | None:
        """Lower `upper2` until all of it is below target2; what ended it before, if anything did.

        The found values only decide the rungs and which position is taken first.
        """
        stopped: Stop | None = None
        for rung in RUNGS:
            goal2 = rung**2 * self.largest2
            for a in self.order:
                if float(self.upper2.max()) <= target2:
                    return None
                if self.upper2[a] > goal2:
                    stopped = self._lower(a, goal2) or stopped
                if stopped in (Stop.WORK, Stop.TIME):
                    return stopped
                progress("certificate", min(1.0, self.spent / self.budget))
            if stopped:  # a position that does not reach this rung reaches no lower one
                break
        return None if float(self.upper2.max()) <= target2 else stopped

    def _compile(self) -> None:
        """Compile the kernels, which takes seconds the first time, before the clock starts."""
        position = self._tree(self.order[0]).position
        position.tune(position.whole, position.first_multipliers, 1, 1.0)

    @property
    def spent(self) -> int:
        return sum(tree.position.work for tree in self.trees.values())

    def _lower(self, a: int, goal2: float) -> Stop | None:
        """Refine one position down to the goal; what stopped it, if anything did."""
        if a not in self.trees:
            self.trees[a] = self._tree(a)
        tree = self.trees[a]
        elsewhere = self.spent - tree.position.work
        stop: Stop | None = None
        while tree.upper > goal2 and stop is None:
            if elsewhere + tree.position.work >= self.budget:
                stop = Stop.WORK
            elif self.deadline is not None and time.monotonic() >= self.deadline:
                stop = Stop.TIME
            elif tree.cells >= MOST_CELLS:
                stop = Stop.CELLS
            else:
                tree.refine()
        self.upper2[a] = tree.upper
        return stop

    def _tree(self, a: int) -> Tree:
        """Positions resemble each other, so the leaves of the first one that was opened seed the rest."""
        spots, ceiling = self.spots, float(self.upper2[a])
        position = Position(self.keys, spots.rows[a], spots.centre[a], float(spots.r[a]), float(spots.own2[a]))
        first = next(iter(self.trees.values()), None)
        return Tree.rooted(position, ceiling) if first is None else first.handed(position, ceiling)


def _scaled(cell: Cell, factor: float) -> Cell:
    s, a, hs, ha = cell
    return s * factor, a * factor, hs * factor, ha * factor
