"""An audit's tables for readers: the sentence of the chunk advisor, examples, intervals in brackets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from oneword.report.table import shown

Line = Mapping[str, Any]

SAID = {"negation": "not"}  # what readers call a signal
MEANINGS = (
    "change is ‖v'−v‖/‖v‖, v the vector of the text and v' of the edited one; typical: the median over texts",
    "AUC: how likely a signal edit moves the vector more than a noise edit at the same length; 0.5 is no difference; "
    "own pairs are whole texts: those of all lengths are pooled, in AUC and in “times the noise”",
    "intervals are 95 % ones by bootstrap over texts; of shares, and so of chunks, also by Clopper and Pearson",
    "change ∝ n^exponent, n the tokens of the text: fitted over all lengths tried, its interval by bootstrap of the "
    "texts of each length",
)


def bracketed(value: float, low: float, high: float, digits: int = 2) -> str:
    """0.71 [0.65, 0.77], or less where less is known."""
    if math.isnan(value):
        return "–"
    return shown(value, digits) + ("" if math.isnan(low) else f" [{shown(low, digits)}, {shown(high, digits)}]")


def chunk_shown(line: Line) -> str:
    """The advised length in a cell of a table."""
    if math.isnan(line["chunk"]):
        return "–"
    value, low, high = (_tokens(line["chunk" + end], line) for end in ("", "_low", "_high"))
    return value if low == high or math.isnan(line["chunk_low"]) else f"{value} [{low}, {high}]"


def _tokens(n: float, line: Line) -> str:
    if math.isnan(n):
        return "–"
    if n == 0:
        return "none"
    return f"≥ {n:.0f}" if n >= line["longest"] else f"{n:.0f}"


def advice(line: Line, share: float) -> str:
    """What the chunk advisor says of one signal."""
    what = SAID.get(line["type"], line["type"])
    aim = f"to keep a “{what}” above the noise in {100 * share:g} % of texts"
    if math.isnan(line["chunk"]):
        return f"{aim}: {line['advice']}"
    if line["chunk"] == 0:
        return f"{aim}: no tested length (from {line['shortest']} {line['unit']}) suffices{_interval(line)}"
    if line["chunk"] >= line["longest"]:
        return f"{aim}: every tested length suffices, up to {line['longest']} {line['unit']}{_interval(line)}"
    return f"{aim}, chunk at ≤ {line['chunk']:.0f} {line['unit']}{_interval(line)}"


def _interval(line: Line) -> str:
    low, high = (_tokens(line["chunk" + end], line) for end in ("_low", "_high"))
    return "" if low == high else f" (95 % interval: {low} to {high})"


def of_model(table: pd.DataFrame, model: str) -> pd.DataFrame:
    return table[table["model"] == model]


def lines_of(table: pd.DataFrame, model: str) -> list[Line]:
    """The lines of a table that are about this model."""
    return [{str(name): value for name, value in line.items()} for line in of_model(table, model).to_dict("records")]


def models_of(types: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(types["model"]))


def meanings(about: Mapping[str, Any]) -> Iterator[str]:
    """What the numbers are, with the settings that they rest on."""
    yield from MEANINGS
    level = "the median" if about["noise_quantile"] == 0.5 else f"the {about['noise_quantile']:.0%} quantile"
    yield (
        f"a text hears a signal if that moves its vector by more than {level} of its own noise edits at that length; "
        f"chunk: the longest length at which {100 * about['share']:g} % of texts do"
    )
    yield (
        f"{about['texts']} texts, cut to {', '.join(map(str, about['lengths']))} tokens (words of an encoder without "
        f"a tokenizer) where they are as long; edits by rules, at places drawn with seed {about['seed']}"
    )
