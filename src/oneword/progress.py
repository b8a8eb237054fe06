"""Progress callbacks: one type for all of them."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, float], None]  # called with the name of the stage and the fraction of it that is done


def silent(stage: str, done: float) -> None:
    """Ignore progress."""


def part(progress: Progress, first: float, last: float, stage: str | None = None) -> Progress:
    """A callback for a piece of work that takes the fractions `first` … `last` of the whole.

    The stage that the piece reports is passed on, unless `stage` names it.
    """
    return lambda name, done: progress(name if stage is None else stage, first + (last - first) * done)
