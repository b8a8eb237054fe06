"""Signal against noise: how likely a meaningful edit moves the vector more than a harmless one of the same length.

AUC = the mean over signal edits of the share of noise edits at the same length that move the vector less, ties
counting half: at one length the statistic of Mann and Whitney. Its interval is a bootstrap over texts: all edits of a
text come and go together. Whole texts (length 0), of whatever size, are pooled: those of about one size are often too
few for an interval. Decay with length is the exponent of the change against n.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from oneword.random import stream
from oneword.statistics import LEVEL, Estimate, Exponent, exponent

_BLOCK = 1 << 22  # numbers in the table of weights at a time
_Array = NDArray[np.float64]

LEAST = 2  # texts at a length, for it to count in an exponent


def auc(signal: pd.DataFrame, noise: pd.DataFrame, *, resamples: int, seed: int = 0) -> Estimate:
    """Of edits with columns text, length and change; signals at a length without any noise are left out."""
    signal = signal[signal["length"].isin(noise["length"])]
    noise = noise[noise["length"].isin(signal["length"])]
    if signal.empty:
        return Estimate(math.nan, math.nan, math.nan, 0)
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
    """The percentiles of what a bootstrap found; NaN where more than half of the draws gave nothing."""
    known = draws[~np.isnan(draws)]
    if 2 * len(known) <= len(draws):
        return math.nan, math.nan
    low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def _blocks(draws: NDArray[np.int64], width: int) -> Iterator[_Array]:
    for first in range(0, len(draws), step := max(1, _BLOCK // max(1, width))):
        yield draws[first : first + step].astype(np.float64)


def _auc(signal: pd.DataFrame, noise: pd.DataFrame, weights: _Array) -> _Array:
    """The AUC under each row of weights, of which `place` says which is a text's; NaN where the signal has none."""
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

    Several edits of a text at a length are no further trials: their geometric mean is one. Whole texts (length 0) are
    as long as they are: they are gathered by powers of two.
    """
    moved = edits[edits["change"] > 0]
    near = 2.0 ** np.round(np.log2(moved["tokens"]))
    size = moved["length"].where(moved["length"] > 0, near)
    logs = pd.DataFrame({"n": size, "text": moved["text"], "value": np.log(moved["change"])})
    table = np.exp(logs.groupby(["n", "text"])["value"].mean()).reset_index()
    table = table[table.groupby("n")["value"].transform("size") >= LEAST]
    return exponent(table, seed=seed) if table["n"].nunique() > 1 else None
