"""How an audit is shown in a terminal and in a notebook, and the phrases that pages share with them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import pandas as pd
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from oneword.report.table import SIGNS, grid, shown, visible

Line = Mapping[str, Any]

SHORT_NAMES = {"negation": "not"}  # of types of edits, where readers know a shorter one
MEANINGS = (
    "change is ‖v'−v‖/‖v‖, v the vector of the text and v' of the edited one; typical: the median over texts",
    "AUC: how likely a signal edit moves the vector more than a noise edit at the same length; 0.5 is no difference; "
    "own pairs are whole texts: those of all lengths are pooled, in AUC and in “times the noise”",
    "intervals are 95 % ones by bootstrap over texts; of shares, and so of chunks, also by Clopper and Pearson",
    "change ∝ n^exponent, n the tokens of the text: fitted over all lengths tried, its interval by bootstrap of the "
    "texts of each length",
)


def bracketed(value: float, low: float, high: float, digits: int = 2) -> str:
    """A value with its interval, such as 0.71 [0.65, 0.77]; "–" for NaN."""
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
    """The advice on the length of chunks for one signal."""
    what = SHORT_NAMES.get(line["type"], line["type"])
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
    """The rows of a table that belong to this model."""
    return [{str(name): value for name, value in line.items()} for line in of_model(table, model).to_dict("records")]


def models_of(types: pd.DataFrame) -> list[str]:
    return list(dict.fromkeys(types["model"]))


def meanings(about: Mapping[str, Any]) -> Iterator[str]:
    """Explanations of the numbers, with the settings used."""
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


def rows_of(tables: Mapping[str, pd.DataFrame], model: str) -> Iterator[dict[str, Any]]:
    """The rows of the table of types, with each number as text."""
    chunks = {line["type"]: line for line in lines_of(tables["chunks"], model)}
    for line in lines_of(tables["types"], model):
        signal = line["kind"] == "signal"
        yield {
            **line,
            "change_shown": bracketed(line["change"], line["change_low"], line["change_high"], 3),
            "auc_shown": bracketed(line["auc"], line["auc_low"], line["auc_high"]) if signal else "",
            "decay_shown": bracketed(line["decay"], line["decay_low"], line["decay_high"]),
            "chunk_shown": chunk_shown(chunks[line["type"]]) if line["type"] in chunks else "",
            "hidden": bool(line["edits"]) and line["unseen"] == line["edits"],
        }


# Notebook -------------------------------------------------------------------------------------------------------------


def notebook(tables: Mapping[str, pd.DataFrame], about: Mapping[str, Any]) -> str:
    """The tables of types, the advice on chunks and what was missed, as HTML for a notebook; every text is escaped."""
    parts = []
    for model in models_of(tables["types"]):
        shown_as = {"type": "edit", "kind": "kind", "edits": "edits", "change_shown": "change",
                    "auc_shown": "AUC against noise", "chunk_shown": "chunk ≤"}  # fmt: skip
        rows = pd.DataFrame(list(rows_of(tables, model)))[list(shown_as)].rename(columns=shown_as)
        parts.append(f"<p><b>{escape(model)}</b></p>{rows.to_html(index=False, escape=True)}")
        parts += [f"<p>{escape(advice(line, about['share']).capitalize())}.</p>"
                  for line in lines_of(tables["chunks"], model)[:1]]  # fmt: skip
    missed = tables["verdicts"][~tables["verdicts"]["passed"].astype(bool)]
    parts += [f"<p>✗ {escape(line['model'])}: {escape(line['why'])}</p>" for line in missed.to_dict("records")]
    return "".join(parts)


# Terminal -------------------------------------------------------------------------------------------------------------


EXAMPLES = 1  # of each type; pages and JSON have them all
WIDE = 118  # columns that the whole table takes; in a narrower terminal the AUC alone keeps its interval


class AuditView:
    """What rich prints for an audit, given as its tables."""

    def __init__(self, tables: Mapping[str, pd.DataFrame], about: Mapping[str, Any], notes: Sequence[str]) -> None:
        self.tables, self.about, self.notes = tables, about, notes

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for model in models_of(self.tables["types"]):
            yield Text(visible(model), style="bold")
            yield self._types(model, wide=options.max_width >= WIDE)
            known = [line for line in lines_of(self.tables["chunks"], model) if not math.isnan(line["chunk"])]
            for line in known[:1]:
                yield Text(f"→ {visible(advice(line, self.about['share']))}")
            yield Text()
        if len(self.tables["worst"]):
            yield from self._examples(models_of(self.tables["types"])[0])
        if len(self.tables["verdicts"]):
            yield self._verdicts()
            yield Text()
        for note in [*meanings(self.about), *self.notes]:
            yield Text(f"· {visible(note)}", style="dim")

    def _types(self, model: str, *, wide: bool) -> RenderableType:
        rows = []
        for line in rows_of(self.tables, model):
            change, decay = line["change_shown"], line["decay_shown"]
            if not wide:
                change, decay = shown(line["change"], 3), shown(line["decay"], 2)
            if line["hidden"]:
                change = "not seen by the tokenizer" if wide else "not seen"
            kind = Text(line["kind"], style="bold" if line["kind"] == "signal" else "dim")
            colour = "green" if line["auc_low"] > 0.5 else "red" if line["auc_high"] < 0.5 else ""
            auc, cosine = Text(line["auc_shown"], style=colour), [shown(line["cosine"], 3)] * wide
            rows.append([line["type"], kind, str(line["edits"]), change, *cosine, auc, decay, line["chunk_shown"]])
        titles = ["edit", "kind", "edits", "change", *["cosine"] * wide, "AUC against noise", "∝ n^", "chunk ≤"]
        return grid(titles, rows, left=("edit", "kind"), no_wrap=True)

    def _examples(self, model: str) -> Iterator[RenderableType]:
        worst = of_model(self.tables["worst"], model)
        for kind, title in (("signal", "hardly noticed"), ("noise", "noise that moves it most")):
            some = worst[(worst["kind"] == kind) & (worst["rank"] <= EXAMPLES)]
            if some.empty:
                continue
            yield Text(f"{title} ({visible(model)})", style="bold")
            for line in some.to_dict("records"):
                change, times = shown(line["change"], 3), shown(line["times_noise"], 2)
                out = Text(f"  {visible(line['type']):<12} {change}, {times}× the noise  ")
                was, became = _flat(line["was"]), _flat(line["became"])
                space = " " if (was or became).endswith(" ") else ""  # outside of the brackets
                out.append(_flat(line["left"])[-24:], style="dim").append(_marked(was.strip(), became.strip()))
                yield out.append(space + _flat(line["right"])[:24], style="dim")
        yield Text()

    def _verdicts(self) -> RenderableType:
        rows = []
        for line in self.tables["verdicts"].to_dict("records"):
            style = "green" if line["passed"] else "bold red"
            why = Text(visible(line["why"]), style="" if line["passed"] else style)
            rows.append([Text(SIGNS[bool(line["passed"])], style=style), line["model"], line["what"], why])
        titles = ("", "model", "threshold", "why")
        return grid(titles, rows, left=titles)


def _marked(was: str, became: str) -> Text:
    """⟨4→5⟩, ⟨+not⟩, ⟨−,⟩: to be read without colours, too."""
    sign = "→" if was and became else "+" if became else "−"
    old, new = (was, "red"), (became, "bold green")
    return Text.assemble("⟨", old if became else "", sign, new if became else old, "⟩")


def _flat(text: str) -> str:
    return visible(text).replace("\n", " ")
