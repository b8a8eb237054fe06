"""A survey as one HTML file: the coloured text, bars, a table, and how it was made. No script, no request."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from oneword.report.table import shown
from oneword.report.templating import facts, page_template, write_page
from oneword.report.words.chart import chart, size
from oneword.report.words.passages import LONG, TOP, parts_table
from oneword.report.words.tables import (
    SHADES,
    WORD,
    Line,
    Piece,
    best_replacements,
    by_word,
    largest,
    maps_of,
    meanings,
    over_seeds,
    pieces,
    shade_of,
    strength,
    strengths,
    summary,
)

MOST_WORDS = 6000  # coloured on the page, so that it opens at once; tables hold all
TEMPLATE = "words.html.j2"


def check_installed() -> None:
    """Raise MissingExtraError where `render` would: before the work, not after it."""
    page_template(TEMPLATE)


def render(
    texts: Sequence[str],
    words: pd.DataFrame,
    replacements: pd.DataFrame,
    about: Mapping[str, Any],
    notes: Sequence[str],
    path: Path,
    *,
    command: str = "",
    top: int = 1,
) -> Path:
    """Write the page of a survey, given as its tables."""
    lines = over_seeds(words)
    order = lines[WORD].drop_duplicates()
    kept = lines.merge(order.head(MOST_WORDS), on=WORD)
    best = best_replacements(replacements, top)
    several, long = len(texts) > 1, len(order) > LONG
    return write_page(
        TEMPLATE,
        path,
        cards=list(_cards(lines)),
        texts=[_text(texts[int(str(k))], int(str(k)), some, best, long) for k, some in kept.groupby("text")],
        summary=summary(texts, lines) if several else [],
        left_out=len(order) - min(len(order), MOST_WORDS),
        meanings=[*meanings(about, lines), *notes],
        command=command,
        facts=[("", list(facts(about)))],
        size=size,
        several_seeds=len(about["seeds"]) > 1,
        most_scales=len(SHADES) * len(maps_of(lines)),
    )


def _cards(lines: pd.DataFrame) -> Iterator[dict[str, str]]:
    """For each map its most sensitive word."""
    column = shade_of(lines)
    for name in maps_of(lines):
        some = lines[lines["map"] == name]
        top = largest(some, column)
        if top is None:
            continue
        ball = f"over the ball: ≥ {shown(some['S_ball'].max(), 2)} (searched)"
        upper = some["upper"].max(skipna=False)
        ball += f", ≤ {shown(upper, 2)} (certified)" if pd.notna(upper) else ", not certified"
        if column == "S_ball":
            yield {"value": f"≥ {shown(top['S_ball'], 2)}", "label": f"{name}, at “{top['word']}”", "note": ball}
            continue
        sign = "≥ " if top["kind"] == "lower bound" else ""
        yield {
            "value": f"{sign}{shown(top['S_word'], 2)}",
            "label": f"{name}: “{top['word']}” becomes “{top['replacement']}”",
            "note": f"a random word there: {shown(top['random_word'], 2)}; {ball}",
        }


def _text(
    text: str,
    number: int,
    lines: pd.DataFrame,
    best: Mapping[tuple[int, int, int, str], list[dict[str, Any]]],
    long: bool,
) -> dict[str, Any]:
    """A text in colour; its words as bars and in a table, or, of a long one, its parts and the words that do most."""
    names = maps_of(lines)
    scales = {
        (name, column): strengths(lines[lines["map"] == name], column)[name]
        for name in names
        for column in SHADES
        if lines.loc[lines["map"] == name, column].notna().any()
    }
    end = lines["end"].max()
    shown_text = text if pd.isna(end) else text[: int(end)]
    words = by_word(lines)
    labels = [str(next(iter(word.values()))["word"]) for word in words]
    return {
        "number": number,
        "cut": len(shown_text.rstrip()) < len(text.rstrip()),
        "maps": names,
        "pieces": [_piece(piece, scales) for piece in pieces(shown_text, lines)],
        "scales": [
            {"map": name, "column": column, "low": low, "high": high} for (name, column), (low, high) in scales.items()
        ],
        "charts": [] if long else [(name, chart(labels, [word.get(name) for word in words])) for name in names],
        "parts": _parts(shown_text, labels, words, names, shade_of(lines)) if len(words) > LONG else None,
        "rows": [_row(word, names, best) for word in (_leading(words, shade_of(lines)) if long else words)],
        "left_out": max(0, len(words) - TOP) if long else 0,
    }


def _parts(
    text: str, labels: Sequence[str], words: Sequence[Mapping[str, Line]], names: Sequence[str], column: str
) -> dict[str, Any]:
    first = [next(iter(word.values())) for word in words]
    spans = [(line["start"], line["end"]) for line in first]
    columns = {name: [word[name][column] if name in word else math.nan for word in words] for name in names}
    return parts_table(text, spans, labels, columns, f"{column} of its words")


def _leading(words: Sequence[Mapping[str, Line]], column: str) -> list[Mapping[str, Line]]:
    """The words that do most under the first map that measured them, largest first."""

    def value(word: Mapping[str, Line]) -> float:
        x = float(next(iter(word.values()))[column])
        return -math.inf if math.isnan(x) else x

    return sorted(words, key=value, reverse=True)[:TOP]


def _piece(piece: Piece, scales: Mapping[tuple[str, str], tuple[float, float]]) -> dict[str, Any]:
    """A word with its strength on each scale, and its numbers for the pointer."""
    found = [
        strength(piece.lines[name][column], ends) if name in piece.lines else math.nan
        for (name, column), ends in scales.items()
    ]
    said = [
        f"{name}: S_word {shown(line['S_word'], 2)} → {line['replacement']}"
        if line["replacement"]
        else f"{name}: S_ball ≥ {shown(line['S_ball'], 2)}"
        for name, line in piece.lines.items()
    ]
    strong = [(k, f"{x:.2f}".removeprefix("0")) for k, x in enumerate(found) if not math.isnan(x)]
    return {"shown": piece.shown, "strengths": strong, "title": "; ".join(said), "faint": False}


def _row(
    word: Mapping[str, Line],
    names: Sequence[str],
    best: Mapping[tuple[int, int, int, str], list[dict[str, Any]]],
) -> dict[str, Any]:
    label = next(iter(word.values()))
    text, window, position = (int(label[name]) for name in WORD)
    cells = []
    for name in names:
        line = word.get(name)
        tops = best.get((text, window, position, name), [])
        cells.append(None if line is None else {**line, "tops": tops})
    return {"index": label["index"], "word": label["word"], "cells": cells}
