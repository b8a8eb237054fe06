"""Trained models at texts as one HTML file: coloured words, layers, heads, models, lengths. No script, no request."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from oneword.report.profile.lengths import lengths_plot
from oneword.report.profile.profiled import (
    SHADES,
    Profiled,
    at_least,
    becomes,
    by_sup,
    by_text,
    ceiling_line,
    ends,
    head_line,
    headline,
    hows,
    leading,
    meanings,
    placed,
    ranges,
    top_word,
)
from oneword.report.table import heat_cell, shown, to_records
from oneword.report.templating import facts, page_template, write_page
from oneword.report.words.passages import LONG, TOP, parts_table
from oneword.report.words.tables import Piece, pieces, shortened, strength

TEMPLATE = "profile.html.j2"
MOST_TEXTS = 6  # word by word; of more there is one line a model
MOST_CARDS = 6
NUMBERED = 20  # columns of a heat map: cells of larger ones are colours alone
ACROSS = 64  # columns of one strip, so that it fits a page; longer texts have several
_VALUES = ("sup", "first_order", "best_word", "random_word", "random_ball")
_LONGEST = 14  # letters of a word above its column


def check_installed() -> None:
    """Raise MissingExtraError where `render` would: before the work, not after it."""
    page_template(TEMPLATE)


def render(
    profiles: Sequence[Profiled],
    path: Path,
    *,
    lengths: pd.DataFrame | None = None,
    exponents: pd.DataFrame | None = None,
    command: str = "",
) -> Path:
    """Write the page of one or more models at one or more texts.

    `lengths` (model, output, n, trial, sup, first_order, best_word, random_word) and `exponents` (model, column, slope,
    low, high) add S against n.
    """
    texts = by_text(profiles)
    notes = dict.fromkeys(note for profile in profiles for note in profile.notes)
    return write_page(
        TEMPLATE,
        path,
        headline=headline(profiles[0]),
        cards=list(_cards(profiles)),
        models=[_model(profile) for profile in profiles] if len(profiles) > 1 else [],
        several_texts=len(texts) > 1,
        texts=[_text(k, some, len(texts) > 1) for k, (_, some) in enumerate(texts[:MOST_TEXTS])],
        texts_left_out=max(0, len(texts) - MOST_TEXTS),
        lengths=None if lengths is None or lengths.empty else lengths_plot(lengths, exponents),
        meanings=[*meanings(profiles), *notes],
        command=command,
        facts=list(_facts(profiles)),
        most_scales=len(SHADES),
    )


def _cards(profiles: Sequence[Profiled]) -> Iterator[dict[str, str]]:
    """The most sensitive word of each model; of a model that is alone, its head as well."""
    for profile in profiles[:MOST_CARDS]:
        top = top_word(profile)
        if top is None:
            continue
        best = f"best real word: {at_least(top)}{shown(top['best_word'], 2)} (“{becomes(top)}”); "
        yield {
            "value": f"≥ {shown(top['sup'], 2)}",
            "label": f"{profile.model}, at “{top['word']}”",
            "note": f"{best if top['best_word'] is not None else ''}a random word: {shown(top['random_word'], 2)}; "
            f"first order: {shown(top['first_order'], 2)}. {ceiling_line(profile) or ''}".rstrip(),
        }
    head, alone = head_line(profiles[0]), len(profiles) == 1
    if alone and head is not None:
        yield {
            "value": shown(head["change"], 2),
            "label": f"of its attention goes elsewhere: head {head['head']} of layer {head['layer']}",
            "note": _mass(head),
        }


def _mass(head: Mapping[str, Any]) -> str:
    return f"attention on the changed word: {shown(head['before'])} before, {shown(head['after'])} after"


def _model(profile: Profiled) -> dict[str, Any]:
    """One line of the table of models."""
    top = top_word(profile)
    values = [] if top is None else [top[name] for name in _VALUES]
    return {
        "model": profile.model,
        "text": shortened(profile.text),
        "objective": profile.objective,
        "top": top,
        "numbers": [(value, at_least(top) if k == 2 and top else "") for k, value in enumerate(values)],
        "quiet": [profile.quiet(value) for value in values],
        "becomes": "" if top is None else becomes(top),
        "mean": profile.complete["sup"].mean(),
        "noise": profile.noise,
    }


def _text(number: int, profiles: Sequence[Profiled], several: bool) -> dict[str, Any]:
    """Everything about one text, model after model."""
    scales = {column: both for column in SHADES if (both := ends(profiles, column)) is not None}
    return {
        "number": number,
        "title": f"Text {number + 1}" if several else "The text",
        "scales": [{"name": SHADES[column], "low": low, "high": high} for column, (low, high) in scales.items()],
        "coloured": [{"title": _title(profile), "pieces": list(_pieces(profile, scales))} for profile in profiles],
        "layers": [
            layers_heat(profile, _most(profiles, "layers", "value")) for profile in profiles if len(profile.layers)
        ],
        "parts": [_parts(profile) for profile in profiles if len(profile.words) > LONG],
        "tables": [_numbers(profile) for profile in profiles],
        "heads": [_heads(profile, _most(profiles, "heads", "change")) for profile in profiles if len(profile.heads)],
    }


def _in_full(profile: Profiled) -> int:
    """How many words have a line of their own: all, or those that do most."""
    return len(profile.words) if len(profile.words) <= LONG else TOP


def _parts(profile: Profiled) -> dict[str, Any]:
    """A long text in sentences or windows."""
    words = placed(profile)
    spans = [(None if pd.isna(a) else int(a), None if pd.isna(b) else int(b))
             for a, b in zip(words["start"], words["end"], strict=True)]  # fmt: skip
    columns = {"S ≥": [float(x) for x in words["sup"]]}
    return parts_table(profile.text, spans, [str(word) for word in words["word"]], columns, _title(profile))


def _title(profile: Profiled) -> str:
    return f"{profile.model}: {profile.objective}"


def _pieces(profile: Profiled, scales: Mapping[str, tuple[float, float]]) -> Iterator[dict[str, Any]]:
    """The text from beginning to end: words with their strength on each scale, and what is between them."""
    for piece in pieces(profile.text, placed(profile)):
        yield _piece(piece, profile, scales)


def _piece(piece: Piece, profile: Profiled, scales: Mapping[str, tuple[float, float]]) -> dict[str, Any]:
    line = piece.lines.get(profile.model)
    if line is None:
        return {"shown": piece.shown, "strengths": [], "title": "", "faint": False}
    known = [(k, line[column], both) for k, (column, both) in enumerate(scales.items()) if pd.notna(line[column])]
    best = f", best word {shown(line['best_word'], 2)} → {line['replacement']}" if line["replacement"] else ""
    return {
        "shown": piece.shown,
        "strengths": [(k, f"{max(0, strength(value, both)):.2f}".removeprefix("0")) for k, value, both in known],
        "title": f"S ≥ {shown(line['sup'], 2)}, random word {shown(line['random_word'], 2)}{best}",
        "faint": bool(line["below_noise"]),
    }


def _most(profiles: Sequence[Profiled], table: str, column: str) -> float:
    """The end of the scale of colours that all models of a text share."""
    found = [getattr(profile, table)[column].max() for profile in profiles if len(getattr(profile, table))]
    return max((float(x) for x in found if x > 0), default=1.0)


def layers_heat(profile: Profiled, most: float) -> dict[str, Any]:
    """Layers down, words across, in strips that fit a page."""
    kept = leading(profile, _in_full(profile))
    square = profile.layers.pivot(index="layer", columns="position", values="value")
    square = square[[position for position in kept["position"] if position in square.columns]]
    words = kept.set_index("position")["word"]
    numbered = square.shape[1] <= NUMBERED
    squares = []
    for first in range(0, square.shape[1], ACROSS):
        strip = square.iloc[:, first : first + ACROSS]
        squares.append(
            {
                "corner": "layer",
                "words": [shortened(str(words[position]), _LONGEST) for position in strip.columns],
                "rows": [
                    (layer, [_cell(profile, x, most, numbered) for x in row])
                    for layer, row in zip(strip.index, strip.to_numpy(float), strict=True)
                ],
                "numbered": numbered,
                "flat": False,
            }
        )
    left_out = profile.layers["position"].nunique() - square.shape[1]
    how = hows(profile.layers)
    said = {"most": most, "how": how[:1].upper() + how[1:], "kept": square.shape[1], "left_out": left_out}
    return {"title": _title(profile), "squares": squares, **said}


def _heads(profile: Profiled, most: float) -> dict[str, Any]:
    """Layers down, heads across."""
    heads = sorted(set(profile.heads["head"]))
    numbered = len(heads) <= NUMBERED
    rows: dict[int, dict[int, dict[str, Any]]] = {}
    for line in to_records(profile.heads.sort_values(["layer", "head"])):
        title = f"layer {line['layer']}, head {line['head']}: {shown(line['change'], 2)}; {_mass(line)}"
        cell = _cell(profile, line["change"], most, numbered) | {"title": title}
        rows.setdefault(line["layer"], {})[line["head"]] = cell
    gap = _cell(profile, None, most, numbered)
    square = {
        "corner": "layer",
        "words": heads,
        "rows": [(layer, [cells.get(head, gap) for head in heads]) for layer, cells in rows.items()],
        "numbered": numbered,
        "flat": True,
    }
    head = head_line(profile)
    assert head is not None, "there are heads"
    said = f"Most: head {head['head']} of layer {head['layer']}, {shown(head['change'], 2)}; {_mass(head)}."
    return {"title": _title(profile), "square": square, "said": said}


def _cell(profile: Profiled, x: float | None, most: float, numbered: bool) -> dict[str, Any]:
    value = None if x is None or math.isnan(x) else x
    return heat_cell(value, most, numbered) | {"faint": profile.quiet(value)}


def _numbers(profile: Profiled) -> dict[str, Any]:
    """The table of words, those that move the model most first."""
    lines = by_sup(profile)
    most = max((line["sup"] for line in lines if line["sup"]), default=1.0)
    rows = [
        {
            **line,
            "width": f"{5 * (line['sup'] or 0) / most:.2f}",
            "quiet": [bool(line["below_noise"]) or profile.quiet(line[name]) for name in _VALUES],
            "sign": at_least(line),
            "becomes": becomes(line),
        }
        for line in lines[: _in_full(profile)]
    ]
    return {"title": _title(profile), "rows": rows, "left_out": len(lines) - len(rows)}


def _facts(profiles: Sequence[Profiled]) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """What the numbers rest on: first what is the same for all of them, then what is of one model and text."""
    said = [dict(facts({name: _short(value) for name, value in each.about.items()})) for each in profiles]
    common = {name: value for name, value in said[0].items() if all(each.get(name) == value for each in said)}
    yield "", list(common.items())
    several = len(by_text(profiles)) > 1
    for profile, each in zip(profiles, said, strict=True):
        own = [(name, value) for name, value in each.items() if name not in common]
        if own:
            yield profile.model + (f", “{shortened(profile.text)}”" if several else ""), own


def _short(value: Any) -> Any:
    """Positions of a long text as runs."""
    whole = isinstance(value, list) and all(isinstance(each, int) for each in value)
    return ranges(value) if whole else value
