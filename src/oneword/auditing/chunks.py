"""How long may chunks be? Up to which length a signal is heard above the noise in 95 % of texts.

A text hears a signal at a length if that moves its vector by more than the noise level, a quantile of what its own
noise edits at that length do. The share of such texts is made to fall with length (isotonic regression), and read off
where it crosses the wanted share, in log n, rounded down. The interval is a bootstrap over texts, widened to what the
limits of the shares by Clopper and Pearson allow: where all texts agree a bootstrap knows no doubt.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from oneword.auditing.signal import interval
from oneword.random import stream
from oneword.statistics import share as share_of

LEAST_NOISE = 2  # noise edits, for a text to have a level at a length
LEAST_TEXTS = 8  # for a length to count
_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Advice:
    """The longest length at which the signal is heard; 0: at none that was tried. `longest` is the longest tried."""

    longest_chunk: float
    low: float
    high: float
    shortest: int
    longest: int
    texts: int

    @property
    def outcome(self) -> str:
        """For a reader."""
        if math.isnan(self.longest_chunk):
            return f"too few texts (fewer than {LEAST_TEXTS} at every length)"
        if self.longest_chunk == 0:
            return f"at no length tried (from {self.shortest})"
        if self.longest_chunk >= self.longest:
            return f"at every length tried (≥ {self.longest})"
        return f"≤ {self.longest_chunk:.0f} tokens"


def hearing(signal: pd.DataFrame, noise: pd.DataFrame, quantile: float) -> pd.DataFrame:
    """Texts down, lengths across: 1 where the text hears the signal, 0 where it does not, NaN where nobody asked.

    A signal edited in several places counts by the mean of its changes.
    """
    groups = noise[noise["length"] > 0].groupby(["text", "length"])["change"]
    level = groups.quantile(quantile)[groups.size() >= LEAST_NOISE]
    change = signal[signal["length"] > 0].groupby(["text", "length"])["change"].mean()
    both = pd.concat([change, level.rename("level")], axis=1, join="inner")
    return (both["change"] > both["level"]).astype("float64").unstack("length").sort_index(axis=1)


def shares(heard: pd.DataFrame) -> pd.DataFrame:
    """For each length the share of texts that hear, with the interval of Clopper and Pearson, and the falling curve."""
    kept = _enough(heard)
    lines = []
    for length in kept:
        each = kept[length].dropna()
        found = share_of(each > 0)
        lines.append({"length": int(str(length)), "share": found.value, "low": found.low, "high": found.high,
                      "texts": found.count})  # fmt: skip
    table = pd.DataFrame(lines, columns=["length", "share", "low", "high", "texts"])
    table["falling"] = _falling(table["share"].to_numpy(), table["texts"].to_numpy(dtype=np.float64))
    return table


def advice(heard: pd.DataFrame, wanted: float, *, resamples: int, seed: int = 0) -> Advice:
    """The length for this share of texts."""
    kept = _enough(heard)
    if kept.empty:
        return Advice(math.nan, math.nan, math.nan, 0, 0, len(heard))
    lengths = kept.columns.to_numpy(dtype=np.float64)
    known, good = kept.notna().to_numpy(dtype=np.float64), kept.fillna(0.0).to_numpy()
    value = _longest(lengths, good.sum(axis=0), known.sum(axis=0), wanted)
    count = len(kept)
    draws = stream(seed, "audit", "texts").multinomial(count, np.full(count, 1 / count), size=resamples)
    tops, totals = draws @ good, draws @ known
    found = [_longest(lengths, top, total, wanted) for top, total in zip(tops, totals, strict=True)]
    limits = shares(heard)
    weights = limits["texts"].to_numpy(dtype=np.float64)
    ends = [_longest(lengths, weights * limits[side].to_numpy(), weights, wanted) for side in ("low", "high")]
    low, high = interval(np.array(found))
    return Advice(value, min(low, ends[0]), max(high, ends[1]), int(lengths[0]), int(lengths[-1]), count)


def _enough(heard: pd.DataFrame) -> pd.DataFrame:
    kept = heard.loc[:, heard.notna().sum() >= LEAST_TEXTS]
    return kept[kept.notna().any(axis=1)]


def _falling(share: _Array, weights: _Array) -> _Array:
    if not len(share):
        return share
    return np.asarray(isotonic_regression(share, weights=weights, increasing=False).x)


def _longest(lengths: _Array, good: _Array, total: _Array, wanted: float) -> float:
    """Where the falling curve crosses the wanted share; 0 if it begins below, the last length if it ends above."""
    there = total > 0
    lengths, good, total = lengths[there], good[there], total[there]
    if not len(lengths):
        return math.nan
    curve = _falling(good / total, total)
    above = int((curve >= wanted - 1e-12).sum())  # the curve falls: these are the first ones
    if above == 0 or above == len(curve):
        return float(lengths[-1]) if above else 0.0
    before, after = curve[above - 1], curve[above]
    part = (before - wanted) / (before - after)
    return float(math.floor(lengths[above - 1] * (lengths[above] / lengths[above - 1]) ** part + 1e-9))
