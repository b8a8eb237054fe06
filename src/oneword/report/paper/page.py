"""The report as one HTML file: works from the disk, without a network, in light and dark.

Everything is inside: Vega's script once, the plots as data, the style. A content security policy forbids every request,
and code in texts. All texts go through jinja2's escaping.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from oneword.plot.interactive import OPTIONS, script, specifications
from oneword.report.looks import MAPS, OBJECTIVES, maps_in
from oneword.report.paper.claims import by_chance
from oneword.report.paper.figures import figures, fit_of
from oneword.report.paper.learning import by_length
from oneword.report.table import SIGNS, shown
from oneword.report.templating import missing_for_pages, page_template, write_page

TEMPLATE = "report.html.j2"
MOST_ENTRIES = 30  # of a list that is shown
ROUNDING = 1e-12  # an error below is 0: squares of what rounding leaves
# What tells one text under one map from another; the first trial goes first.
ONE_TEXT = ["trial", "seed", "words_from", "encoder", "corpus", "n", "d", "depth"]
ANSWERS = {True: ("holds", "good"), False: ("fails", "bad"), None: ("open", "unsure")}  # and how they look


def render(
    rows: Mapping[str, pd.DataFrame],
    claims: Sequence[Mapping[str, Any]],
    run: Mapping[str, Any],
    path: Path,
    fits: pd.DataFrame | None = None,
) -> Path:
    """Write the page of a run.

    | argument | meaning |
    |---|---|
    | `rows` | the rows of each figure and table, from `experiments.rows.figure_rows` |
    | `claims` | the claims of the verdict as plain values (`Claim.to_json`) |
    | `run` | what run.json holds |
    | `fits` | the exponents, from `experiments.rows.fits`; without them no fits and slopes are drawn |
    """
    check_installed()
    drawn: list[dict[str, Any]] = []
    for figure in figures(rows, fits):
        about = {"id": figure.id, "title": figure.title, "caption": figure.caption, "missing": figure.missing}
        drawn.append(about | {"specs": specifications(figure), "plot": figure})
    return write_page(
        TEMPLATE,
        path,
        claims=[_claim(claim, {figure["id"] for figure in drawn if figure["specs"]}) for claim in claims],
        chance=by_chance(claim.get("intervals", 0) for claim in claims),
        cards=[_judged(claims), *headlines(rows, fits)],
        figures=drawn,
        specs={f"{figure['id']}/{index}": spec for figure in drawn for index, spec in enumerate(figure["specs"])},
        options=OPTIONS,
        objectives=objective_lines(rows["objectives"]),
        reviews=reviews(rows["reviews"]),
        chat=chat_pair(rows["fig1-chat"]),
        chat_missing=dict(run.get("left_out") or {}).get("fig1-chat", ""),
        encoders=sorted(set(rows["all"]["encoder"].dropna())),
        meanings=[],
        command=str(run.get("command", "")),
        facts=[("", list(_facts(run, rows["all"])))],
        vega=script(),
    )


def check_installed() -> None:
    """Raise MissingExtraError where `render` would: before the work that a page is to show, not after it."""
    page_template(TEMPLATE)
    try:
        import vl_convert  # noqa: F401
    except ImportError as error:
        raise missing_for_pages(error) from None


def _claim(claim: Mapping[str, Any], drawn: set[str]) -> dict[str, Any]:
    answer, look = ANSWERS[claim["holds"]]
    figure = claim.get("figure", "")
    about = {"sign": SIGNS[claim["holds"]], "answer": answer, "look": look}
    return {"note": "", **claim, **about, "figure": figure if figure in drawn else ""}


def _judged(claims: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    holds, fails, unsure = (sum(claim["holds"] is answer for claim in claims) for answer in ANSWERS)
    label = "claims hold" + (f", {fails} fail{'s' if fails == 1 else ''}" if fails else "")
    label += f", {unsure} cannot be told" if unsure else ""
    return _card(f"{holds} of {len(claims)}", label, "judged by 95 % intervals from the results alone")


def headlines(rows: Mapping[str, pd.DataFrame], fits: pd.DataFrame | None) -> list[dict[str, str]]:
    """The few numbers to remember; each says what it is and which kind of number it is."""
    return [
        card
        for card in (
            _level(_longest(rows["contrast"], "attention"), "softmax attention", fits),
            _level(_longest(rows["contrast"], "rf"), "a fully connected layer", fits),
            _moved(_longest(rows["mass"], "attention")),
            _aligned(rows["lowest-alignment"]),
            _learnt(rows["frontier-points"]),
        )
        if card
    ]


def chat_pair(rows: pd.DataFrame) -> dict[str, Any]:
    """Fig. 1: both prompts of a chat model with its answers; empty without rows."""
    if rows.empty:
        return {}
    sides = [
        {"word": row["word"], "sent": row["text"], "answer": row["answer"], "log_odds": float(row["value"])}
        for row in rows.sort_values("sentence").head(2).to_dict("records")
    ]
    first, second = (side["log_odds"] for side in sides)
    return {"model": rows["map"].iloc[0], "sides": sides, "flips": first * second < 0}


def _card(value: str, label: str, note: str) -> dict[str, str]:
    return {"value": value, "label": label, "note": note}


def _longest(rows: pd.DataFrame, map_: str) -> pd.DataFrame:
    """The trials of the longest texts under one map."""
    rows = rows[rows["map"] == map_]
    return rows[rows["n"] == rows["n"].max()]


def _level(rows: pd.DataFrame, name: str, fits: pd.DataFrame | None) -> dict[str, str] | None:
    if rows.empty:
        return None
    upper, fit = rows["upper"].median(), fit_of(rows, fits)
    one = (rows["positions"] == "one").all()  # then the certificate is of that word alone, not of S
    note = f"searched (lower bound), median of {len(rows)} trials{', one position a trial' if one else ''}; "
    about = "one position, median" if one else "median"
    note += f"certified ({about}): at most {upper:.3g}" if pd.notna(upper) else "not certified"
    note += "" if fit is None else f"; exponent in n: {shown(fit['slope'], 2)}"
    label = f"S of {name} ({MAPS[rows['map'].iloc[0]].name.partition(' ')[0]}) for texts of {rows['n'].max():g} words"
    return _card(f"≥ {rows['value'].median():.3g}", label, note)


def _moved(rows: pd.DataFrame) -> dict[str, str] | None:
    if rows.empty:
        return None
    before, after = 100 * rows["mass_before"].median(), 100 * rows["mass_after"].median()
    label = f"attention on the changed word before and after (RAF, {rows['n'].max():g} words)"
    return _card(f"{before:.2g} → {after:.2g} %", label, "exact for the changes that were found, medians")


def _aligned(lowest: pd.DataFrame) -> dict[str, str] | None:
    """At the longest texts of each map; retraining, which is what people do, where it was measured."""
    lowest = lowest[lowest["training"] == lowest["training"].max()]
    values = []
    for map_ in ("rf", "attention"):
        some = lowest[lowest["map"] == map_]
        values.append(some.loc[some["n"] == some["n"].max(), "alignment"].median())
    if any(map(pd.isna, values)):
        return None
    note = f"searched (upper bounds on the lowest F), medians, {lowest['training'].iloc[0]}; 1: no difference is seen"
    return _card(f"{shown(values[0], 2)} / {shown(values[1], 2)}", "lowest alignment F under RF / under RAF", note)


def _learnt(frontier: pd.DataFrame) -> dict[str, str] | None:
    points = frontier[(frontier["map"] == "attention") & (frontier["g"] <= 1)]
    points = points[points["g"] == points["g"].max()]
    points = points[points["training"] == points["training"].max()]
    if points.empty:
        return None
    g, err, bound = points["g"].max(), points["err"].median(), points["bound_at_g"].median()
    label = f"lowest error of RAF on the changed text under γ ≤ {g:g}; RF at such lengths keeps {bound:.2g} or more"
    note = f"attained by changes that were found, median of {len(points)} new texts, {points['training'].iloc[0]}"
    return _card("0" if err < ROUNDING else f"≤ {err:.2g}", label, note)


def objective_lines(rows: pd.DataFrame) -> dict[str, Any]:
    """The three objectives side by side: means over new texts, and how often the bound of RF is undercut."""
    rows = rows.assign(under=(rows["err"] < rows["bound"]).astype("float64"))
    lines = []
    for name, _, own in by_length(rows):
        for training, some in own.groupby("training"):
            each = [some[some["objective"] == objective] for objective in OBJECTIVES]
            columns = ["err", "gamma", "alignment", "under"]
            cells = [chosen[columns].mean().to_dict() if len(chosen) else None for chosen in each]
            lines.append({"map": name, "training": training, "cells": cells, "texts": max(map(len, each))})
    return {"names": [look.name for look in OBJECTIVES.values()], "lines": lines}


def reviews(rows: pd.DataFrame) -> list[dict[str, Any]]:
    """One review under each map, that of its first trial: its words in order, coloured by how sensitive they are."""
    out = []
    for look, trials in sorted(maps_in(rows), key=lambda each: str(each[1]["map"].iloc[0])):
        _, rows = next(iter(trials.groupby(ONE_TEXT, sort=True, dropna=False)))
        rows = rows.sort_values("position", kind="stable")
        low, high = rows["value"].min(), rows["value"].max()
        words = [
            {
                "word": str(line["word"]),
                "value": line["value"],
                "upper": line["upper"],
                "baseline": line["baseline"],
                "strength": round((line["value"] - low) / (high - low), 3) if high > low else 1.0,
            }
            for line in rows.to_dict("records")
        ]
        label = {1: "a positive review", -1: "a negative review"}.get(rows["label"].iloc[0], "a text")
        about = {"map": look.name, "label": label, "n": len(rows), "low": low, "high": high}
        out.append(about | {"words": words})
    return out


def _facts(run: Mapping[str, Any], table: pd.DataFrame) -> Iterator[tuple[str, str]]:
    """What the results rest on: everything in run.json but the command, and what the table itself says."""
    for entry in run.get("inputs", ()):
        yield str(entry["what"]), f"{entry['name']}, version {entry['version']}"
    if "inputs" not in run:
        for name in ("encoder", "corpus"):
            if table[name].notna().any():
                yield name, ", ".join(sorted(set(table[name].dropna())))
    for name, value in run.items():
        if name not in ("command", "format", "inputs") and value not in (None, ""):
            yield name.replace("_", " "), _flat(value)
    if "seed" not in run and table["seed"].notna().any():
        yield "seeds", ", ".join(f"{seed:g}" for seed in sorted(table["seed"].dropna().unique()))
    dropped = table["dropped"].max()
    if pd.notna(dropped):
        yield "texts that coincide after truncation, dropped", f"{dropped:g}"
    yield "rows of results", str(len(table))


def _flat(value: Any) -> str:
    if isinstance(value, Mapping | list | tuple) and len(value) > MOST_ENTRIES:
        return f"{len(value)} entries, in run.json"
    if isinstance(value, Mapping):
        return ", ".join(f"{name.replace('_', ' ')} {_flat(each)}" for name, each in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(_flat(each) for each in value)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
