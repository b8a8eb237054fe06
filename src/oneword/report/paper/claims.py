"""The claims of a verdict for people: in a terminal, and how many answers chance may have turned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from oneword.report.table import SIGNS, shown, visible
from oneword.statistics import ONE_SIDED, expected_misses


def claims_table(claims: Sequence[Mapping[str, Any]]) -> RenderableType:
    """The claims for a terminal: numbers, then the sentence; last, how many answers chance may have turned.

    A claim is what verdict.json holds of it (`Claim.to_json`).
    """
    widths = [max(map(len, column)) for column in zip(*map(_cells, claims), strict=True)] if claims else []
    lines: list[RenderableType] = []
    for claim in claims:
        style = {True: "green", False: "bold red", None: "yellow"}[claim["holds"]]
        name, predicted, measured, interval = (
            cell.ljust(width) if k < 2 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(_cells(claim), widths, strict=True))
        )
        line = Text(SIGNS[claim["holds"]], style=style).append(f"  {name}  ", style="bold")
        lines.append(line.append(f"{predicted}  {measured}  {interval}", style="default"))
        missing = f" ({claim['note']})" if claim["measured"] is None else ""
        lines.append(Padding(Text(visible(claim["claim"] + missing), style="dim"), (0, 0, 0, 3)))
    return Group(*lines, Text(), Text(by_chance(claim["intervals"] for claim in claims)))


def _cells(claim: Mapping[str, Any]) -> tuple[str, str, str, str]:
    interval = "" if claim["low"] is None else f"[{shown(claim['low'])}, {shown(claim['high'])}]"
    return visible(claim["id"]), visible(claim["predicted"]), shown(claim["measured"]), interval


def by_chance(intervals: Iterable[int]) -> str:
    """How many answers may be wrong by chance, for claims that rest on so many intervals each (0: on none).

    An answer is wrong only if one of its intervals lies wholly on the wrong side of a limit.
    """
    each = list(intervals)
    judged, total = sum(count > 0 for count in each), sum(each)
    if not judged:
        return "No answer rests on an interval."
    return (
        f"{judged} of {len(each)} answers rest on 95 % intervals, {total} in all. Each interval misses on a given side "
        f"in at most {100 * ONE_SIDED:g} % of runs, so at most {expected_misses(total):.2g} of these answers are "
        "expected to be wrong by chance."
    )
