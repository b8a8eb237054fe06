"""What every search has in common: what it is given, what it gives, and how it ended.

A search climbs the squared change of a Probe within a Constraint. What it finds is attained, hence a lower bound on the
sup. Which search suits a map is registered by the type of its Probe (`Search.default_for`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import asdict, dataclass, is_dataclass
from enum import Enum
from functools import singledispatch
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from oneword.checks import whole_number
from oneword.errors import NonFiniteError, RangeError
from oneword.maps.base import Probe, Slope
from oneword.progress import Progress, silent
from oneword.sets.constraints import Constraint

Rows = Int[Tensor, "p m"]  # p sets of m rows; the rows of a set change together
Batch = Float[Tensor, "p s m d"]  # s candidates for each set: new rows for all of its rows

STAGE = "search"  # what progress is reported as
MEMORY = 1 << 30  # bytes that a batch may take, unless a search says otherwise


class Status(Enum):
    """The value of each member is its remedy."""

    CONVERGED = (
        "the best candidate stopped improving, and a second start ended within 0.1 % of it; more starts could still "
        "find another maximum"
    )
    UNCONFIRMED = (
        "the best candidate stopped improving, but no second start came within 0.1 % of it, so another maximum may be "
        "higher: raise Ascent(random=…, keep=…)"
    )
    STEP_LIMIT = "still improving when the steps ran out: raise Ascent(polish=…)"
    QUICK = "one start a position and no polish: leave out search= for the full recipe"
    UNPOLISHED = "climbed from every start and not polished: raise Ascent(polish=…)"
    ZERO_GRADIENT = (
        "the gradient was zero at every candidate, so the search could not climb and the value is the best of its "
        "starts: try a finite set of words (Vectors, Vocabulary), or a map with slopes"
    )
    ROUNDING = (
        "no change was found that rounding alone could not explain, so the value is 0: raise the radius or use float64"
    )
    EXACT = "every candidate of the finite set was tried"

    @property
    def remedy(self) -> str:
        return self.value

    def __str__(self) -> str:
        return self.name.lower().replace("_", " ")


@dataclass(frozen=True, eq=False)
class Found:
    """What a search found for each of p sets of rows.

    | field | meaning |
    |---|---|
    | `change2` | the largest squared change ‖φ(X^i) − φ(X)‖², not divided by ‖φ(X)‖ |
    | `y` | the new rows that attain it |
    | `baseline2` | squared changes by random allowed rows, for comparison; (p, 0) for none |
    | `status` | how the search ended: CONVERGED only where a second start ended at the same value |
    | `search` | the search that was run |
    """

    change2: Float[Tensor, " p"]
    y: Float[Tensor, "p m d"]
    baseline2: Float[Tensor, "p r"]
    status: Status
    search: Search

    def __post_init__(self) -> None:
        if not bool(torch.isfinite(self.change2).all()):
            raise NonFiniteError("expected finite features of changed texts, got NaN or infinity: use a smaller Ball")


DefaultSearchMaker = Callable[[Any, bool, int], "Search"]  # from a Probe, whether to be quick, and bytes for a batch


class Search(ABC):
    """A way to look for the largest change. Subclass it and give `run`; make it a frozen dataclass of its settings."""

    memory: int = MEMORY  # bytes that a batch may take
    tested: ClassVar[bool] = (
        False  # what other searches than ours find is evaluated once more, and refused if it differs
    )

    @abstractmethod
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
        """The largest change found for each set of rows.

        | argument | meaning |
        |---|---|
        | `probe` | the map at one text |
        | `rows` | sets of rows that change together, one a line |
        | `within` | which new rows are allowed |
        | `starts` | new rows to begin from, beside those that the search knows itself; it may ignore them |
        | `baseline` | random changes of each set that are evaluated for comparison; it may evaluate none |
        | `seed` | of everything random |
        | `progress` | called with the stage and the fraction done |
        """

    def settle(self, probe: Probe, rows: Rows, within: Constraint, starts: Batch) -> Found:
        """A short search from these starts, while words that change together are chosen one by one."""
        return self.run(probe, rows, within, starts=starts)

    def work(self, probe: Probe, sets: int) -> float:
        """How much `run` has to do for so many sets of rows, in passes with a gradient; roughly, for progress."""
        return float(sets)

    def describe(self) -> dict[str, Any]:
        """Its settings, for provenance."""
        return asdict(self) if is_dataclass(self) else {"search": type(self).__name__}

    @staticmethod
    def default_for(kind: type[Any]) -> Callable[[DefaultSearchMaker], DefaultSearchMaker]:
        """A decorator for a function (probe, quick, memory) → Search: the search that suits Probes of this type.

        `quick` asks for one that takes a fraction of the time; `memory` is how many bytes a batch may take.
        """
        return default_search.register(kind)


def check_settings(search: Search, least: dict[str, int]) -> None:
    """Raise RangeError unless each of these settings is as large as it has to be."""
    for name, bound in least.items():
        if whole_number(name, getattr(search, name)) < bound:
            raise RangeError(f"expected {type(search).__name__}({name}=…) ≥ {bound}, got {getattr(search, name)}")


@singledispatch
def default_search(probe: Probe, quick: bool, memory: int) -> Search:
    """The search that suits this Probe; `quick`: one that takes a fraction of the time."""
    raise NotImplementedError(f"no search for {type(probe).__name__}")  # `defaults` registers one for every Probe


class Gradients:
    """Takes the gradients of one search, and remembers whether one of them was not zero.

    A map of steps (sign, round) has a gradient of zero wherever one looks, so that there is nothing to climb.
    """

    def __init__(self) -> None:
        self.seen = False

    def at(self, probe: Probe, y: Tensor, i: Tensor) -> tuple[Float[Tensor, " b"], Tensor]:
        """`probe.value_and_gradient`."""
        return self.watched(probe.value_and_gradient(y, i))

    def slope_at(self, probe: Probe, i: Tensor) -> Slope:
        """`probe.slope_at`."""
        slope = probe.slope_at(i)
        return lambda y: self.watched(slope(y))

    def watched(self, found: tuple[Float[Tensor, " b"], Tensor]) -> tuple[Float[Tensor, " b"], Tensor]:
        """Values and gradients as they are."""
        self.seen = self.seen or bool(found[1].any())
        return found
