"""The table of words as a person reads it: means over seeds, and texts cut into words and what is between them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from oneword.report.table import shown
from oneword.report.words.table import COLUMNS, SHADES, STAND_IN, WORD, Column, Part

Line = Mapping[str, Any]  # a row of a table, by the names of its columns

_BEST = [column.name for column in COLUMNS if column.of_best]
_MEANS = [column.name for column in COLUMNS if column.dtype == "float64" and not column.of_best]
SPREADS = ("value", "best_word")  # columns whose standard deviation over seeds is shown


def over_seeds(words: pd.DataFrame) -> pd.DataFrame:
    """One row a text, word and subject: means over seeds, `…_spread` their standard deviation (NaN for one seed).

    `replacement`, `distance` and what belongs to them are those of the seed with the largest `best_word`.
    """
    key = [*WORD, "by"]
    groups = words.groupby(key, sort=False, dropna=False)
    out = groups[_MEANS].mean()
    for name in SPREADS:
        out[f"{name}_spread"] = groups[name].std(ddof=1)
    best = words.sort_values("best_word", ascending=False, kind="stable", na_position="last")
    first = best.drop_duplicates(key).set_index(key)
    return out.join(first.drop(columns=[*_MEANS, "seed"])).reset_index()


def best_replacements(replacements: pd.DataFrame, top: int) -> dict[tuple[int, int, int, str], list[dict[str, Any]]]:
    """For each (text, window, position, subject) the best real words over all seeds, best first, each once."""
    ordered = replacements.sort_values("value", ascending=False, kind="stable")
    ordered = ordered.drop_duplicates([*WORD, "by", "replacement"])
    found: dict[tuple[int, int, int, str], list[dict[str, Any]]] = {}
    for line in records(ordered):
        mine = found.setdefault((line["text"], line["window"], line["position"], line["by"]), [])
        if len(mine) < top:
            mine.append({name: line[name] for name in ("replacement", "value", "distance")})
    return found


def records(lines: pd.DataFrame) -> list[Line]:
    """The rows as plain values; what is missing is None, but for a number, which is NaN."""
    plain = lines.copy()
    for name in plain.columns:
        if plain[name].dtype != "float64":
            plain[name] = plain[name].astype(object).where(plain[name].notna(), None)
    return [{str(name): value for name, value in line.items()} for line in plain.to_dict("records")]


def by_word(lines: pd.DataFrame) -> list[dict[str, Line]]:
    """For each word, in the order of the text, its rows by subject."""
    found: dict[tuple[int, ...], dict[str, Line]] = {}
    for line in records(lines):
        found.setdefault(_place(line), {})[str(line["by"])] = line
    return [found[place] for place in sorted(found)]


def _place(line: Line) -> tuple[int, ...]:
    """Where a word stands in its text, the same for all encoders; special tokens have places of their own."""
    if line["start"] is None:
        return (int(line["text"]), 1, int(line["window"]), int(line["position"]))
    return (int(line["text"]), 0, int(line["start"]), int(line["end"]))


@dataclass(frozen=True)
class Piece:
    """A word of a text with its row of the table, or what stands between words (None)."""

    shown: str
    line: Line | None


def pieces(part: Part) -> Iterator[Piece]:
    """The text from beginning to end: words that were measured, and everything between them.

    Words without a place in the text, tokens and special ones, are shown one after the other.
    """
    text, lines = part.content, part.placed
    at, placed = 0, bool(lines["start"].notna().any())
    for line in records(lines.sort_values(WORD, kind="stable")):
        if line["start"] is None:
            yield Piece(str(line["word"]), line)
            yield Piece(" ", None)
            continue
        start, end = int(line["start"]), int(line["end"])
        if start > at:
            yield Piece(text[at:start], None)
        yield Piece(text[start:end], line)
        at = end
    if placed and at < len(text):
        yield Piece(text[at:], None)


def scales(part: Part) -> dict[str, tuple[float, float]]:
    """The ends of the scales of colours, words below the noise left out; a column without a scale is not there.

    Searched values come all at once, of some words where a text is long; others colour once most words have them.
    """
    loud = part.placed[~part.placed["below_noise"].fillna(False).astype(bool)]
    known = [name for name in SHADES if loud[name].notna().mean() > (0 if name == "value" else 0.5)]
    known = [name for name in known if loud[name].max() > 0]  # in prompts every change may be one away
    known = known or [STAND_IN] * bool(loud[STAND_IN].notna().any())
    ends = {name: (max(0.0, float(loud[name].min())), float(loud[name].max())) for name in known}
    # Words that do nearly the same look nearly the same.
    return {name: (min(low, 0.9 * high), high) for name, (low, high) in ends.items()}


def shades(known: Mapping[str, tuple[float, float]]) -> list[tuple[int, str]]:
    """The numbers of the scales that are known, with their columns."""
    return [
        (k, name if name in known else STAND_IN)
        for k, name in enumerate(SHADES)
        if name in known or (name == "random_word" and STAND_IN in known)
    ]


def choices(parts: Sequence[Part]) -> list[tuple[int, str]]:
    """The numbers and names of the scales that one of the parts has, to choose from."""
    known = {name: (0.0, 0.0) for part in parts for name in scales(part)}
    return [(k, SHADES[list(SHADES)[k]]) for k, _ in shades(known)]


def strength(value: float, ends: tuple[float, float]) -> float:
    """Where a value lies between the ends, from 0 to 1; NaN stays NaN."""
    low, high = ends
    if math.isnan(value):
        return math.nan
    return max(0.0, (value - low) / (high - low)) if high > low else 1.0


def leading(lines: pd.DataFrame, column: str, most: int) -> list[Line]:
    """The rows with the largest values, largest first; rows without a value come last."""
    return records(lines.sort_values(column, ascending=False, kind="stable", na_position="last").head(most))


def top_line(part: Part, column: str = "value") -> Line | None:
    """The word of the text with the largest value; a special token only where nothing else has one."""
    known = part.words[part.words[column].notna()]
    own = known[known["start"].notna()]
    return next(iter(leading(known if own.empty else own, column, 1)), None)


def at_least(line: Line) -> str:
    """The sign before the value of the best word: unless every word was tried, there may be a better one."""
    return "" if line["kind"] == "exact" or math.isnan(line["best_word"]) else "≥ "


def shown_columns(part: Part) -> list[Column]:
    """The columns with a title that have a value for this subject."""
    return [column for column in COLUMNS if column.title and part.words[column.name].notna().any()]


@dataclass(frozen=True)
class Cell:
    """What stands in a cell of the numbers: a word, or a number with its sign and its spread over seeds."""

    shown: str = "–"
    words: bool = False
    faint: bool = False  # no larger than the noise
    spread: str = ""


def cell(column: Column, line: Line | None, part: Part) -> Cell:
    """The cell of a column in a line; a dash where there is no value."""
    value, words = None if line is None else line[column.name], column.dtype == "object"
    if line is None or value is None:
        return Cell(words=words)
    if words:
        return Cell(str(value), words)
    sign = at_least(line) if column.name == "best_word" else ""
    spread = line[f"{column.name}_spread"] if column.name in SPREADS else math.nan
    faint = bool(line["below_noise"]) or part.subject.quiet(value)
    return Cell(sign + shown(value, 2), words, faint, "" if math.isnan(spread) else f"± {spread:.2f}")
