"""How well signal edits stand out from noise edits (AUC), and up to which length of text.

AUC = the mean over signal edits of the share of noise edits at the same length that move the vector less, ties
counting half: at one length the statistic of Mann and Whitney. Its interval is a bootstrap over texts: all edits of a
text are drawn together. Whole texts (length 0) of all sizes are pooled, because there are often too few of one size
for an interval. Decay with length is the exponent of the change against n.

Chunks: a text *hears* a signal at a length if the signal moves its vector by more than the noise level, a quantile of
the changes by its own noise edits at that length. The share of such texts is made to fall with length (isotonic
regression). The advised length is where it crosses the wanted share, in log n, rounded down. The interval is a
bootstrap over texts, widened by the Clopper-Pearson limits of the shares: where all texts agree, a bootstrap alone
would show no uncertainty.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from oneword.random import stream
from oneword.statistics import LEVEL, Estimate, Exponent, exponent
from oneword.statistics import share as share_of

_BLOCK = 1 << 22  # numbers in the table of weights at a time
_Array = NDArray[np.float64]

UNKNOWN = Estimate(math.nan, math.nan, math.nan, 0)
LEAST = 2  # texts at a length, for it to count in an exponent
LEAST_NOISE = 2  # noise edits, for a text to have a level at a length
LEAST_TEXTS = 8  # for a length to count


def auc(signal: pd.DataFrame, noise: pd.DataFrame, *, resamples: int, seed: int = 0) -> Estimate:
    """The AUC of two tables of edits (text, length, change); signals at a length without noise are left out."""
    signal = signal[signal["length"].isin(noise["length"])]
    noise = noise[noise["length"].isin(signal["length"])]
    if signal.empty:
        return UNKNOWN
    known = {text: place for place, text in enumerate(sorted({*signal["text"], *noise["text"]}))}
    signal, noise = (table.assign(place=table["text"].map(known)) for table in (signal, noise))
    count = len(known)
    value = float(_auc(signal, noise, np.ones((1, count)))[0])
    if count < 2:
        return Estimate(value, math.nan, math.nan, len(signal))
    draws = stream(seed, "audit", "texts").multinomial(count, np.full(count, 1 / count), size=resamples)
    each = np.concatenate([_auc(signal, noise, block) for block in _blocks(draws, len(signal) + len(noise))])
    return Estimate(value, *interval(each), len(signal))


def typical(edits: pd.DataFrame, column: str, *, resamples: int, seed: int = 0) -> Estimate:
    """The median over texts of each text's median; the interval is a bootstrap over texts."""
    each = edits.groupby("text")[column].median().to_numpy(dtype=np.float64)
    if len(each) < 2:
        return Estimate(float(each[0]) if len(each) else math.nan, math.nan, math.nan, len(each))
    chosen = stream(seed, "audit", "texts").integers(len(each), size=(resamples, len(each)))
    return Estimate(float(np.median(each)), *interval(np.median(each[chosen], axis=1)), len(each))


def interval(draws: _Array) -> tuple[float, float]:
    """The percentile interval of bootstrap draws; NaN if more than half of the draws are NaN."""
    known = draws[~np.isnan(draws)]
    if 2 * len(known) <= len(draws):
        return math.nan, math.nan
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _blocks(draws: NDArray[np.int64], width: int) -> Iterator[_Array]:
    for first in range(0, len(draws), step := max(1, _BLOCK // max(1, width))):
        yield draws[first : first + step].astype(np.float64)


def _auc(signal: pd.DataFrame, noise: pd.DataFrame, weights: _Array) -> _Array:
    """The AUC for each row of weights of the texts, which `place` indexes; NaN where the signal has no weight."""
    total, above = np.zeros(len(weights)), np.zeros(len(weights))
    for length, some in signal.groupby("length", sort=True):
        against = noise[noise["length"] == length].sort_values("change", kind="stable")
        of_signal, of_noise = (weights[:, table["place"].to_numpy(dtype=np.int64)] for table in (some, against))
        below = np.concatenate([np.zeros((len(weights), 1)), of_noise.cumsum(axis=1)], axis=1)
        left, right = (
            np.searchsorted(against["change"].to_numpy(), some["change"].to_numpy(), side) for side in ("left", "right")
        )
        all_noise = below[:, -1:]
        with np.errstate(invalid="ignore"):  # no noise at this length in this draw: its signals do not count
            shares = np.where(all_noise > 0, (below[:, left] + below[:, right]) / (2 * all_noise), 0.0)
        above += (of_signal * shares).sum(axis=1)
        total += np.where(all_noise[:, 0] > 0, of_signal.sum(axis=1), 0.0)
    with np.errstate(invalid="ignore"):
        return above / total


def decay(edits: pd.DataFrame, *, seed: int = 0) -> Exponent | None:
    """change ∝ n^slope over edits that move the vector at all; None where there are fewer than two lengths.

    Several edits of a text at a length count as one trial, their geometric mean. Whole texts (length 0) are grouped by
    powers of two.
    """
    moved = edits[edits["change"] > 0]
    near = 2.0 ** np.round(np.log2(moved["tokens"]))
    size = moved["length"].where(moved["length"] > 0, near)
    logs = pd.DataFrame({"n": size, "text": moved["text"], "value": np.log(moved["change"])})
    table = np.exp(logs.groupby(["n", "text"])["value"].mean()).reset_index()
    table = table[table.groupby("n")["value"].transform("size") >= LEAST]
    return exponent(table, seed=seed) if table["n"].nunique() > 1 else None


# Chunks ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ChunkAdvice:
    """The longest length at which the signal is heard (0: at no tested length); `longest` is the longest tested."""

    longest_chunk: float
    low: float
    high: float
    shortest: int
    longest: int
    texts: int

    def in_words(self, unit: str = "tokens") -> str:
        """The advice as a short phrase."""
        if math.isnan(self.longest_chunk):
            return f"too few texts (fewer than {LEAST_TEXTS} at every length)"
        if self.longest_chunk == 0:
            return f"no tested length (from {self.shortest})"
        if self.longest_chunk >= self.longest:
            return f"every tested length (≥ {self.longest})"
        return f"≤ {self.longest_chunk:.0f} {unit}"


def hearing(signal: pd.DataFrame, noise: pd.DataFrame, quantile: float) -> pd.DataFrame:
    """Texts down, lengths across: 1 where the text hears the signal, 0 where it does not, NaN if not measured.

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
        found = share_of(kept[length].dropna() > 0)
        lines.append((int(str(length)), found.value, found.low, found.high, found.count))
    table = pd.DataFrame(lines, columns=["length", "share", "low", "high", "texts"])
    table["falling"] = _falling(table["share"].to_numpy(), table["texts"].to_numpy(dtype=np.float64))
    return table


def chunk_advice(heard: pd.DataFrame, wanted: float, *, resamples: int, seed: int = 0) -> ChunkAdvice:
    """The longest length at which this share of texts hears the signal, with its interval."""
    kept = _enough(heard)
    if kept.empty:
        return ChunkAdvice(math.nan, math.nan, math.nan, 0, 0, len(heard))
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
    return ChunkAdvice(value, min(low, ends[0]), max(high, ends[1]), int(lengths[0]), int(lengths[-1]), count)


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
