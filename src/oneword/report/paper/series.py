"""What each picture and each claim is about: the rows of the results table, chosen once for page, paper and verdict."""

from __future__ import annotations

import numpy as np
import pandas as pd

from oneword import theory

FAMILIES = ("corpus", "gaussian", "clustered")
CURVE = ["map", "words_from", "d", "depth"]
# Objectives that choose one Δ a lesson; "frontier" and "lowest-alignment" are searches of their own.
CHOSEN = ("loss", "features", "alignment")


# What pictures and claims read. A run that measured only some kinds may lack the columns of others.
TEXTS = (
    "kind", "map", "words_from", "encoder", "corpus", "activation", "positions", "word", "training", "objective",
    "text", "from_token", "to_token",
)  # fmt: skip
NUMBERS = (
    "n", "d", "k", "depth", "trial", "seed", "changed", "position", "value", "first", "upper", "baseline",
    "real_mean", "real_max", "mass_before", "mass_after", "N", "sample", "label", "g", "err", "gamma", "signed_delta",
    "alignment", "rho", "residual", "identity_gap", "condition", "lambda_min_over_k", "dropped",
    "sentence", "from_index", "to_index", "weight",
)  # fmt: skip


def complete(table: pd.DataFrame) -> pd.DataFrame:
    """The table with every column there, numbers as float64 (NaN where there is none) and texts as objects."""
    numbers = {name: table[name].astype("float64") if name in table else np.nan for name in NUMBERS}
    texts = {name: table[name].astype(object) if name in table else None for name in TEXTS}
    return pd.DataFrame(numbers | texts, index=table.index)


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


def lessons(table: pd.DataFrame, *objectives: str) -> pd.DataFrame:
    """Rows of learning, of these objectives (default: the three that choose one Δ)."""
    rows = of_kind(table, "learning")
    return rows[rows["objective"].isin(objectives or CHOSEN)]


def error_slack(rows: pd.DataFrame) -> pd.Series:
    """ε of each row (`theory.error_slack`); ρ = 1 if fine-tuned."""
    rho = rows["rho"].where(rows["training"] == "retrained", 1.0)
    slack: pd.Series = theory.error_slack(rows["residual"], rows["n"], rows["d"], width(rows), rho)
    return slack


def error_bound(rows: pd.DataFrame, drift: str = "gamma") -> pd.Series:
    """The error that RF stays above, at each row's own ε. With drift = "g", of all changes that have γ ≤ g."""
    bound: pd.Series = theory.error_bound(rows[drift], error_slack(rows))
    return bound


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


def _sensitivity(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of sensitivity; of the layers, those with ReLU, to which the laws and the paper's figures belong."""
    rows = of_kind(table, "sensitivity")
    return rows[~rows["map"].isin(["rf", "drf"]) | rows["activation"].isna() | (rows["activation"] == "relu")]
