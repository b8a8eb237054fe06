"""Progress callbacks: one type for all of them; and the time left, as it follows from them."""

from __future__ import annotations

import time
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


class TimeLeft:
    """The seconds that work will take from now on, judged by the fraction that is done.

    What is said never grows as long as the work goes as planned: an estimate that is a little later than the one before
    is noise, and is not followed. One that is later by more than `SLACK` and `SECONDS` is.
    """

    SLACK = 0.3  # of the time left, and seconds besides
    SECONDS = 2.0
    ENOUGH = 0.05  # of what was to be done, below which its speed says little: first answers have a pace of their own

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first: tuple[float, float] | None = None  # when, and what was done before
        self._end: float | None = None

    def update(self, done: float) -> None:
        """The work reports that this fraction of it is done."""
        now = self._clock()
        if self._first is None:
            self._first = now, done
        began, before = self._first
        if done - before < self.ENOUGH * (1 - before) or done <= before:
            return
        end = now + (now - began) * (1 - done) / (done - before)
        if self._end is None or end < self._end or end - now > (1 + self.SLACK) * (self.seconds or 0) + self.SECONDS:
            self._end = end

    @property
    def seconds(self) -> float | None:
        """None while too little is done to say."""
        return None if self._end is None else max(0.0, self._end - self._clock())


def duration(seconds: float) -> str:
    """Seconds as a person says them: 40 s, 3 min, 2 h 10 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
