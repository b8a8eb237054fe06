"""A comparison as figures for a paper: attention side by side (Fig. 1), layers by words and by heads, next tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from oneword.report.compare.compared import Tables, attention_of, label, largest, lines, map_name, names_of
from oneword.report.drawing import Drawing, drawing
from oneword.report.heat import WRITTEN, draw_heat
from oneword.report.saving import save_figure
from oneword.report.style import BLUE, COLUMN, GREY, PAGE, plain


def draw_all(texts: Sequence[str], tables: Tables, out: Path, *, layer: int = 1, head: int | None = None) -> list[Path]:
    """Draw every figure whose tables are there into a folder, each as PDF, SVG and PNG."""
    figures: dict[str, Drawing] = {}
    if "attention" in tables:
        figures["attention"] = attention(texts, tables, layer, head)
        figures["layers"] = layers(tables)
        figures["heads"] = heads(tables)
    if "answers" in tables:
        figures["answers"] = answers(texts, tables)
    return [path for name, figure in figures.items() for path in save_figure(figure, out, name)]


def attention(texts: Sequence[str], tables: Tables, layer: int = 1, head: int | None = None) -> Drawing:
    """Attention from word to word in each text, on one scale of colours."""
    maps = [attention_of(tables, text, layer, head) for text in ("a", "b")]
    count = max(len(heat.tokens) for heat in maps)
    with drawing(PAGE, min(3.4, 2.2 + 0.12 * count)) as figure:
        both = figure.subplots(1, 2)
        for axes, heat, name in zip(both, maps, names_of(texts, 44), strict=True):
            image = draw_heat(axes, np.array(heat.weights), heat.tokens, heat.tokens, largest(maps))
            axes.set_title(plain(name), loc="left")
            axes.set(xlabel="to", ylabel="from", aspect="equal")
        figure.colorbar(image, ax=both, label=f"attention, {map_name(layer, head)}", shrink=0.8)
    return figure


def layers(tables: Tables) -> Drawing:
    """How far each word moved after each layer, and the whole text beside it."""
    square = tables["moved"].pivot(index="layer", columns="pair", values="change")
    names = [label(line) for line in lines(tables["pairs"]) if line["pair"] in square.columns]
    table = tables["layers"]
    with drawing(PAGE, min(6.0, 1.7 + 0.16 * len(square))) as figure:
        words, whole = figure.subplots(1, 2, width_ratios=[3, 1.6])
        rows = [str(layer) for layer in square.index]
        image = draw_heat(words, square.to_numpy(), rows, names, float(np.nanmax(square.to_numpy())) or 1.0)
        words.set(ylabel="after layer", aspect="auto")
        figure.colorbar(image, ax=words, label="change of a word")
        whole.plot(table["layer"], table["whole"], color=BLUE, marker="o", label="whole text")
        whole.plot(table["layer"], table["pooled"], color=GREY, marker="s", label="mean over tokens")
        whole.margins(y=0.15)
        whole.set(xlabel="after layer", ylabel="change", ylim=(0, None))
        whole.legend()
    return figure


def heads(tables: Tables) -> Drawing:
    """The total variation of attention of every head."""
    square = tables["heads"].pivot(index="layer", columns="head", values="change")
    rows, columns = ([str(name) for name in axis] for axis in (square.index, square.columns))
    with drawing(COLUMN if len(columns) <= WRITTEN else PAGE, 1.1 + 0.22 * len(rows)) as figure:
        axes = figure.subplots()
        image = draw_heat(axes, square.to_numpy(), rows, columns, float(square.to_numpy().max()) or 1.0)
        axes.set(xlabel="head", ylabel="layer", aspect="auto")
        figure.colorbar(image, ax=axes, label="attention that\ngoes elsewhere")
    return figure


def answers(texts: Sequence[str], tables: Tables) -> Drawing:
    """The likeliest next tokens after each text, with their probability after the other one."""
    table = tables["answers"]
    with drawing(PAGE, 0.9 + 0.26 * int(table["rank"].max())) as figure:
        both = zip(figure.subplots(1, 2, sharex=True), ("a", "b"), names_of(texts, 44), strict=True)
        for axes, text, name in both:
            some = table[table["text"] == text]
            place = np.arange(len(some))
            axes.barh(place - 0.18, some["probability"], height=0.36, color=BLUE, label="after this text")
            axes.barh(place + 0.18, some["elsewhere"], height=0.36, color=GREY, label="after the other")
            axes.set_yticks(place, [plain(repr(answer)) for answer in some["answer"]])
            axes.invert_yaxis()
            axes.set_title(plain(f"{name} …"), loc="left")
            axes.set_xlabel("probability of the next token")
        axes.legend()
    return figure
