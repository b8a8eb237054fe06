"""Rows of a table of results, chosen for figures and claims; and the exponents of their curves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from oneword.report.paper.series import CURVE, complete, of_kind, one_word, width
from oneword.statistics import exponent


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
