"""Two texts as one HTML file, without script or request, and as figures for a paper."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from oneword.plot import Axis, Heat, Look, Mark, Panel, Plot, numbers
from oneword.plot.print import WRITTEN, Drawing, draw, save
from oneword.report import comparison as shared
from oneword.report.comparison import (
    Tables,
    attention_of,
    changes_of,
    label,
    largest,
    most_moved,
    names_of,
    why_none_kept,
)
from oneword.report.table import heat_cell, plain_cell, shown, to_records
from oneword.report.templating import facts, write_page
from oneword.report.words.passages import LONG, TOP

MOST_WORDS = 100  # of an attention map on the page, so that it opens at once
WHOLE = (*shared.WHOLE[:-1], "cosine", "attention")  # as in a terminal, and the cosine
NUMBERED = 14  # words: cells of larger maps are colours alone


def render(
    texts: Sequence[str],
    tables: Tables,
    about: Mapping[str, Any],
    notes: Sequence[str],
    path: Path,
    *,
    layer: int = 1,
    head: int | None = None,
    command: str = "",
) -> Path:
    """Write the page of a comparison, given as its tables; the map of `layer` and `head` is the one shown first."""
    maps = attention_maps(tables)
    return write_page(
        "compare.html.j2",
        path,
        names=names_of(texts),
        about=about,
        cards=list(pair_cards(tables)),
        words=pair_columns(tables),
        maps=maps,
        first=(layer, head),
        too_long=not maps,
        layers=_layers(tables),
        heads=_heads(tables["heads"]),
        answers=next_tokens(tables),
        meanings=[*shared.meanings(about, tables), *notes],
        facts=[("", list(facts(about)))],
        command=command,
    )


def pair_cards(tables: Tables) -> Iterator[dict[str, str]]:
    end = to_records(tables["layers"])[-1]
    yield {
        "value": shown(end["whole"], 2),
        "label": f"the whole text, after layer {end['layer']}",
        "note": f"relative to the first text; its words: {shown(end['median'], 2)} (median), "
        f"{shown(end['most'], 2)} at most; its mean over tokens: {shown(end['pooled'], 2)}, at a cosine of "
        f"{shown(end['cosine'], 2)}",
    }
    kept, changed = (most_moved(tables, kept=which) for which in (True, False))
    own = ""
    if changed is not None:
        own = f"; “{label(changed)}”: {shown(changed['change'], 2)} at layer {changed['layer']}"
    if kept is None:
        yield {"value": "–", "label": "no word that stayed can move", "note": f"{why_none_kept(tables)}{own}"}
    else:
        yield {
            "value": shown(kept["change"], 2),
            "label": f"“{label(kept)}”, in both texts, at layer {kept['layer']}",
            "note": f"of the words that stayed, the one that moved most{own}",
        }
    head = to_records(tables["heads"].sort_values("change", ascending=False, kind="stable").head(1))[0]
    yield {
        "value": shown(head["change"], 2),
        "label": f"of its attention goes elsewhere: head {head['head']} of layer {head['layer']}",
        "note": "the head that moved most, on average over words (total variation distance)",
    }
    if "divergence" in tables:
        (apart,) = to_records(tables["divergence"])
        tops = [line for line in to_records(tables["answers"]) if line["rank"] == 1]
        yield {
            "value": "flips" if apart["flips"] else "stays",
            "label": f"the next token: “{tops[0]['answer']}”, then “{tops[1]['answer']}”",
            "note": f"JS divergence {shown(apart['js'])}, total variation {shown(apart['tv'])}",
        }


def pair_columns(tables: Tables) -> dict[str, Any]:
    """Both texts in columns of pairs, each with its strength after every layer."""
    moved, most = changes_of(tables)
    sinks = shared.sinks_of(tables)
    columns = []
    for pair in to_records(tables["pairs"]):
        changes = moved.get(pair["pair"], pd.Series(dtype=float))
        said = "; ".join(f"layer {k}: {shown(change, 2)}" for k, change in changes.items())
        said += "; an attention sink" if pair["pair"] in sinks else ""
        strengths = [(k, f"{change / most:.2f}") for k, change in changes.dropna().items()]
        columns.append({**pair, "label": label(pair), "title": said or "no counterpart", "strengths": strengths})
    return {"columns": columns, "most": most, "layers": list(moved.index)}


def attention_maps(tables: Tables) -> list[dict[str, Any]]:
    """Attention of both texts and their difference, on one scale a map; none where a text is too long for a page."""
    out = []
    for layer, head in shared.maps_of(tables):
        a, b = (attention_of(tables, text, layer, head) for text in ("a", "b"))
        if max(len(a.tokens), len(b.tokens)) > MOST_WORDS:
            return []
        apart = shared.difference_of(tables, a, b)
        scale, signed = largest([a, b]), largest([apart])
        squares = [_square(a, scale), _square(b, scale), _square(apart, signed)]
        out.append({"place": (layer, head), "squares": squares, "signed": signed})
    return out


def _square(heat: Heat, scale: float) -> dict[str, Any]:
    """A heat map as a table: words, and rows of cells."""
    numbered = len(heat.tokens) <= NUMBERED
    rows = [[heat_cell(x, scale, numbered) for x in row] for row in heat.weights]
    return {"words": heat.tokens, "rows": list(zip(heat.tokens, rows, strict=True)), "numbered": numbered}


def _layers(tables: Tables) -> dict[str, Any]:
    """Layers down, words across, beside what became of the whole text."""
    moved, scale = changes_of(tables)
    kept = moved
    if moved.shape[1] > LONG:  # the words that moved most, in the order of the text
        top = moved.max().fillna(0.0).sort_values(ascending=False, kind="stable").index[:TOP]
        kept = moved[sorted(top)]
    names = shared.headers(tables)
    rows = []
    for line in to_records(tables["layers"]):
        whole = [plain_cell(shown(line[name], 2)) for name in WHOLE]
        rows.append((line["layer"], whole + [heat_cell(x, scale) for x in kept.loc[line["layer"]]]))
    words = [names[pair] for pair in kept]
    left_out = moved.shape[1] - kept.shape[1]
    return {"corner": "layer", "beside": WHOLE, "words": words, "rows": rows, "left_out": left_out}


def _heads(heads: pd.DataFrame) -> dict[str, Any]:
    """Layers down, heads across."""
    scale = float(heads["change"].max()) or 1.0
    rows: dict[int, list[dict[str, Any]]] = {}
    for line in to_records(heads):
        said = label({**line, "how": "equal" if line["word_a"] == line["word_b"] else "replace"})
        title = f"layer {line['layer']}, head {line['head']}: most at “{said}”, {shown(line['most'], 2)}"
        rows.setdefault(line["layer"], []).append(heat_cell(line["change"], scale) | {"title": title})
    return {"corner": "layer", "words": sorted(set(heads["head"])), "rows": list(rows.items()), "flat": True}


def next_tokens(tables: Tables) -> dict[str, Any] | None:
    """The likeliest next tokens after each text; None for a model that has none."""
    if "answers" not in tables:
        return None
    (apart,) = to_records(tables["divergence"])
    found = to_records(tables["answers"])
    most = max(line["probability"] for line in found) or 1.0
    for line in found:
        line["width"], line["beside"] = (100 * line[name] / most for name in ("probability", "elsewhere"))
    return {"apart": apart, "sides": [[line for line in found if line["text"] == text] for text in ("a", "b")]}


# Figures: attention side by side (Fig. 1), layers by words and by heads, next tokens ----------------------------------


def draw_all(texts: Sequence[str], tables: Tables, out: Path, *, layer: int = 1, head: int | None = None) -> list[Path]:
    """Draw every figure whose tables are there into a folder, each as PDF, SVG and PNG."""
    figures = {"attention": attention(texts, tables, layer, head), "layers": layers(tables), "heads": heads(tables)}
    if "answers" in tables:
        figures["answers"] = answers(texts, tables)
    return [path for name, figure in figures.items() for path in save(figure, out, name)]


def attention(texts: Sequence[str], tables: Tables, layer: int = 1, head: int | None = None) -> Drawing:
    """Attention from word to word in each text, on one scale of colours."""
    maps = [attention_of(tables, text, layer, head) for text in ("a", "b")]
    said = f"attention, {shared.map_name(layer, head)}"
    heats = [replace(maps[0], most=largest(maps)), replace(maps[1], most=largest(maps), label=said)]
    panels = [
        Panel(name, Axis("to"), Axis("from"), heat=heat) for heat, name in zip(heats, names_of(texts, 44), strict=True)
    ]
    height = min(3.4, 2.2 + 0.12 * max(len(heat.tokens) for heat in maps))
    return draw(Plot("attention", "", "", tuple(panels), height=height, widths=(1, 1.2)))


def layers(tables: Tables) -> Drawing:
    """How far each word moved after each layer, and the whole text beside it."""
    square, _ = changes_of(tables)
    names = tuple(label(line) for line in to_records(tables["pairs"]) if line["pair"] in square.columns)
    words = Panel("", Axis(""), Axis("after layer"), heat=_heat(square, names, "change of a word"))
    table = tables["layers"]
    marks = [
        Mark("points", numbers(table["layer"]), numbers(table[column]), look, look.name)
        for column, look in (
            ("whole", Look("whole text", "blue", "circle")),
            ("median", Look("median word", "vermilion", "diamond")),
            ("pooled", Look("mean over tokens", "grey", "square")),
        )
    ]
    whole = Panel("", Axis("after layer"), Axis("change", low=0), tuple(marks))
    height = min(6.0, 1.7 + 0.16 * len(square))
    return draw(Plot("layers", "", "", (words, whole), height=height, widths=(3, 1.6)))


def heads(tables: Tables) -> Drawing:
    """The total variation of attention of every head."""
    square = tables["heads"].pivot(index="layer", columns="head", values="change")
    heat = _heat(square, tuple(map(str, square.columns)), "attention that\ngoes elsewhere")
    panel = Panel("", Axis("head"), Axis("layer"), heat=heat)
    wide = len(heat.tokens) > WRITTEN
    return draw(Plot("heads", "", "", (panel,), height=1.1 + 0.22 * len(square), page=wide))


def answers(texts: Sequence[str], tables: Tables) -> Drawing:
    """The likeliest next tokens after each text, with their probability after the other one."""
    table = tables["answers"]
    panels = []
    for text, name in zip(("a", "b"), names_of(texts, 44), strict=True):
        some = table[table["text"] == text]
        marks = [
            Mark("bars", numbers(some[column]), numbers(np.arange(len(some)) + aside), look, look.name, horizontal=True)
            for column, aside, look in (
                ("probability", -0.18, Look("after this text", "blue")),
                ("elsewhere", 0.18, Look("after the other", "grey")),
            )
        ]
        said = Axis("", names=tuple(map(repr, some["answer"])), reverse=True)
        panels.append(Panel(f"{name} …", Axis("probability of the next token", low=0), said, tuple(marks)))
    return draw(Plot("answers", "", "", tuple(panels), height=1.1 + 0.26 * int(table["rank"].max())))


def _heat(square: pd.DataFrame, columns: tuple[str, ...], said: str) -> Heat:
    """Layers down; the colours go up to the largest value."""
    values = tuple(tuple(map(float, row)) for row in square.to_numpy())
    return Heat(columns, values, tuple(map(str, square.index)), said)
