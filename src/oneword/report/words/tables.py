"""The words of a survey as a person reads them: means over seeds, and texts cut into words and what is between them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

Line = Mapping[str, Any]  # of a table, by the names of its columns

WORD = ["text", "window", "position"]
MEANS = ["S_ball", "upper", "radius", "random_ball", "S_word", "random_word", "random_distance"]
MEASURED = [*MEANS, "S_ball_spread", "S_word_spread", "distance", "value"]
SHADES = ("S_word", "S_ball")  # what may colour a sentence, what is preferred first


def over_seeds(words: pd.DataFrame) -> pd.DataFrame:
    """One line a text, word and map: means over seeds, `…_spread` their standard deviation (NaN for one seed).

    `replacement` and `distance` are those of the seed with the largest S_word.
    """
    groups = words.groupby([*WORD, "map"], sort=False, dropna=False)
    out = groups[MEANS].mean()
    for name in ("S_ball", "S_word"):
        out[f"{name}_spread"] = groups[name].std(ddof=1)
    best = words.sort_values("S_word", ascending=False, kind="stable", na_position="last")
    first = best.drop_duplicates([*WORD, "map"]).set_index([*WORD, "map"])
    kept = ["index", "word", "start", "end", "tokens", "n", "replacement", "distance", "kind", "candidates"]
    out = out.join(first[kept])
    return out.reset_index()


def best_replacements(replacements: pd.DataFrame, top: int) -> dict[tuple[int, int, int, str], list[dict[str, Any]]]:
    """For each (text, window, position, map) the best real words over all seeds, best first, each once."""
    ordered = replacements.sort_values("value", ascending=False, kind="stable")
    ordered = ordered.drop_duplicates([*WORD, "map", "replacement"])
    found: dict[tuple[int, int, int, str], list[dict[str, Any]]] = {}
    for line in records(ordered):
        mine = found.setdefault((line["text"], line["window"], line["position"], line["map"]), [])
        if len(mine) < top:
            mine.append({name: line[name] for name in ("replacement", "value", "distance")})
    return found


def by_word(lines: pd.DataFrame) -> list[dict[str, Line]]:
    """For each word, in the order of the text, its lines by map."""
    found: dict[tuple[int, ...], dict[str, Line]] = {}
    for line in records(lines.sort_values(WORD, kind="stable")):
        found.setdefault(tuple(int(line[name]) for name in WORD), {})[str(line["map"])] = line
    return list(found.values())


def records(lines: pd.DataFrame) -> list[Line]:
    """The lines as plain values; what is missing is None, but for a measured number, which is NaN."""
    plain = lines.copy()
    for name in plain.columns.difference(MEASURED):
        plain[name] = plain[name].astype(object).where(plain[name].notna(), None)
    return [{str(name): value for name, value in line.items()} for line in plain.to_dict("records")]


def maps_of(lines: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(lines["map"]))


def shade_of(lines: pd.DataFrame) -> str:
    """What colours the sentence: S_word where there is one."""
    return next((name for name in SHADES if lines[name].notna().any()), "S_ball")


@dataclass(frozen=True)
class Piece:
    """A word of a text with its lines of the table (by map), or what stands between words (no lines)."""

    shown: str
    lines: Mapping[str, Line]


def pieces(text: str, lines: pd.DataFrame) -> Iterator[Piece]:
    """The text from beginning to end: words that were measured, and everything between them.

    Words without a place in the text, tokens and special ones, are shown one after the other.
    """
    at, placed = 0, bool(lines["start"].notna().any())
    for by_map in by_word(lines):
        first = next(iter(by_map.values()))
        if first["start"] is None:
            yield Piece(str(first["word"]), by_map)
            yield Piece(" ", {})
            continue
        start, end = int(first["start"]), int(first["end"])
        if start > at:
            yield Piece(text[at:start], {})
        yield Piece(text[start:end], by_map)
        at = end
    if placed and at < len(text):
        yield Piece(text[at:], {})


def strengths(lines: pd.DataFrame, column: str) -> dict[str, tuple[float, float]]:
    """For each map the least and the largest value of the column: the ends of its scale of colours."""
    ends = lines.groupby("map", sort=False)[column].agg(["min", "max"])
    return {str(name): (float(low), float(high)) for name, low, high in ends.itertuples()}


def strength(value: float, ends: tuple[float, float]) -> float:
    """Where a value lies between the ends, from 0 to 1; NaN stays NaN."""
    low, high = ends
    if math.isnan(value):
        return math.nan
    return (value - low) / (high - low) if high > low else 1.0


def summary(texts: Sequence[str], lines: pd.DataFrame) -> list[dict[str, Any]]:
    """One line a text and map: its most sensitive word, over the ball and among real words."""
    out = []
    for (number, name), some in lines.groupby(["text", "map"], sort=False):
        ball, word = largest(some, "S_ball"), largest(some, "S_word")
        out.append(
            {
                "text": int(str(number)),
                "shown": shortened(texts[int(str(number))]),
                "map": name,
                "words": len(some),
                "S_ball": math.nan if ball is None else ball["S_ball"],
                "upper": some["upper"].max(skipna=False),
                "ball_word": "–" if ball is None else ball["word"],
                "S_word": math.nan if word is None else word["S_word"],
                "kind": None if word is None else word["kind"],
                "word": None if word is None else word["word"],
                "replacement": None if word is None else word["replacement"],
                "random_word": some["random_word"].mean(),
            }
        )
    return out


def largest(lines: pd.DataFrame, column: str) -> Line | None:
    """The line with the largest value; None where there is no value."""
    known = lines[lines[column].notna()].sort_values(column, ascending=False, kind="stable")
    return next(iter(records(known.head(1))), None)


def meanings(about: Mapping[str, Any], lines: pd.DataFrame) -> list[str]:
    """What the numbers are, in plain words."""
    encoder = about["encoder"]
    seeds = about["seeds"]
    weights = f"mean ± standard deviation over {len(seeds)} seeds of the weights" if len(seeds) > 1 else "one seed"
    out = [
        f"encoder: layer {encoder['layer']} of {encoder['encoder']}, d = {about['d']}; random weights: {weights} "
        f"({', '.join(map(str, seeds))})",
        f"S_ball: sup over {about['within']['shown']}, ≥ searched (a lower bound), ≤ certified; its maximiser is a "
        "vector, not a word",
    ]
    if lines["S_word"].notna().any():
        kinds, far = set(lines["kind"].dropna()), lines["random_distance"].mean()
        pairs = ", ".join(f"{name} {count:,}" for name, count in (about.get("tried") or {}).get("pairs", {}).items())
        tried = f"of the (position, word) pairs tried ({pairs})" if pairs else "of those tried"
        bound = {
            "exact": "exact over them",
            "lower bound": "a lower bound (≥), since only some of those that fit were tried",
            "both": "exact over them, or a lower bound (≥) where only some of those that fit were tried",
        }["both" if len(kinds) > 1 else next(iter(kinds))]
        out.append(
            f"S_word: the best real word {tried}, from {about['words']['shown']}; {bound}; random: the mean real word, "
            f"at ‖Δ‖ = {far:.2f} √d"
        )
    special = ", ".join(about["special tokens"])
    if special:
        what = "may change, too" if about["special tokens change"] else "are in the text, but only its own words change"
        out.append(f"special tokens ({special}) {what}")
    return out


def shortened(text: str, most: int = 48) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
