"""An audit in the terminal: a table a model, the advice on chunks, the worst examples, the verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from oneword.report.audit.tables import Line, advice, bracketed, chunk_shown, lines_of, meanings, models_of, of_model
from oneword.report.table import SIGNS, shown
from oneword.report.words.terminal import visible

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
                yield Text(f"→ {advice(line, self.about['share'])}")
            yield Text()
        if len(self.tables["worst"]):
            yield from self._examples(models_of(self.tables["types"])[0])
        if len(self.tables["verdicts"]):
            yield self._verdicts()
            yield Text()
        for note in [*meanings(self.about), *self.notes]:
            yield Text(f"· {visible(note)}", style="dim")

    def _types(self, model: str, *, wide: bool) -> RenderableType:
        grid = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        for name in ("edit", "kind"):
            grid.add_column(name, no_wrap=True)
        for name in ("edits", "change", *(("cosine",) if wide else ()), "AUC against noise", "∝ n^", "chunk ≤"):
            grid.add_column(name, justify="right", no_wrap=True)
        chunks = {line["type"]: line for line in lines_of(self.tables["chunks"], model)}
        for line in lines_of(self.tables["types"], model):
            signal = line["kind"] == "signal"
            unseen = bool(line["edits"]) and line["unseen"] == line["edits"]
            change, decay = shown(line["change"], 3), shown(line["decay"], 2)
            if wide:
                change = bracketed(line["change"], line["change_low"], line["change_high"], 3)
                decay = bracketed(line["decay"], line["decay_low"], line["decay_high"])
            grid.add_row(
                Text(visible(str(line["type"]))),
                Text(line["kind"], style="bold" if signal else "dim"),
                str(line["edits"]),
                ("not seen by the tokenizer" if wide else "not seen") if unseen else change,
                *([shown(line["cosine"], 3)] if wide else []),
                _auc(line) if signal else Text(""),
                decay,
                Text(chunk_shown(chunks[line["type"]]) if line["type"] in chunks else ""),  # no markup: "[none, 56]"
            )
        return grid

    def _examples(self, model: str) -> Iterator[RenderableType]:
        worst = of_model(self.tables["worst"], model)
        for kind, title in (("signal", "hardly noticed"), ("noise", "noise that moves it most")):
            some = worst[(worst["kind"] == kind) & (worst["rank"] <= EXAMPLES)]
            if some.empty:
                continue
            yield Text(f"{title} ({visible(model)})", style="bold")
            for line in some.to_dict("records"):
                out = Text(
                    f"  {line['type']:<12} {shown(line['change'], 3)}, {shown(line['times_noise'], 2)}× the noise  "
                )
                was, became = _flat(line["was"]), _flat(line["became"])
                space = " " if (was or became).endswith(" ") else ""  # outside of the brackets
                out.append(_flat(line["left"])[-24:], style="dim").append(_marked(was.strip(), became.strip()))
                yield out.append(space + _flat(line["right"])[:24], style="dim")
        yield Text()

    def _verdicts(self) -> RenderableType:
        grid = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        for name in ("", "model", "threshold", "why"):
            grid.add_column(name)
        for line in self.tables["verdicts"].to_dict("records"):
            style = "green" if line["passed"] else "bold red"
            grid.add_row(
                Text(SIGNS[bool(line["passed"])], style=style),
                Text(visible(line["model"])),
                Text(visible(line["what"])),
                Text(visible(line["why"]), style="" if line["passed"] else style),
            )
        return grid


def _auc(line: Line) -> Text:
    style = "green" if line["auc_low"] > 0.5 else "red" if line["auc_high"] < 0.5 else ""
    return Text(bracketed(line["auc"], line["auc_low"], line["auc_high"]), style=style)


def _marked(was: str, became: str) -> Text:
    """⟨4→5⟩, ⟨+not⟩, ⟨−,⟩: to be read without colours, too."""
    sign = "→" if was and became else "+" if became else "−"
    return Text.assemble(
        "⟨", (was, "red") if became else "", sign, (became, "bold green") if became else (was, "red"), "⟩"
    )


def _flat(text: str) -> str:
    return visible(text).replace("\n", " ")
