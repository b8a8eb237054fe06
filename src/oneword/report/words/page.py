"""The table of words as one HTML file: the coloured text, bars, layers, heads, numbers. No script, no request."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from oneword.checks import one_line, shortened
from oneword.plot import Plot
from oneword.report.table import heat_cell, shown, to_records
from oneword.report.templating import facts, write_page
from oneword.report.words.chart import chart, size
from oneword.report.words.lines import (
    Cell,
    Line,
    Piece,
    at_least,
    by_word,
    cell,
    choices,
    pieces,
    records,
    scales,
    shades,
    shown_columns,
    strength,
    top_line,
)
from oneword.report.words.passages import LONG, TOP, parts_table
from oneword.report.words.prompts import answers_after, is_prompt, prompt_card
from oneword.report.words.sentences import (
    bracket,
    headline,
    layers_found,
    meanings,
    provenance,
    together,
    top_head,
    upper_bound,
)
from oneword.report.words.table import COLUMNS, SHADES, Column, Part, WordTable

TEMPLATE = "words.html.j2"
MOST_TEXTS = 12  # word by word; of more there is one row a subject
MOST_WORDS = 6000  # coloured on the page, so that it opens at once; tables hold all
MOST_CARDS = 6
NUMBERED = 20  # columns of a heat map: cells of larger ones are colours alone
ACROSS = 64  # columns of one strip, so that it fits a page; longer texts have several
_LONGEST = 14  # letters of a word above its column


def render(table: WordTable, path: Path, *, command: str = "", top: int = 1) -> Path:
    """Write the page of a table of words, with `top` replacements for each word."""
    several, long = len(table.texts) > 1, _count(table) > LONG
    numbers = range(min(len(table.texts), MOST_TEXTS))
    return write_page(
        TEMPLATE,
        path,
        headline=headline(table.parts[0]),
        prompts=all(map(is_prompt, table.parts)),
        cards=list(_cards(table.parts)),
        summary=_summary(table.parts) if len(table.parts) > 1 else None,
        several_texts=several,
        texts=[_text(table, k, top, long) for k in numbers],
        texts_left_out=len(table.texts) - len(numbers),
        shades=choices(table.parts),
        meanings=[*meanings(table), *table.notes],
        command=command,
        facts=[(title, list(facts(about))) for title, about in provenance(table)],
        most_scales=len(SHADES),
        size=size,
    )


def _count(table: WordTable) -> int:
    """Words of all texts, each counted once."""
    return sum(max((len(part.words) for part in table.parts_of(k)), default=0) for k in range(len(table.texts)))


def _cards(parts: Sequence[Part]) -> Iterator[dict[str, str]]:
    """The most sensitive word of each subject; of a model that is alone, its head as well."""
    for part in parts[:MOST_CARDS]:
        top = top_line(part)
        if is_prompt(part):
            yield prompt_card(part)
            continue
        if top is None:
            continue
        said = []
        if top["replacement"]:
            said.append(f"the best real word {at_least(top)}{shown(top['best_word'], 2)} (“{top['replacement']}”)")
        if not math.isnan(top["random_word"]):
            said.append(f"a random word {shown(top['random_word'], 2)}")
        real = ", ".join(said)
        yield {
            "value": f"≥ {shown(top['value'], 2)}",
            "label": f"{part.subject.title}, at “{top['word']}”",
            "note": (f"{real[:1].upper()}{real[1:]}. " if real else "") + (upper_bound(part) or bracket(part)),
        }
    head = top_head(parts[0])
    if len(parts) == 1 and head is not None:
        yield {
            "value": shown(head["change"], 2),
            "label": f"of its attention goes elsewhere: head {head['head']} of layer {head['layer']}",
            "note": _mass(head),
        }


def _mass(head: Mapping[str, Any]) -> str:
    return f"attention on the changed word: {shown(head['before'])} before, {shown(head['after'])} after"


def _summary(parts: Sequence[Part]) -> dict[str, Any]:
    """One row a text and subject: its most sensitive word."""
    columns = [column for column in COLUMNS if any(column in shown_columns(part) for part in parts)]
    rows = []
    for part in parts:
        top = top_line(part)
        rows.append(
            {
                "by": part.subject.named,
                "number": part.subject.text,
                "text": shortened(one_line(part.content), 48),
                "words": len(part.words),
                "word": "–" if top is None else top["word"],
                "cells": [_cell(column, top, part, 1) for column in columns],
            }
        )
    return {"columns": columns, "rows": rows}


def _text(table: WordTable, number: int, top: int, long: bool) -> dict[str, Any]:
    """One text in colour; its words as bars and in a table, or, of a long one, its parts and the words that do most."""
    parts = table.parts_of(number)
    words = by_word(pd.concat([part.words for part in parts])) if parts else []
    labels = [str(next(iter(word.values()))["word"]) for word in words]
    chosen = _most_sensitive(words, parts) if long else words
    charts = [chart(labels, [word.get(part.subject.by) for word in words]) for part in parts if not long]
    return {
        "number": number,
        "title": f"Text {number}" if len(table.texts) > 1 else "The text",
        "coloured": [_coloured(part) for part in parts],
        "small": long,
        "charts": [(part.subject.title, each) for part, each in zip(parts, charts, strict=not long)],
        "legend": Plot("", "", "", tuple(panel for each in charts for panel in each.panels)),
        "passages": [_passages(part) for part in parts if len(part.words) > LONG],
        "together": [line for part in parts for line in together(table, part)],
        "layers": [
            layers_heat(part, _most(parts, "layers", "value"), _in_full(part)) for part in parts if len(part.layers)
        ],
        "heads": [_heads(part, _most(parts, "heads", "change")) for part in parts if len(part.heads)],
        "groups": [{"title": part.subject.title, "columns": shown_columns(part)} for part in parts],
        "rows": [_row(word, parts, top) for word in chosen],
        "left_out": len(words) - len(chosen),
    }


def _coloured(part: Part) -> dict[str, Any]:
    left_out = max(0, len(part.placed) - MOST_WORDS)
    kept = part
    if left_out:
        words = part.placed.head(MOST_WORDS)
        kept = replace(part, words=words, content=part.content[: words["end"].max()])
    return coloured(part, kept) | {"title": part.subject.named, "cut": left_out > 0, "left_out": left_out}


def coloured(part: Part, kept: Part | None = None) -> dict[str, Any]:
    """A text in colour, on each of its scales; of a long one the words that are `kept`."""
    known = scales(part)
    return {
        "said": bracket(part),
        "scales": [(k, *known[name]) for k, name in shades(known)],
        "pieces": [_piece(piece, known, part) for piece in pieces(kept or part)],
    }


def _piece(piece: Piece, known: Mapping[str, tuple[float, float]], part: Part) -> dict[str, Any]:
    """A word with its strength on each scale, and its numbers for the pointer."""
    line = piece.line
    if line is None:
        return {"shown": piece.shown, "strengths": [], "title": "", "faint": False, "start": None}
    strong = [(k, strength(line[name], known[name])) for k, name in shades(known)]
    said = [answers_after(part, line)] if is_prompt(part) else []
    said += [f"S ≥ {shown(line['value'], 2)}" if not math.isnan(line["value"]) else ""]
    if line["replacement"]:
        said.append(f"best {shown(line['best_word'], 2)} → {shortened(line['replacement'], 24)}")
    said.append(f"random {shown(line['random_word'], 2)}" if not math.isnan(line["random_word"]) else "")
    return {
        "shown": piece.shown,
        "strengths": [
            (k, f"{x:.2f}".rstrip("0").rstrip(".").removeprefix("0") or "0") for k, x in strong if not math.isnan(x)
        ],
        "title": "; ".join(each for each in said if each),
        "faint": bool(line["below_noise"]),
        "start": line["start"],
    }


def _passages(part: Part) -> dict[str, Any]:
    """A long text in sentences or windows."""
    lines = records(part.placed)
    spans = [(line["start"], line["end"]) for line in lines]
    words, values = [str(line["word"]) for line in lines], [float(line["value"]) for line in lines]
    return parts_table(part.content, spans, words, values, part.subject.named)


def _in_full(part: Part) -> int:
    """How many words have a column of their own: all, or those that do most."""
    return len(part.words) if len(part.words) <= LONG else TOP


def _most_sensitive(words: Sequence[Mapping[str, Line]], parts: Sequence[Part]) -> list[Mapping[str, Line]]:
    """The words that do most under the first subject that measured them, largest first."""

    def value(word: Mapping[str, Line]) -> float:
        line = next(word[part.subject.by] for part in parts if part.subject.by in word)
        return -math.inf if math.isnan(line["value"]) else float(line["value"])

    return sorted(words, key=value, reverse=True)[:TOP]


def _row(word: Mapping[str, Line], parts: Sequence[Part], top: int) -> dict[str, Any]:
    label = next(iter(word.values()))
    groups = [[_cell(column, word.get(part.subject.by), part, top) for column in shown_columns(part)] for part in parts]
    return {"index": label["index"], "word": label["word"], "groups": groups}


def _cell(column: Column, line: Line | None, part: Part, top: int) -> Cell:
    """What stands in a cell of the numbers; in the place of a word, `top` of them with what they do."""
    found = cell(column, line, part)
    if not found.words or line is None or top == 1:
        return found
    best = part.replacements.get((line["window"], line["position"]), ())[:top]
    listed = ", ".join(f"{each['replacement']} {shown(each['value'], 2)}" for each in best)
    return replace(found, shown=listed or found.shown)


def _most(parts: Sequence[Part], table: str, column: str) -> float:
    """The end of the scale of colours that all models of a text share."""
    found = [getattr(part, table)[column].max() for part in parts if len(getattr(part, table))]
    return max((float(x) for x in found if x > 0), default=1.0)


def layers_heat(part: Part, most: float, kept: int) -> dict[str, Any]:
    """Layers down, the `kept` most sensitive words across, in strips that fit a page."""
    words = part.words.sort_values("value", ascending=False, kind="stable").head(kept).sort_values("position")
    square = part.layers.pivot(index="layer", columns="position", values="value")
    square = square[[position for position in words["position"] if position in square.columns]]
    names = words.set_index("position")["word"]
    numbered = square.shape[1] <= NUMBERED
    squares = []
    for first in range(0, square.shape[1], ACROSS):
        some = square.iloc[:, first : first + ACROSS]
        squares.append(
            {
                "corner": "layer",
                "words": [part.in_layers(k, shortened(str(names[k]), _LONGEST)) for k in some.columns],
                "rows": [
                    (layer, [_heat(part, x, most, numbered) for x in row])
                    for layer, row in zip(some.index, some.to_numpy(float), strict=True)
                ],
                "numbered": numbered,
                "flat": False,
            }
        )
    left_out = part.layers["position"].nunique() - square.shape[1]
    how = layers_found(part.layers)
    said = {"most": most, "how": how[:1].upper() + how[1:], "kept": square.shape[1], "left_out": left_out}
    return {"title": part.subject.named, "squares": squares, **said}


def _heads(part: Part, most: float) -> dict[str, Any]:
    """Layers down, heads across."""
    heads = sorted(set(part.heads["head"]))
    numbered = len(heads) <= NUMBERED
    rows: dict[int, dict[int, dict[str, Any]]] = {}
    for line in to_records(part.heads.sort_values(["layer", "head"])):
        title = f"layer {line['layer']}, head {line['head']}: {shown(line['change'], 2)}; {_mass(line)}"
        cell = _heat(part, line["change"], most, numbered) | {"title": title}
        rows.setdefault(line["layer"], {})[line["head"]] = cell
    gap = _heat(part, None, most, numbered)
    square = {
        "corner": "layer",
        "words": heads,
        "rows": [(layer, [cells.get(head, gap) for head in heads]) for layer, cells in rows.items()],
        "numbered": numbered,
        "flat": True,
    }
    head = top_head(part)
    assert head is not None, "there are heads"
    said = f"Most: head {head['head']} of layer {head['layer']}, {shown(head['change'], 2)}; {_mass(head)}."
    return {"title": part.subject.named, "square": square, "said": said}


def _heat(part: Part, x: float | None, most: float, numbered: bool) -> dict[str, Any]:
    value = None if x is None or math.isnan(x) else x
    return heat_cell(value, most, numbered) | {"faint": part.subject.quiet(value)}
