"""Tables for readers: words in terminals, notebooks and back from files; numbers; cells of heat maps on pages."""

from __future__ import annotations

import csv
import math
from collections.abc import Container, Iterable, Mapping, Sequence
from html import escape
from typing import Any

import pandas as pd
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from oneword.errors import printable

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
    for name in ("value", "upper", "baseline", "distance"):
        if name in table:
            table[name] = table[name].astype("float64")
    if "replacement" in table:
        table["replacement"] = pd.Series([record["replacement"] for record in records], dtype=object)
    return table


def visible(text: str) -> str:
    """A text for a terminal, with its lines: what would move the cursor or recolour the rest is shown, not sent."""
    return printable(text.replace("\r\n", "\n"), keep="\n\t")


def to_csv(table: pd.DataFrame) -> str:
    """The table as CSV. A spreadsheet runs texts that begin as formulas do, so these get an apostrophe before them."""
    out = table.rename(columns=_as_text)
    texts = out.columns[[not pd.api.types.is_numeric_dtype(kind) for kind in out.dtypes]]
    for name in texts:
        out[name] = out[name].map(_as_text)
    # Pandas quotes no text for a lone carriage return, which would begin a row of its own.
    returns = any(isinstance(value, str) and "\r" in value for name in texts for value in out[name])
    return out.to_csv(index=False, quoting=csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL)


def _as_text(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def grid(titles: Iterable[Any], rows: Iterable[Iterable[Any]], left: Container[str] = (), **how: Any) -> Table:
    """A table without lines for a terminal, of strings, which are no markup, and Text.

    Columns are flush right, but for those whose titles are in `left`; `how` is passed to all of them.
    """
    padding = how.pop("padding", (0, 2, 0, 0))
    out = Table(box=None, pad_edge=False, header_style="bold", padding=padding)
    for title in titles:
        out.add_column(title, justify="left" if str(title) in left else "right", **how)
    for row in rows:
        out.add_row(*(cell if isinstance(cell, Text) else Text(visible(cell)) for cell in row))
    return out


def leading(table: pd.DataFrame, most: int = MOST_LINES) -> pd.DataFrame:
    """The words with the largest values, largest first."""
    return table.sort_values("value", ascending=False, kind="stable").head(most)


def rich(table: pd.DataFrame, head: str, lines: Sequence[str]) -> RenderableType:
    """Headline and table, for a terminal."""
    columns = _columns(table)
    largest = float(table["value"].max())
    rows = []
    for line in leading(table).to_dict(orient="records"):
        bar = "█" * round(20 * line["value"] / largest) if largest > 0 and not math.isnan(line["value"]) else ""
        rows.append([*(_cell(line[name]) for name in columns), Text(bar, style="cyan")])
    found = grid([*columns.values(), ""], rows, left=("word", "→", ""), padding=(0, 1))
    hidden = len(table) - MOST_LINES
    rest = [Text(f"… and {hidden} words below these", style="dim")] if hidden > 0 else []
    return Group(Text(visible(head), style="bold"), Text(visible(" · ".join(lines))), found, *rest)


def _columns(table: pd.DataFrame) -> dict[str, str]:
    """What is shown, and under which title: a searched value lies between two bounds, a tried one is exact."""
    first = {"word": "word", "position": "position"}
    if "replacement" not in table:
        return first | {"value": "S ≥", "upper": "S ≤", "baseline": "random"}
    return first | {"replacement": "→", "value": "S", "distance": "‖Δ‖/√d", "baseline": "random word"}


def _cell(value: object) -> Text:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return Text("–")
    return Text(f"{value:.4f}" if isinstance(value, float) else visible(str(value)))


def html(table: pd.DataFrame, head: str, lines: Sequence[str]) -> str:
    """The same for a notebook; every text is escaped."""
    columns = _columns(table)
    body = (
        leading(table)[list(columns)]
        .rename(columns=columns)
        .to_html(index=False, escape=True, float_format=lambda x: f"{x:.4f}", na_rep="–")
    )
    return f"<p><b>{escape(head)}</b><br>{escape(' · '.join(lines))}</p>{body}"


def heat_cell(x: float | None, scale: float, numbered: bool = True) -> dict[str, Any]:
    """A cell of `heat.html.j2`: strength from 0 to 100, sign, and what is written there."""
    cell = {"strong": 0, "less": False, "faint": False, "title": "", "shown": "–" if numbered else ""}
    if x is None or math.isnan(x):
        return cell
    text = f"{abs(x):.2f}".removeprefix("0")
    sign = "−" if x < 0 and text != ".00" else ""
    strong = round(100 * min(1.0, abs(x) / scale))
    return cell | {"strong": strong, "less": x < 0, "shown": sign + text if numbered else ""}


def plain_cell(text: str) -> dict[str, Any]:
    """A cell without a shade."""
    return heat_cell(None, 1.0) | {"plain": True, "shown": text}
