"""A claim and what results say of it: holds, fails, or cannot be told. Judged by intervals, never by hand."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from oneword.errors import NonFiniteError
from oneword.experiments.rows import first_family, widest
from oneword.files import write_own
from oneword.statistics import Estimate, exponent, ratio

FORMAT = "oneword.verdict/1"


@dataclass(frozen=True)
class Claim:
    """One claim and what the results say: `holds` is None where they cannot tell; `note` says on what it rests."""

    id: str
    claim: str
    predicted: str
    measured: float | None
    low: float | None
    high: float | None
    holds: bool | None
    note: str = ""
    intervals: int = 0  # that the answer rests on; 0 where it is open, or rests on every row
    figure: str = ""  # the id of the figure that shows it

    def to_json(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


def failed(claims: Iterable[Claim]) -> list[Claim]:
    """The claims that do not hold; those that cannot be told are not among them."""
    return [claim for claim in claims if claim.holds is False]


def verdict_json(claims: Sequence[Claim]) -> dict[str, Any]:
    """All claims as plain values, with the name of the format."""
    return {"format": FORMAT, "claims": [claim.to_json() for claim in claims]}


def write_verdict(claims: Sequence[Claim], path: Path) -> Path:
    """Write all claims as JSON; the file appears whole or not at all."""
    text = json.dumps(verdict_json(claims), indent=1, ensure_ascii=False, allow_nan=False)
    write_own(path, text.encode() + b"\n")
    return path


@dataclass(frozen=True)
class Finding:
    """What a judge found, on what it rests, and `within` which limits: those are said in the claim itself."""

    estimate: Estimate
    holds: bool | None
    note: str
    intervals: int = 1  # that the answer rests on; 0 where every row counts
    within: str = ""


class CannotTell(Exception):
    """The rows a claim needs are missing or broken; the text says which."""


def judged(name: str, claim: str, predicted: str, figure: str, judge: Callable[..., Finding], *given: object) -> Claim:
    """The claim with what `judge` finds in what it is given: an estimate, an answer, and on what it rests."""
    try:
        found = judge(*given)
    except CannotTell as why:
        return Claim(name, claim, predicted, None, None, None, None, str(why), figure=figure)
    low, high = (x if math.isfinite(x) else None for x in (found.estimate.low, found.estimate.high))
    claim += f"; {found.within}" if found.within else ""
    intervals = 0 if found.holds is None else found.intervals
    return Claim(name, claim, predicted, found.estimate.value, low, high, found.holds, found.note, intervals, figure)


def need(rows: pd.DataFrame, what: str) -> pd.DataFrame:
    """The rows, if there are any."""
    if rows.empty:
        raise CannotTell(f"no {what}")
    return rows


def need_finite(rows: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """The rows, if nothing is broken: a claim that drops broken rows would judge what is left as if it were all."""
    for column in columns:
        bad = int((~np.isfinite(rows[column])).sum())
        if bad:
            raise CannotTell(f"{bad} of {len(rows)} rows have no finite {column}")
    return rows


def main_curve(rows: pd.DataFrame, what: str) -> pd.DataFrame:
    """The rows of one family of words (of reviews, where there are any) at the largest d."""
    need(rows, what)
    return need_finite(widest(rows[rows["words_from"] == first_family(rows)]), "value")


def each(rows: pd.DataFrame, column: str) -> dict[int, pd.DataFrame]:
    """The rows of each value of a column of whole numbers, in order."""
    return {int(value): rows[rows[column] == value] for value in sorted(rows[column].dropna().unique())}


def slope(rows: pd.DataFrame, column: str = "value", lengths: int = 2) -> Estimate:
    """The exponent of a column in n, over so many lengths at least."""
    there = rows["n"].nunique()
    if there < lengths:
        raise CannotTell(f"no rows of {'a second n' if lengths == 2 else f'{lengths} different n, only of {there}'}")
    try:
        return exponent(rows, y=column).estimate
    except NonFiniteError as error:
        raise CannotTell(str(error)) from None


def paired(above: pd.Series, below: pd.Series) -> Estimate:
    """The mean ratio of paired trials."""
    try:
        return ratio(above, below)
    except NonFiniteError as error:
        raise CannotTell(str(error)) from None


def about(rows: pd.DataFrame) -> str:
    """The sizes a claim rests on."""
    return f"n = {listed(rows['n'].unique())}, d = {listed(rows['d'].unique())}, {len(rows)} rows"


def few_positions(rows: pd.DataFrame) -> str:
    """What the claim is limited to where not all positions may change; nothing where they may."""
    few = {str(count).replace("one", "1") for count in rows["positions"].dropna()} - {"all"}
    if not few:
        return ""
    count = ", ".join(sorted(few))
    return f"at {'one random position' if count == '1' else f'{count} random positions'}, not over all of them"


def listed(numbers: Iterable[float]) -> str:
    return ", ".join(f"{number:g}" for number in sorted(numbers))
