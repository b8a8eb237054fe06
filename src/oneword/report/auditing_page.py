"""An audit as one HTML file: verdicts, AUCs, how long chunks may be, the worst examples. No script, no request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from oneword.checks import shortened
from oneword.plot import Axis, Look, Mark, Panel, numbers
from oneword.plot.description import Numbers
from oneword.plot.look import series_look
from oneword.report.auditing import SHORT_NAMES, advice, bracketed, lines_of, meanings, models_of, of_model, rows_of
from oneword.report.templating import facts, write_page


def render(
    tables: Mapping[str, pd.DataFrame], about: Mapping[str, Any], notes: Sequence[str], path: Path, *, command: str = ""
) -> Path:
    """Write the page of an audit, given as its tables."""
    types, lengths, verdicts = tables["types"], tables["lengths"], tables["verdicts"]
    models = models_of(types)
    unit = " or ".join(dict.fromkeys(tables["chunks"]["unit"])) or "tokens"
    signals = list(dict.fromkeys(types.loc[types["kind"] == "signal", "type"]))
    signal_aucs = aucs(types)
    return write_page(
        "audit.html.j2",
        path,
        cards=list(_cards(tables, about)),
        failed=int((~verdicts["passed"].astype(bool)).sum()),
        verdicts=verdicts.to_dict("records"),
        aucs=signal_aucs,
        aucs_height=aucs_height(signal_aucs),
        heard=list(filter(None, (hearing(lengths, name, about["share"], unit) for name in signals))),
        moved=list(filter(None, (changes(lengths, tables["noise"], model, unit) for model in models))),
        advice=[(model, [advice(line, about["share"]) for line in lines_of(tables["chunks"], model)])
                for model in models],
        rows=[(model, list(rows_of(tables, model))) for model in models],
        against=[(model, _against(of_model(tables["against"], model))) for model in models],
        worst=[(model, lines_of(tables["worst"], model)) for model in models],
        share=about["share"],
        unit=unit,
        meanings=[*meanings(about), *notes],
        command=command,
        facts=[("", list(_facts(about)))],
    )  # fmt: skip


def _cards(tables: Mapping[str, pd.DataFrame], about: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """For each model its first signal: the AUC and the length of chunks."""
    for model in models_of(tables["types"]):
        types = of_model(tables["types"], model)
        signals = types[(types["kind"] == "signal") & types["auc"].notna()].head(1)
        for line in signals.to_dict("records"):
            what = SHORT_NAMES.get(line["type"], line["type"])
            chunks = [each for each in lines_of(tables["chunks"], model) if each["type"] == line["type"]]
            said = "".join(advice(each, about["share"]) for each in chunks).capitalize()
            yield {
                "value": f"{line['auc']:.2f}",
                "label": f"{model}: AUC of “{what}” against noise",
                "note": f"95 % interval {line['auc_low']:.2f} to {line['auc_high']:.2f}. {said}",
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
    """Settings and versions, with an entry for each model."""
    for model in about["models"]:
        said = {key: value for key, value in model.items() if key not in ("map", "model")}
        yield from facts({str(model.get("model", "model")): said})
    yield from facts({name: value for name, value in about.items() if name != "models"})


# Plots: models and signals are told apart by colour and by mark -------------------------------------------------------


QUARTERS = (0.0, 0.25, 0.5, 0.75, 1.0)
ROW = 18.0  # pixels of a line of the plot of AUCs
NOISE = Look("noise: quartiles and median", "grey")
LIMIT = Look("", "ink")


def aucs(types: pd.DataFrame) -> Panel:
    """Signals down, a line a model: dot and interval; the line at 0.5 is what chance gives."""
    signals, models = types[(types["kind"] == "signal") & types["auc"].notna()], models_of(types)
    names = list(dict.fromkeys(signals["type"]))
    marks = [Mark("line", (0.5, 0.5), (-0.5, len(names) - 0.5), LIMIT, dash="dash")]
    for k, model in enumerate(models):
        own = of_model(signals, model)
        aside = 0.7 * ((k + 0.5) / len(models) - 0.5)
        at = numbers(names.index(name) + aside for name in own["type"])
        marks.append(_dots(own, "auc", at, series_look(k, model), horizontal=True))
    said = tuple(shortened(SHORT_NAMES.get(name, name), 14) for name in names)
    ticks = tuple(f"{value:g}" for value in QUARTERS)
    x = Axis("AUC; 0.5: no difference from noise", at=QUARTERS, names=ticks, low=0, high=1)
    y = Axis("", names=said, reverse=True)
    return Panel("AUC of each signal against the noise, with intervals", x, y, tuple(marks))


def _dots(table: pd.DataFrame, column: str, at: Numbers, look: Look, *, horizontal: bool = False) -> Mark:
    """The values of a column with their intervals, each at a place along the other axis."""
    values, low, high = (numbers(table[column + end]) for end in ("", "_low", "_high"))
    x, y = (values, at) if horizontal else (at, values)
    return Mark(
        "dots",
        x,
        y,
        look,
        look.name,
        low=low,
        high=high,
        interval="95 % interval",
        whiskers=True,
        horizontal=horizontal,
    )


def aucs_height(panel: Panel) -> float:
    """Pixels: a line for each model under each signal."""
    return 60 + len(panel.y.names) * (ROW * (len(panel.marks) - 1) + 10)


def changes(lengths: pd.DataFrame, noise: pd.DataFrame, model: str, unit: str) -> Panel | None:
    """One model: the noise as a band from quartile to quartile, signals as lines, both axes logarithmic."""
    some = of_model(lengths, model)
    some = some[(some["length"] > 0) & (some["kind"] == "signal") & (some["change"] > 0)]
    band = of_model(noise, model)
    sizes = sorted({*some["length"], *band["length"]})
    if len(sizes) < 2:
        return None
    marks = []
    for k, name in enumerate(dict.fromkeys(some["type"])):
        line = some[some["type"] == name].sort_values("length")
        label = SHORT_NAMES.get(name, name)
        marks.append(Mark("points", numbers(line["length"]), numbers(line["change"]), series_look(k, label), label))
    if len(band) > 1:
        at, low, middle, high = (numbers(band[name]) for name in ("length", "change_25", "change", "change_75"))
        marks.insert(0, Mark("band", at, low, NOISE, top=high))
        marks.append(Mark("line", at, middle, NOISE, NOISE.name, dash="dot"))
    return Panel(model, _lengths(sizes, unit), Axis("change", log=True), tuple(marks))


def hearing(lengths: pd.DataFrame, type: str, wanted: float, unit: str) -> Panel | None:
    """One signal: the share of texts that hear it against length, a line a model, with the share that is wanted."""
    some = lengths[(lengths["type"] == type) & lengths["share"].notna()]
    sizes = sorted(set(some["length"]))
    if len(sizes) < 2:
        return None
    models = models_of(lengths)
    marks = [Mark("line", (sizes[0], sizes[-1]), (wanted, wanted), LIMIT, dash="dash")]
    for k, model in enumerate(models):
        line = of_model(some, model).sort_values("length")
        # Else intervals of several models hide each other.
        aside = (sizes[-1] / sizes[0]) ** (0.018 * (k - (len(models) - 1) / 2))
        at, look = numbers(aside * line["length"]), series_look(k, model)
        marks += [Mark("line", at, numbers(line["falling"]), look), _dots(line, "share", at, look)]
    y = Axis("share of texts", at=QUARTERS, names=tuple(f"{share:.0%}" for share in QUARTERS), low=0, high=1)
    return Panel(f"Texts that hear: {SHORT_NAMES.get(type, type)}", _lengths(sizes, unit), y, tuple(marks))


def _lengths(sizes: Sequence[int], unit: str) -> Axis:
    return Axis(unit, log=True, at=numbers(sizes))
