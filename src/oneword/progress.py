"""Progress callbacks: one type for all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

Progress = Callable[[str, float], None]  # called with the name of the stage and the fraction of it that is done


def silent(stage: str, done: float) -> None:
    """Ignore progress."""


def part(progress: Progress, first: float, last: float, stage: str | None = None) -> Progress:
    """A callback for a piece of work that takes the fractions `first` … `last` of the whole.

    The stage that the piece reports is passed on, unless `stage` names it.
    """
    return lambda name, done: progress(name if stage is None else stage, first + (last - first) * done)


def shares(progress: Progress, weights: Sequence[float]) -> list[Progress]:
    """One callback for each of several pieces of work, which take parts of the whole as large as their weights."""
    total, ends = sum(weights) or 1.0, [0.0]
    for weight in weights:
        ends.append(ends[-1] + weight)
    return [part(progress, first / total, last / total) for first, last in pairwise(ends)]
