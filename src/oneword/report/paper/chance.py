"""How many answers may be wrong by chance, where many claims are judged at once."""

from __future__ import annotations

from collections.abc import Iterable

ONE_SIDED = 0.025  # how often a 95 % interval misses on a given side


def by_chance(intervals: Iterable[int]) -> str:
    """The sentence for claims whose answers rest on so many intervals each; 0 for those that rest on none.

    An answer is wrong only if one of its intervals lies wholly on the wrong side of a limit: the sum over all intervals
    bounds the expected number of wrong answers, however the intervals depend on each other.
    """
    each = list(intervals)
    judged, total = sum(count > 0 for count in each), sum(each)
    if not judged:
        return "No answer rests on an interval."
    return (
        f"{judged} of {len(each)} answers rest on 95 % intervals, {total} in all. Each interval misses on a given side "
        f"in at most {100 * ONE_SIDED:g} % of runs, so at most {ONE_SIDED * total:.2g} of these answers are expected "
        "to be wrong by chance."
    )
