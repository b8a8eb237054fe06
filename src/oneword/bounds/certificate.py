"""The one entry to certificates: the bound that is registered for the type of the Probe, or why there is none.

A bound is a function of (probe, rows, within, request) that returns a Certificate; `Certificate.register(ProbeType)`
makes it known, inside this package or outside.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from oneword.checks import number
from oneword.errors import RangeError, ShapeError
from oneword.maps.base import Probe
from oneword.progress import Progress, silent
from oneword.sets.constraints import Constraint

STAGE = "certificate"  # what progress is reported as


@dataclass(frozen=True)
class Certify:
    """How hard to work on the upper bound: until upper/value ≤ target, or the budget is spent.

    `work` is the budget of branch and bound in millions of row bounds (10 take a few seconds). It is counted, so that
    the same call gives the same bits, and a stricter target never gives a larger bound. `seconds`, where given, stops
    it earlier, and the result says so. Closed forms are always computed in full.
    """

    target: float = 1.2
    work: float = 30.0
    seconds: float | None = None

    def __post_init__(self) -> None:
        target, work = number("target", self.target), number("work", self.work)
        seconds = 0.0 if self.seconds is None else number("seconds", self.seconds)
        if not (target >= 1 and work >= 0 and seconds >= 0):
            raise RangeError(
                "expected Certify(target ≥ 1, work ≥ 0, seconds ≥ 0 or None), all finite, "
                f"got target = {self.target}, work = {self.work}, seconds = {self.seconds}"
            )

    @classmethod
    def plain(cls) -> Certify:
        """The closed-form bound alone, at once."""
        return cls(target=1.0, work=0.0)


@dataclass(frozen=True, eq=False)
class Request:
    """What a bound may need to know beside the set of changes.

    | field | meaning |
    |---|---|
    | `found` | the changes ‖φ(X^i) − φ(X)‖ that a search attained, one a set of rows |
    | `effort` | how hard to work |
    | `any_rows` | a search picked the sets, so the bound must cover every set of up to this many rows; else None |
    | `progress` | called with the stage and the fraction done |
    """

    found: Float[Tensor, " p"]
    effort: Certify
    any_rows: int | None = None
    progress: Progress = silent


Bound = Callable[[Any, Int[Tensor, "p m"], Constraint, Request], "Certificate"]


@dataclass(frozen=True, eq=False)
class Certificate:
    """Upper bounds on ‖φ(X^i(Δ)) − φ(X)‖, one a set of rows; `how` names the bound, or says why there is none.

    `kind` says what they cover: "certificate" the allowed changes, "ceiling" changes of any size; "none".
    """

    upper: Float[Tensor, " p"] | None
    how: str
    kind: str = "certificate"

    def __post_init__(self) -> None:
        if self.upper is None:
            object.__setattr__(self, "kind", "none")

    def check(self, attained: Float[Tensor, " p"], dtype: torch.dtype) -> Certificate:
        """Itself; refused where it has another shape than what a search attained, or lies below it beyond rounding."""
        if self.upper is None:
            return self
        if self.upper.shape != attained.shape:
            got = f"{tuple(self.upper.shape)} from {self.how!r}"
            raise ShapeError(f"expected {len(attained)} bounds, one a set of rows, got {got}")
        beaten = attained > self.upper.to(attained) * (1 + torch.finfo(dtype).eps ** 0.5)
        if bool(beaten.any()):
            k = int(beaten.nonzero()[0])
            raise RangeError(
                f"expected upper bounds of at least what a search attained, got {float(self.upper[k]):.4g} from "
                f"{self.how!r} where {float(attained[k]):.4g} was attained: that certificate, or that search, is wrong"
            )
        return self

    @staticmethod
    def register(kind: type[Any]) -> Callable[[Bound], Bound]:
        """A decorator for a function (probe, rows, within, request) → Certificate: the bound for Probes of this type.

        | argument | meaning |
        |---|---|
        | `probe` | the map at one text |
        | `rows` | (p, m): p sets of m rows; the rows of a set change together |
        | `within` | the allowed new rows; `within.reach(x)` is the largest ‖y − x‖ |
        | `request` | `found`, `effort`, `any_rows` and `progress`: see `Request` |

        The bounds (p) are on ‖φ(X^i) − φ(X)‖: not squared, not divided by ‖φ(X)‖.
        """
        return _bound.register(kind)


@singledispatch
def _bound(probe: Probe, rows: Int[Tensor, "p m"], within: Constraint, request: Request) -> Certificate:
    return Certificate(None, "no certificate: none is known for this map")


def certificate(
    probe: Probe,
    rows: Int[Tensor, "p m"],
    within: Constraint,
    found: Float[Tensor, " p"],
    effort: Certify,
    *,
    any_rows: int | None = None,
    progress: Progress = silent,
) -> Certificate:
    """Certify every set of rows; the arguments are those of `Request`."""
    return _bound(probe, rows, within, Request(found, effort, any_rows, progress))
