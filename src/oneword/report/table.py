"""The table of words, for terminals, notebooks and back from files."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import pandas as pd
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

MOST_LINES = 20
SIGNS = {True: "✓", False: "✗", None: "?"}  # a claim holds, fails, or cannot be told


def shown(x: float | None, digits: int = 3) -> str:
    """A number for a reader: a true minus, few digits, powers of ten only where they help."""
    if x is None or math.isnan(x):
        return "–"
    small = x != 0 and abs(x) < 10**-digits
    return (f"{x:.1e}" if small or abs(x) >= 1e5 else f"{x:.{digits}f}").replace("-", "−")


def to_records(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The table as plain values for JSON: tuples become lists, NaN becomes null, no digit is lost."""
    records = table.astype(object).where(table.notna(), None).to_dict(orient="records")
    return [{str(name): value for name, value in record.items()} for record in records]


def from_records(records: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """A per-word table with its types restored: rows are tuples, missing bounds are NaN."""
    table = pd.DataFrame.from_records(list(records))
    table["rows"] = [tuple(rows) for rows in table["rows"]]
    for name in ("value", "upper", "baseline"):
        table[name] = table[name].astype("float64")
    return table


def leading(table: pd.DataFrame, most: int = MOST_LINES) -> pd.DataFrame:
    """The words with the largest values, largest first."""
    return table.sort_values("value", ascending=False, kind="stable").head(most)


def rich(table: pd.DataFrame, head: str, lines: Sequence[str]) -> RenderableType:
    """Headline and table, for a terminal."""
    grid = Table(box=None, pad_edge=False, header_style="bold")
    grid.add_column("word")
    for name in ("position", "S ≥", "S ≤", "random"):
        grid.add_column(name, justify="right")
    grid.add_column("")
    largest = float(table["value"].max())
    for line in leading(table)[["word", "position", "value", "upper", "baseline"]].to_dict(orient="records"):
        number = {name: float(line[name]) for name in ("value", "upper", "baseline")}
        shown = ["–" if math.isnan(x) else f"{x:.4f}" for x in number.values()]
        bar = "█" * round(20 * number["value"] / largest) if largest > 0 else ""
        grid.add_row(Text(str(line["word"])), str(line["position"]), *shown, Text(bar, style="cyan"))
    parts: list[RenderableType] = [Text(head, style="bold"), Text(" · ".join(lines))]
    hidden = len(table) - MOST_LINES
    return Group(*parts, grid, *([Text(f"… and {hidden} words below these", style="dim")] if hidden > 0 else []))


def html(table: pd.DataFrame, head: str, lines: Sequence[str]) -> str:
    """The same for a notebook; every text is escaped."""
    columns = ["word", "position", "value", "upper", "baseline"]
    body = leading(table)[columns].to_html(index=False, escape=True, float_format=lambda x: f"{x:.4f}", na_rep="–")
    return f"<p><b>{escape(head)}</b><br>{escape(' · '.join(lines))}</p>{body}"
