"""Summaries of the table of edits: by type, by length, one type against another, and the worst examples."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import astuple
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from oneword.auditing import detection
from oneword.auditing.edits import NOISE, SIGNAL, Kind
from oneword.auditing.measurement import Settings
from oneword.statistics import Estimate

_AROUND = 48  # characters of the text shown on either side of an edit


def visible_noise(edits: pd.DataFrame) -> pd.DataFrame:
    """The noise that signals are compared with. Edits that the tokenizer cannot see would flatter every signal."""
    return edits[(edits["kind"] == NOISE) & edits["visible"]]


def with_noise_level(edits: pd.DataFrame) -> pd.DataFrame:
    """`times_noise`: the change over the median change by noise at the same length; NaN where there is no noise."""
    levels = visible_noise(edits).groupby("length")["change"].median()
    levels = levels.where(levels > 0)
    return edits.assign(times_noise=edits["change"] / edits["length"].map(levels).astype("float64"))


def noise(edits: pd.DataFrame) -> pd.DataFrame:
    """One row per length: quartiles of the change by all noise edits that move the vector."""
    some = visible_noise(edits)
    moved = some[(some["length"] > 0) & (some["change"] > 0)]
    quartiles = moved.groupby("length")["change"].quantile(np.array([0.25, 0.5, 0.75])).unstack()
    named = quartiles.reindex(columns=[0.25, 0.5, 0.75]).set_axis(["change_25", "change", "change_75"], axis=1)
    return named.rename_axis("length").reset_index()


def types(
    edits: pd.DataFrame, kinds: Mapping[str, Kind], without: Mapping[str, int], settings: Settings
) -> pd.DataFrame:
    """One row per type, even if no text has a place for it."""
    noise = visible_noise(edits)
    lines: list[dict[str, Any]] = []
    for type, kind in kinds.items():
        some = edits[edits["type"] == type]
        seen = some[some["visible"]] if kind == NOISE else some
        change, cosine = (detection.typical(seen, column, **settings.bootstrap) for column in ("change", "cosine"))
        auc = detection.auc(some if kind == SIGNAL else some.head(0), noise, **settings.bootstrap)
        fitted = detection.decay(seen, seed=settings.seed)
        silent = (some.groupby("text")["change"].median() == 0).mean() if len(some) else math.nan
        lines.append(
            {"type": type, "kind": kind, "edits": len(some), "texts": some["text"].nunique(),
             "without": without.get(type, 0), "unseen": int((~some["visible"]).sum()), "silent": float(silent)}
            | _with_interval("change", change)
            | {"cosine": cosine.value}
            | _with_interval("auc", auc)
            | _with_interval("decay", fitted.estimate if fitted else detection.UNKNOWN)
        )  # fmt: skip
    return pd.DataFrame(lines)


def _with_interval(name: str, found: Estimate) -> dict[str, float]:
    return {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}


def against(edits: pd.DataFrame, kinds: Mapping[str, Kind], settings: Settings) -> pd.DataFrame:
    """The AUC of each signal type against each noise type."""
    noise = visible_noise(edits)
    lines = []
    for type, other in product(_of(kinds, SIGNAL), _of(kinds, NOISE)):
        some, rest = edits[edits["type"] == type], noise[noise["type"] == other]
        if len(some) and len(rest):
            found = detection.auc(some, rest, **settings.bootstrap)
            lines.append((type, other, found.value, found.low, found.high))
    return pd.DataFrame(lines, columns=["type", "against", "auc", "auc_low", "auc_high"])


def lengths(edits: pd.DataFrame, kinds: Mapping[str, Kind], settings: Settings) -> pd.DataFrame:
    """One row per type and length: quartiles of the change; for signals the share of texts that hear it."""
    noise = visible_noise(edits)
    lines = []
    for type, kind in kinds.items():
        some = edits[(edits["type"] == type) & (edits["visible"] | (edits["kind"] == SIGNAL))]
        hears = {}
        if kind == SIGNAL:
            heard = detection.shares(detection.hearing(some, noise, settings.noise_quantile))
            hears = {line[0]: line[1:] for line in heard[["length", "share", "low", "high", "falling"]].to_numpy()}
        for length, each in some.groupby("length", sort=True):
            low, middle, high = np.quantile(each["change"], [0.25, 0.5, 0.75])
            about = (type, kind, length, len(each), middle, low, high, each["times_noise"].median())
            lines.append((*about, *hears.get(length, (math.nan,) * 4)))
    return pd.DataFrame(lines, columns=["type", "kind", "length", "edits", "change", "change_25", "change_75",
                                        "times_noise", "share", "share_low", "share_high", "falling"])  # fmt: skip


def chunks(edits: pd.DataFrame, kinds: Mapping[str, Kind], settings: Settings, unit: str) -> pd.DataFrame:
    """For each signal type the longest chunk in which it is heard, with its interval; lengths count `unit`."""
    noise = visible_noise(edits)
    lines = []
    for type in _of(kinds, SIGNAL):
        heard = detection.hearing(edits[edits["type"] == type], noise, settings.noise_quantile)
        found = detection.chunk_advice(heard, settings.share, **settings.bootstrap)
        lines.append((type, *astuple(found), unit, found.in_words(unit)))
    return pd.DataFrame(lines, columns=["type", "chunk", "chunk_low", "chunk_high", "shortest", "longest", "texts",
                                        "unit", "advice"])  # fmt: skip


def worst(edits: pd.DataFrame, texts: list[str], kinds: Mapping[str, Kind], top: int) -> pd.DataFrame:
    """The signal edits that move the vector least and the noise edits that move it most, relative to the noise."""
    lines = [line for type, kind in kinds.items() for line in _worst_of(edits, texts, type, kind, top)]
    return pd.DataFrame(lines, columns=["type", "kind", "rank", "text", "length", "tokens", "left", "was", "became",
                                        "right", "change", "cosine", "times_noise"])  # fmt: skip


def _worst_of(edits: pd.DataFrame, texts: list[str], type: str, kind: Kind, top: int) -> Iterator[dict[Hashable, Any]]:
    some = edits[(edits["type"] == type) & (edits["visible"] | (edits["kind"] == SIGNAL))]
    order = some.sort_values(["times_noise", "change"], ascending=kind == SIGNAL, kind="stable", na_position="last")
    first = order.drop_duplicates("text").head(top)  # one example a text
    for rank, line in enumerate(first.to_dict("records"), start=1):
        words, where = texts[line["text"]][: line["characters"]], line["where"]
        end = where + len(line["was"])
        left = ("…" if where > _AROUND else "") + words[max(0, where - _AROUND) : where]
        right = words[end : end + _AROUND] + ("…" if len(words) > end + _AROUND else "")
        yield {**line, "rank": rank, "left": left, "right": right}


def _of(kinds: Mapping[str, Kind], wanted: Kind) -> list[str]:
    return [type for type, kind in kinds.items() if kind == wanted]
