"""The pieces of the interactive page as HTML. Every text in them is escaped by the templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from oneword.report.app.reading import SHADES, Reading
from oneword.report.comparison import Tables, names_of
from oneword.report.comparison_page import attention_maps, pair_cards, pair_columns
from oneword.report.profile.lengths import lengths_plot
from oneword.report.profile.page import layers_heat
from oneword.report.table import shown
from oneword.report.templating import page_template
from oneword.report.words.tables import Line, Piece, largest, pieces, strength

# The numbers of a word: sign, and what kind of number it is.
NUMBERS = {
    "sup": ("S ≥", "worst change found"),
    "upper": ("S ≤", "certified"),
    "first_order": ("≈", "first order, no bound"),
    "random_ball": ("∼", "random change of that size"),
    "random_word": ("∼", "random real word"),
}


def style() -> str:
    """The style sheet of the pieces, for the head of the page."""
    return page_template("app/style.css.j2").render(most_scales=len(SHADES))


def header() -> str:
    return page_template("app/header.html.j2").render()


def meaning() -> str:
    return page_template("app/meaning.html.j2").render()


def working(stage: str, done: float, left: float | None, before: int) -> str:
    """What is going on, how much is done and how long it will take; or how many others come first."""
    return page_template("app/status.html.j2").render(kind="working", stage=stage, done=done, left=left, before=before)


def said(message: str, kind: str = "done") -> str:
    """A sentence under the controls: `kind` is done, stopped or error."""
    return page_template("app/status.html.j2").render(kind=kind, message=message)


def words(text: str, readings: Sequence[Reading]) -> str:
    """The text in colour, once for each map and model."""
    known = {name for reading in readings for name in reading.scales()}
    return page_template("app/words.html.j2").render(
        shades=[(k, SHADES[name]) for k, name in enumerate(SHADES) if name in known],
        readings=[_coloured(text, reading) for reading in readings],
    )


def _coloured(text: str, reading: Reading) -> dict[str, Any]:
    scales = reading.scales()
    lines = reading.words.assign(text=0, window=0, position=range(len(reading.words)), map=reading.key)
    return {
        "title": reading.title,
        "headline": headline(reading),
        "scales": [(k, *scales[name]) for k, name in enumerate(SHADES) if name in scales],
        "pieces": [_piece(piece, reading.key, scales) for piece in pieces(text, lines)],
        "first": int(lines["start"].min()),
        "notes": reading.notes,
    }


def _piece(piece: Piece, key: str, scales: Mapping[str, tuple[float, float]]) -> dict[str, Any]:
    line = piece.lines.get(key)
    if line is None:
        return {"shown": piece.shown, "start": None}
    strong = [
        (k, f"{max(0.0, strength(line[name], scales[name])):.2f}")
        for k, name in enumerate(SHADES)
        if name in scales and pd.notna(line[name])
    ]
    said = [f"{SHADES[name]} {shown(line[name], 2)}" for name in SHADES if pd.notna(line[name])]
    return {
        "shown": piece.shown,
        "start": int(line["start"]),
        "strengths": strong,
        "title": ", ".join(said),
        "faint": bool(line["below_noise"]),
    }


def headline(reading: Reading) -> str:
    """The most sensitive word, with its bracket."""
    top = largest(reading.words, "sup")
    if top is None:
        return "coloured by a random real word in each place, while the search goes on"
    upper = reading.words["upper"].max(skipna=False)
    kind = "certified" if reading.profiled is None else "ceiling"
    bracket = f", S ≤ {shown(upper, 2)} ({kind})" if pd.notna(upper) else ", no upper bound"
    return f"S ≥ {shown(top['sup'], 2)} at “{top['word']}” (found){bracket}"


def word(readings: Sequence[Reading], start: int | None, *, looking: bool = False) -> str:
    """Everything about the chosen word, one block a map or model; `looking`: real words are being looked for."""
    found = [(reading, line) for reading in readings if start is not None and (line := reading.at(start)) is not None]
    return page_template("app/word.html.j2").render(
        word=found[0][1]["word"] if found else None,
        blocks=[_block(reading, line, looking) for reading, line in found],
        measured=bool(readings),
    )


def _block(reading: Reading, line: Line, looking: bool) -> dict[str, Any]:
    start = int(line["start"])
    best = reading.replacements.get(start, ())
    kinds = NUMBERS if reading.profiled is None else NUMBERS | {"upper": ("S ≤", "ceiling for changes of any size")}
    return {
        "title": reading.title,
        "start": start,
        "numbers": [(sign, line[name], said) for name, (sign, said) in kinds.items() if pd.notna(line[name])],
        "best": best,
        "exact": line["kind"] == "exact",
        "unknown": reading.lacks(start),
        "looking": looking,
    }


def layers(readings: Sequence[Reading]) -> str:
    """Words across, layers down, for every model whose layers are known."""
    found = [each.profiled for each in readings if each.profiled is not None and len(each.profiled.layers)]
    values = [float(each.layers["value"].max()) for each in found]
    return page_template("app/layers.html.j2").render(
        maps=[layers_heat(each, max(values)) for each in found],
        waiting=any(each.profiled is not None for each in readings),
    )


def lengths(table: pd.DataFrame | None) -> str:
    """S against the number of tokens, as the text is cut shorter; None before it was measured."""
    plot = None if table is None or table.empty else lengths_plot(table)
    return page_template("app/lengths.html.j2").render(plot=plot)


def change(texts: Sequence[str], tables: Tables, layer: int, notes: Sequence[str]) -> str:
    """Two texts: how far everything moved, their words beside each other, and both attention maps of one layer."""
    columns = pair_columns(tables)
    for column in columns["columns"]:  # the last layer alone: a live page has no room for a choice
        column["strengths"] = [("", value) for _, value in column["strengths"][-1:]]
    maps = attention_maps({**tables, "attention": _only(tables["attention"], layer)})
    return page_template("app/change.html.j2").render(
        cards=list(pair_cards(tables)),
        columns=columns["columns"],
        most=columns["most"],
        last=max(columns["layers"]),
        map=maps[0] if maps else None,
        layer=layer,
        names=names_of(texts),
        notes=notes,
    )


def _only(attention: pd.DataFrame, layer: int) -> pd.DataFrame:
    return attention[(attention["layer"] == layer) & attention["head"].isna()]
