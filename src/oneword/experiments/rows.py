"""Rows of a table of results, chosen once for figures, claims and pages; and the exponents of their curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from oneword import theory
from oneword.maps import registry
from oneword.statistics import exponent

FAMILIES = ("corpus", "gaussian", "clustered")
LAYERS = [name for name, known in registry.MAPS.items() if known.has_blocks]
SCORES = [name for name, known in registry.MAPS.items() if known.score is not None]
CURVE = ["map", "words_from", "d", "depth"]
# Objectives that choose one Δ for a new text; "frontier" and "lowest-alignment" are searches of their own.
CHOSEN = ("loss", "features", "alignment")


# The table: one set of columns for every kind of cell, null where a column does not apply. The types are fixed as well,
# so that the same rows make the same Parquet file, bit for bit.

_TEXT, _WHOLE, _REAL = pa.string(), pa.int64(), pa.float64()

COLUMNS: Mapping[str, pa.DataType] = {
    # every kind
    "kind": _TEXT, "key": _TEXT, "row": _WHOLE, "map": _TEXT, "words_from": _TEXT, "encoder": _TEXT, "corpus": _TEXT,
    "n": _WHOLE, "d": _WHOLE, "k": _WHOLE, "depth": _WHOLE, "activation": _TEXT, "trial": _WHOLE, "seed": _WHOLE,
    # sensitivity; a review shares value, upper, baseline, position and word
    "changed": _WHOLE, "positions": _TEXT, "value": _REAL, "first": _REAL, "upper": _REAL, "baseline": _REAL,
    "real_mean": _REAL, "real_max": _REAL, "predicted": _REAL, "mass_before": _REAL, "mass_after": _REAL,
    "position": _WHOLE, "word": _TEXT, "status": _TEXT, "certificate": _TEXT,
    # learning
    "N": _WHOLE, "sample": _WHOLE, "label": _WHOLE, "training": _TEXT, "objective": _TEXT, "g": _REAL, "err": _REAL,
    "gamma": _REAL, "signed_delta": _REAL, "f": _REAL, "alignment": _REAL, "rho": _REAL, "residual": _REAL,
    "identity_gap": _REAL, "condition": _REAL, "lambda_min_over_k": _REAL, "dropped": _WHOLE,
    # chat
    "answer": _TEXT,
    # attention_map; a chat shares sentence and text
    "sentence": _WHOLE, "text": _TEXT, "from_token": _TEXT, "to_token": _TEXT, "from_index": _WHOLE,
    "to_index": _WHOLE, "weight": _REAL,
}  # fmt: skip


def complete(table: pd.DataFrame) -> pd.DataFrame:
    """The table with every column there, numbers as float64 (NaN where there is none) and texts as objects.

    A run that measured only some kinds may lack the columns of others.
    """
    missing = {name: None if kind == _TEXT else np.nan for name, kind in COLUMNS.items()}
    types: dict[str, Any] = {name: object if kind == _TEXT else "float64" for name, kind in COLUMNS.items()}
    there = {name: table[name].astype(types[name]) for name in COLUMNS if name in table}
    return pd.DataFrame(missing | there, index=table.index)


def of_kind(table: pd.DataFrame, kind: str) -> pd.DataFrame:
    """The rows of one kind."""
    return table[table["kind"] == kind]


def one_word(table: pd.DataFrame) -> pd.DataFrame:
    """S when one word changes, ReLU layers: every trial of every curve, each curve with one rule for positions.

    Rows of one random position (exact in law, where all positions would not fit) stand for the sup only where they
    cover more lengths than the rows of all positions: the two are never mixed in one curve.
    """
    rows = _sensitivity(table)
    rows = rows[(rows["changed"] == 1) & rows["positions"].isin(["all", "one"])]
    lengths = rows.groupby([*CURVE, "positions"], dropna=False)["n"].transform("nunique")
    # "all" goes first where both cover as many.
    better = lengths + 0.5 * (rows["positions"] == "all")
    best = better.groupby([rows[name] for name in CURVE], dropna=False).transform("max")
    # The same trial may have been measured twice, with and without a certificate: it is one trial.
    trial = [*CURVE, "k", "n", "trial", "seed", "encoder", "corpus"]
    once = rows[better == best].sort_values("upper", kind="stable", na_position="last").drop_duplicates(trial)
    return once.sort_index()


def of_map(rows: pd.DataFrame, map_: str, family: str | None = None) -> pd.DataFrame:
    """The rows of one map; of one family of words, if it is named."""
    rows = rows[rows["map"] == map_]
    return rows if family is None else rows[rows["words_from"] == family]


def several_words(table: pd.DataFrame) -> pd.DataFrame:
    """S^(m) at the sizes where several m were measured, m = 1 among them; `law` is √(m/n)(1+√(2md/k)), for RF."""
    rows = _sensitivity(table)
    rows = rows[rows["positions"] == "all"]
    size = ["map", "words_from", "n", "d"]
    if rows.empty:
        return rows.assign(law=pd.Series(dtype="float64"))
    rows = rows[rows.groupby(size, dropna=False)["changed"].transform("nunique") > 1]
    of_rf = rows["map"] == "rf"
    law = pd.Series(np.nan, index=rows.index)
    law[of_rf] = theory.rf_words(*(rows.loc[of_rf, name] for name in ("changed", "n", "d")), width(rows)[of_rf])
    return rows.assign(law=law)


def learning_rows(table: pd.DataFrame, *objectives: str) -> pd.DataFrame:
    """Rows of learning, of these objectives (default: all), with what RF is bound to.

    `slack` is ε of each row, ρ being 1 if fine-tuned; `bound` is the error that RF stays above at the row's γ, and
    `bound_at_g` the one for all changes that have γ ≤ g.
    """
    rows = of_kind(table, "learning")
    rows = rows[rows["objective"].isin(objectives)] if objectives else rows
    rho = rows["rho"].where(rows["training"] == "retrained", 1.0)
    slack = theory.error_slack(rows["residual"], rows["n"], rows["d"], width(rows), rho)
    bounds = {name: theory.error_bound(rows[of], slack) for name, of in (("bound", "gamma"), ("bound_at_g", "g"))}
    return rows.assign(slack=slack, **bounds)


def width(rows: pd.DataFrame) -> pd.Series:
    """k, the number of random features: D = nd where none was set."""
    return rows["k"].fillna(rows["n"] * rows["d"])


def first_family(rows: pd.DataFrame) -> str | None:
    """The words to show where one family is shown: real ones where there are any."""
    there = set(rows["words_from"]) if len(rows) else set()
    return next((family for family in FAMILIES if family in there), None)


def widest(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of the largest d that was measured at two lengths or more (or of the largest d)."""
    if rows.empty:
        return rows
    lengths = rows.groupby("d")["n"].nunique()
    several = lengths[lengths > 1]
    return rows[rows["d"] == (several if len(several) else lengths).index.max()]


def main_rows(rows: pd.DataFrame) -> pd.DataFrame:
    """Of each map the rows of one family of words (of reviews, where there are any) at its largest dimension."""
    parts = [widest(some[some["words_from"] == first_family(some)]) for _, some in rows.groupby("map", sort=False)]
    return pd.concat([rows.iloc[:0], *parts])


def _sensitivity(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of sensitivity; of the layers, those with ReLU, to which the laws and the paper's figures belong."""
    rows = of_kind(table, "sensitivity")
    return rows[~rows["map"].isin(LAYERS) | rows["activation"].isna() | (rows["activation"] == "relu")]


# Figures


def figure_rows(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """The rows of each figure of the report, by its id; and under other names those of its tables and cards.

    `report.paper` draws what is in them. Maps of one's own are in every figure that is not about maps of the paper.
    """
    table = complete(table)
    curves = one_word(table)
    scores = every_score(curves)
    # Where all scores have a picture of their own, the others keep to those of the paper.
    others = [name for name in SCORES if name not in ("attention", "attention-relu")]
    paper = curves if scores.empty else curves[~curves["map"].isin(others)]
    own = sorted(set(curves["map"].dropna()) - set(registry.MAPS))
    shown = curves[curves["map"].isin(["rf", "attention", "attention-relu", *own])]
    rf, drf, soft = (of_map(curves, name) for name in ("rf", "drf", "attention"))
    relu = [of_map(paper, name) for name in ("attention-relu", "attention-relu-unnormalised")]
    learnt, frontier = (main_rows(learning_rows(table, *some)) for some in (CHOSEN, ["frontier"]))
    return {
        "contrast": _deepest(main_rows(paper)),
        "fig2-random-features": pd.concat([_curves(rf, "d"), _curves(main_rows(drf), "depth")]),
        "fig3-attention": pd.concat([_curves(rows, "d") for rows in (soft, *relu)]),
        "n-over-d": _first(soft).assign(n_over_d=_first(soft)["n"] / _first(soft)["d"]),
        "scores": scores,
        "families": _families(curves[curves["map"].isin(["rf", "attention", *own])]),
        "mass": main_rows(shown[shown["mass_after"].notna()]),
        "kinds": main_rows(shown),
        "m-words": _longest(main_rows(several_words(table))),
        "positions": main_rows(shown[shown["first"].notna() & (shown["positions"] == "all")]),
        "fig4-fine-tuned": learnt[learnt["training"] == "fine-tuned"],
        "fig5-retrained": learnt[learnt["training"] == "retrained"],
        "frontier": _most_limits(frontier),
        "objectives": learnt,
        "fig1-attention-maps": of_kind(table, "attention_map"),
        "fig1-chat": of_kind(table, "chat"),
        # Beside the figures: cards, the coloured reviews, and what the run was about.
        "lowest-alignment": learning_rows(table, "lowest-alignment"),
        "frontier-points": frontier,
        "reviews": of_kind(table, "review"),
        "all": table,
    }


def every_score(curves: pd.DataFrame) -> pd.DataFrame:
    """Attention of one family of words, at the largest d where three scores were measured at two lengths or more."""
    rows = _first(curves[curves["map"].isin(SCORES)])
    rows = rows[rows.groupby(["map", "d"])["n"].transform("nunique") > 1]
    rows = rows[rows.groupby("d")["map"].transform("nunique") > 2]
    return rows[rows["d"] == rows["d"].max()]


def _first(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["words_from"] == first_family(rows)]


def _deepest(rows: pd.DataFrame) -> pd.DataFrame:
    """Of maps with a depth, the rows of the largest."""
    deepest = rows.groupby("map")["depth"].transform("max")
    return rows[rows["depth"].isna() | (rows["depth"] == deepest)]


def _longest(rows: pd.DataFrame) -> pd.DataFrame:
    """Of each map the rows of its longest texts."""
    return rows[rows["n"] == rows.groupby("map")["n"].transform("max")]


def _curves(rows: pd.DataFrame, by: str) -> pd.DataFrame:
    """One family of words, without the dimensions or depths that were measured at one length: those are no curve."""
    rows = _first(rows)
    lengths = rows.groupby(by)["n"].transform("nunique")
    return rows[lengths > 1] if (lengths > 1).any() else rows


def _families(rows: pd.DataFrame) -> pd.DataFrame:
    """Each map and family of words at its largest dimension; nothing where there is one family only."""
    if rows["words_from"].nunique() < 2:
        return rows.iloc[:0]
    parts = [widest(some) for _, some in rows.groupby(["map", "words_from"], sort=False)]
    return pd.concat([rows.iloc[:0], *parts])


def _most_limits(frontier: pd.DataFrame) -> pd.DataFrame:
    """Without lengths that have fewer limits g than others of their map: those were measured for the claims alone."""
    limits = frontier.groupby(["map", "n"])["g"].transform("nunique")
    return frontier[limits == limits.groupby(frontier["map"]).transform("max")]


# Exponents


def fits(table: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """The exponent of S in n of every curve with two lengths or more: what `report` draws through the dots.

    Columns: map, words_from, d, depth, slope, low, high, intercept, n_low, n_high.
    """
    lines: list[dict[str, Any]] = []
    for key, rows in one_word(complete(table)).groupby(CURVE, dropna=False, sort=True):
        usable = rows[np.isfinite(rows["value"]) & (rows["value"] > 0)]
        if usable["n"].nunique() > 1 and _alike(usable):
            fitted = exponent(usable, seed=seed)
            lines.append(
                dict(zip(CURVE, key, strict=True))
                | {"slope": fitted.slope, "low": fitted.low, "high": fitted.high, "intercept": fitted.intercept}
                | {"n_low": fitted.sizes[0], "n_high": fitted.sizes[-1]}
            )
    return pd.DataFrame(lines, columns=[*CURVE, "slope", "low", "high", "intercept", "n_low", "n_high"])


# Of a trained model: the sup, random real words on average, and the one of them that does most.
TRAINED = {"value": "sup", "real_max": "best_word", "real_mean": "random_word"}


def trained_fits(table: pd.DataFrame, *, seed: int = 0) -> pd.DataFrame:
    """The exponents in n of what `trained_lengths` gives: model, output, column, slope, low, high."""
    lines: list[dict[str, Any]] = []
    for (model, output), rows in trained_lengths(table).groupby(["model", "output"], sort=True):
        ceiling = ["upper"] if rows["upper"].notna().all() else []
        for column in (*ceiling, *TRAINED.values()):
            alike = all(rows[name].nunique(dropna=False) == 1 for name in ("corpus", "positions"))
            if rows["n"].nunique() > 1 and alike:
                fitted = exponent(rows, y=column, seed=seed)
                about = {"model": model, "output": output, "column": column}
                lines.append(about | {"slope": fitted.slope, "low": fitted.low, "high": fitted.high})
    return pd.DataFrame(lines, columns=["model", "output", "column", "slope", "low", "high"])


def trained_lengths(table: pd.DataFrame) -> pd.DataFrame:
    """The rows of trained models by the names that pictures have: model, output, n, trial, upper, those of TRAINED."""
    rows = of_kind(table, "trained").rename(columns={"map": "model", "objective": "output", **TRAINED})
    named = ["model", "output", "corpus", "positions", "n", "trial", *TRAINED.values(), "upper"]
    return rows[named].reset_index(drop=True)


def _alike(rows: pd.DataFrame) -> bool:
    """Whether the rows are one curve: an exponent of several widths, encoders or corpora together means nothing."""
    relative = (width(rows) / (rows["n"] * rows["d"])).round(9)
    return relative.nunique() == 1 and all(rows[name].nunique(dropna=False) == 1 for name in ("encoder", "corpus"))
