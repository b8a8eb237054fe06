"""A comparison as figures for a paper: attention side by side (Fig. 1), layers by words and by heads, next tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from oneword.plot import Axis, Heat, Look, Mark, Panel, Plot, numbers
from oneword.plot.print import WRITTEN, Drawing, draw, save
from oneword.report.compare.compared import Tables, attention_of, label, largest, lines, map_name, names_of


def draw_all(texts: Sequence[str], tables: Tables, out: Path, *, layer: int = 1, head: int | None = None) -> list[Path]:
    """Draw every figure whose tables are there into a folder, each as PDF, SVG and PNG."""
    figures: dict[str, Drawing] = {}
    if "attention" in tables:
        figures["attention"] = attention(texts, tables, layer, head)
        figures["layers"] = layers(tables)
        figures["heads"] = heads(tables)
    if "answers" in tables:
        figures["answers"] = answers(texts, tables)
    return [path for name, figure in figures.items() for path in save(figure, out, name)]


def attention(texts: Sequence[str], tables: Tables, layer: int = 1, head: int | None = None) -> Drawing:
    """Attention from word to word in each text, on one scale of colours."""
    maps = [attention_of(tables, text, layer, head) for text in ("a", "b")]
    said = f"attention, {map_name(layer, head)}"
    heats = [replace(maps[0], most=largest(maps)), replace(maps[1], most=largest(maps), label=said)]
    panels = [
        Panel(name, Axis("to"), Axis("from"), heat=heat) for heat, name in zip(heats, names_of(texts, 44), strict=True)
    ]
    height = min(3.4, 2.2 + 0.12 * max(len(heat.tokens) for heat in maps))
    return draw(Plot("attention", "", "", tuple(panels), height=height, widths=(1, 1.2)))


def layers(tables: Tables) -> Drawing:
    """How far each word moved after each layer, and the whole text beside it."""
    square = tables["moved"].pivot(index="layer", columns="pair", values="change")
    names = tuple(label(line) for line in lines(tables["pairs"]) if line["pair"] in square.columns)
    words = Panel("", Axis(""), Axis("after layer"), heat=_heat(square, names, "change of a word"))
    table = tables["layers"]
    marks = [
        Mark("points", numbers(table["layer"]), numbers(table[column]), look, look.name)
        for column, look in (
            ("whole", Look("whole text", "blue", "circle")),
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
