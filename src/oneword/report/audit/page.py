"""An audit as one HTML file: verdicts, AUCs, how long chunks may be, the worst examples. No script, no request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import pandas as pd

from oneword.report.audit.chart import aucs, aucs_height, changes, hearing
from oneword.report.audit.tables import SAID, advice, bracketed, chunk_shown, lines_of, meanings, models_of, of_model
from oneword.report.templating import facts, write_page

TEMPLATE = "audit.html.j2"


def render(
    tables: Mapping[str, pd.DataFrame], about: Mapping[str, Any], notes: Sequence[str], path: Path, *, command: str = ""
) -> Path:
    """Write the page of an audit, given as its tables."""
    types, lengths, verdicts = tables["types"], tables["lengths"], tables["verdicts"]
    models = models_of(types)
    signals = list(dict.fromkeys(types.loc[types["kind"] == "signal", "type"]))
    heard = [hearing(lengths, name, about["share"]) for name in signals]
    moved = [changes(lengths, tables["edits"], model) for model in models]
    against_noise = aucs(types)
    return write_page(
        TEMPLATE,
        path,
        cards=list(_cards(tables, about)),
        failed=int((~verdicts["passed"].astype(bool)).sum()),
        verdicts=verdicts.to_dict("records"),
        aucs=against_noise,
        aucs_height=aucs_height(against_noise),
        heard=[panel for panel in heard if panel is not None],
        moved=[panel for panel in moved if panel is not None],
        advice=[(model, [advice(line, about["share"]) for line in lines_of(tables["chunks"], model)])
                for model in models],
        rows=[(model, list(_rows(tables, model))) for model in models],
        against=[(model, _against(of_model(tables["against"], model))) for model in models],
        worst=[(model, lines_of(tables["worst"], model)) for model in models],
        share=about["share"],
        meanings=[*meanings(about), *notes],
        command=command,
        facts=[("", list(_facts(about)))],
    )  # fmt: skip


def notebook(tables: Mapping[str, pd.DataFrame], about: Mapping[str, Any]) -> str:
    """The tables of types, the advice on chunks and what was missed, as HTML for a notebook; every text is escaped."""
    parts = []
    for model in models_of(tables["types"]):
        shown_as = {"type": "edit", "kind": "kind", "edits": "edits", "change_shown": "change",
                    "auc_shown": "AUC against noise", "chunk_shown": "chunk ≤"}  # fmt: skip
        rows = pd.DataFrame(list(_rows(tables, model)))[list(shown_as)].rename(columns=shown_as)
        parts.append(f"<p><b>{escape(model)}</b></p>{rows.to_html(index=False, escape=True)}")
        parts += [f"<p>{escape(advice(line, about['share']).capitalize())}.</p>"
                  for line in lines_of(tables["chunks"], model)[:1]]  # fmt: skip
    missed = tables["verdicts"][~tables["verdicts"]["passed"].astype(bool)]
    parts += [f"<p>✗ {escape(line['model'])}: {escape(line['why'])}</p>" for line in missed.to_dict("records")]
    return "".join(parts)


def _cards(tables: Mapping[str, pd.DataFrame], about: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """For each model its first signal: the AUC and the length of chunks."""
    for model in models_of(tables["types"]):
        types = of_model(tables["types"], model)
        signals = types[(types["kind"] == "signal") & types["auc"].notna()].head(1)
        for line in signals.to_dict("records"):
            what = SAID.get(line["type"], line["type"])
            chunks = [each for each in lines_of(tables["chunks"], model) if each["type"] == line["type"]]
            said = [advice(each, about["share"]) for each in chunks]
            yield {
                "value": f"{line['auc']:.2f}",
                "label": f"{model}: AUC of “{what}” against noise",
                "note": f"95 % interval {line['auc_low']:.2f} to {line['auc_high']:.2f}. " + "".join(said).capitalize(),
            }


def _rows(tables: Mapping[str, pd.DataFrame], model: str) -> Iterator[dict[str, Any]]:
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


def _against(table: pd.DataFrame) -> dict[str, Any]:
    """Signals down, noise across."""
    cells = {
        (line["type"], line["against"]): bracketed(line["auc"], line["auc_low"], line["auc_high"])
        for line in table.to_dict("records")
    }
    across = list(dict.fromkeys(table["against"]))
    rows = [(name, [cells.get((name, other), "–") for other in across]) for name in dict.fromkeys(table["type"])]
    return {"across": across, "rows": rows}


def _facts(about: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What the numbers rest on, with a line for each model."""
    for model in about["models"]:
        said = {key: value for key, value in model.items() if key not in ("map", "model")}
        yield from facts({str(model.get("model", "model")): said})
    yield from facts({name: value for name, value in about.items() if name != "models"})
