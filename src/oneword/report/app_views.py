"""The pieces of the interactive page as HTML. Every text in them is escaped by the templates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from oneword.report.comparison import Tables, names_of
from oneword.report.comparison_page import attention_maps, next_tokens, pair_cards, pair_columns
from oneword.report.templating import page_template
from oneword.report.words.figures import lengths_plot
from oneword.report.words.lines import Line, choices
from oneword.report.words.page import coloured, layers_heat
from oneword.report.words.table import COLUMNS, SHADES, Part, WordTable


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


def words(table: WordTable | None) -> str:
    """The text in colour, once for each map and model."""
    parts = [] if table is None else table.parts
    return page_template("app/words.html.j2").render(
        shades=choices(parts),
        subjects=[_coloured(part) for part in parts],
        notes=[] if table is None else table.notes,
    )


def _coloured(part: Part) -> dict[str, Any]:
    first = None if part.words["start"].isna().all() else int(part.words["start"].min())
    return coloured(part) | {"title": part.subject.title, "first": first}


def word(table: WordTable | None, start: int | None, *, looking: bool = False) -> str:
    """Everything about the chosen word, one block a map or model; `looking`: real words are being looked for."""
    parts = [] if table is None or start is None else table.parts
    found = [(part, line) for part in parts if (line := part.at(start or 0)) is not None]
    return page_template("app/word.html.j2").render(
        word=found[0][1]["word"] if found else None,
        blocks=[_block(part, line, looking) for part, line in found],
        measured=table is not None,
    )


def _block(part: Part, line: Line, looking: bool) -> dict[str, Any]:
    """The numbers of a word that have a label, and the real words that change most."""
    upper = "a ceiling for changes of any size" if line["upper_kind"] == "ceiling" else "certified"
    more = {"upper": f", {upper}"}
    best = part.replacements.get((line["window"], line["position"]), ())
    return {
        "title": part.subject.title,
        "start": int(line["start"]),
        "numbers": [
            (column.sign, line[column.name], column.label + more.get(column.name, ""))
            for column in COLUMNS
            if column.label and pd.notna(line[column.name])
        ],
        "best": [(each["replacement"], each["value"]) for each in best],
        "exact": line["kind"] == "exact",
        "unknown": part.lacks_words(int(line["start"])),
        "looking": looking,
    }


def layers(table: WordTable | None) -> str:
    """Words across, layers down, for every model whose layers are known."""
    parts = [] if table is None else table.parts
    found = [part for part in parts if len(part.layers)]
    most = max((float(part.layers["value"].max()) for part in found), default=1.0)
    return page_template("app/layers.html.j2").render(
        maps=[layers_heat(part, most, len(part.words)) for part in found],
        waiting=any(part.subject.kind == "model" for part in parts),
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
        answers=next_tokens(tables),
        notes=notes,
    )


def _only(attention: pd.DataFrame, layer: int) -> pd.DataFrame:
    return attention[(attention["layer"] == layer) & attention["head"].isna()]
