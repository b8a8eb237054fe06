"""Estimates with 95 % intervals: means, ratios, shares and exponents; and what an interval says about a limit.

An exponent is the least-squares slope of log S = a + b log n over all trials. Intervals are bootstrapped: trials are
resampled within each n (the lengths are chosen, the trials are drawn), from a seeded generator, so the same table gives
the same numbers. A bootstrap of m trials is too narrow by √((m−1)/m), and knows nothing of Student's t: its deviations
are widened by both, or three trials would give 76 % instead of 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from oneword.errors import NonFiniteError, RangeError

if TYPE_CHECKING:
    import pandas as pd

LEVEL = 0.95
RESAMPLES = 4999
_Array = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A number with its interval; `low` and `high` are NaN where one trial leaves nothing to resample."""

    value: float
    low: float
    high: float
    count: int

    def map(self, function: Callable[[float], float]) -> Estimate:
        """The estimate of an increasing function of the number."""
        return Estimate(function(self.value), function(self.low), function(self.high), self.count)


@dataclass(frozen=True)
class Exponent:
    """y ≈ exp(intercept) · x^slope, with the interval of the slope."""

    slope: float
    low: float
    high: float
    intercept: float
    count: int
    sizes: tuple[float, ...]

    @property
    def estimate(self) -> Estimate:
        """The slope alone."""
        return Estimate(self.slope, self.low, self.high, self.count)

    def at(self, x: float) -> float:
        """The fitted value at x."""
        return math.exp(self.intercept + self.slope * math.log(x))


def exponent(table: pd.DataFrame, x: str = "n", y: str = "value", *, seed: int = 0) -> Exponent:
    """Least squares of log y on log x over all rows; the rows of one x are its trials.

    Raises RangeError for fewer than two different x, and NonFiniteError where a logarithm does not exist.
    """
    rows = table[[x, y]].astype("float64")
    bad = int((~(np.isfinite(rows) & (rows > 0)).all(axis=1)).sum())
    if bad:
        raise NonFiniteError(f"expected finite {x} > 0 and {y} > 0 in every row, got {bad} of {len(rows)} without")
    sizes = np.unique(rows[x])
    if len(sizes) < 2:
        raise RangeError(f"expected at least two different {x} to fit an exponent, got {len(sizes)}")
    trials = [np.log(rows.loc[rows[x] == size, y].to_numpy()) for size in sizes]
    counts = np.array([len(trial) for trial in trials])
    center = float(counts @ np.log(sizes) / counts.sum())
    # The slope is a weighted sum of the lengths' means: Σ m_j (x_j − x̄) ȳ_j / Σ m_j (x_j − x̄)².
    weights = counts * (np.log(sizes) - center)
    weights = weights / float(weights @ (np.log(sizes) - center))

    def slope(*samples: _Array, axis: int = -1) -> Any:
        return sum(weight * sample.mean(axis=axis) for weight, sample in zip(weights, samples, strict=True))

    estimate = _bootstrapped(trials, slope, seed)
    mean = float(np.concatenate(trials).mean())
    intercept = mean - estimate.value * center
    return Exponent(
        estimate.value, estimate.low, estimate.high, intercept, int(counts.sum()), tuple(float(n) for n in sizes)
    )


def per_layer(table: pd.DataFrame, *, seed: int = 0) -> tuple[Estimate, Estimate]:
    """C of log S = a + C·L + b·log n, and how much the rate per layer rises from the shallowest step to the deepest.

    Every trial has all depths on the same weights, so a trial is resampled with all of them, within its n. Least
    squares then gives each trial the slope of log S on L, whatever b is, and C is their mean. Where log S is linear in
    L, S grows like e^{CL} and the rise is 0.

    Raises RangeError for fewer than three depths, and NonFiniteError where a logarithm does not exist.
    """
    trials = table.pivot_table(index=["n", "trial"], columns="depth", values="value", dropna=False).dropna(how="all")
    depths, values = trials.columns.to_numpy(dtype=np.float64), trials.to_numpy(dtype=np.float64)
    if len(depths) < 3:
        raise RangeError(f"expected at least three depths to fit e^(CL), got {len(depths)}")
    bad = int((~(np.isfinite(values) & (values > 0)).all(axis=1)).sum())
    if bad:
        raise NonFiniteError(f"expected S > 0 at every depth of every trial, got {bad} of {len(values)} trials without")
    logs, centred = np.log(values), depths - depths.mean()
    rates = np.diff(logs, axis=1) / np.diff(depths)
    lengths = trials.index.get_level_values("n").to_numpy()
    c, rise = (
        _mean_within(each, lengths, seed) for each in (logs @ centred / (centred @ centred), rates[:, -1] - rates[:, 0])
    )
    return c, rise


def _mean_within(values: _Array, lengths: ArrayLike, seed: int) -> Estimate:
    """The mean over all trials, resampled within each length."""
    samples = [values[np.asarray(lengths) == n] for n in np.unique(lengths)]

    def together(*samples: _Array, axis: int = -1) -> Any:
        return sum(sample.shape[axis] * sample.mean(axis=axis) for sample in samples) / len(values)

    return _bootstrapped(samples, together, seed)


def mean(values: ArrayLike, *, seed: int = 0) -> Estimate:
    """The mean over trials."""
    return _bootstrapped([_finite(values)], lambda sample, axis=-1: sample.mean(axis=axis), seed)


def ratio(numerator: ArrayLike, denominator: ArrayLike, *, seed: int = 0) -> Estimate:
    """The geometric mean of paired ratios: exp of the mean of log(numerator/denominator)."""
    above, below = _finite(numerator), _finite(denominator)
    if above.shape != below.shape:
        raise RangeError(f"expected as many numerators as denominators, got {len(above)} and {len(below)}")
    if not ((above > 0).all() and (below > 0).all()):
        raise NonFiniteError("expected positive numbers to take the ratio of, got some that are not")
    return mean(np.log(above / below), seed=seed).map(math.exp)


def share(good: ArrayLike) -> Estimate:
    """The share of trials that are good, with the interval of Clopper and Pearson."""
    each = np.asarray(good, dtype=bool)
    if not each.size:
        raise RangeError("expected at least one trial to take the share of, got none")
    from scipy.stats import binomtest  # takes half a second to import, and the workers of a run need none of it

    result = binomtest(int(each.sum()), int(each.size))
    interval = result.proportion_ci(confidence_level=LEVEL, method="exact")
    return Estimate(float(each.mean()), float(interval.low), float(interval.high), int(each.size))


# Answers: True, False, or None where the interval leaves it open (also where there is no interval: NaN)


def at_most(found: Estimate, limit: float) -> bool | None:
    """Whether the number is at most the limit."""
    return True if found.high <= limit else False if found.low > limit else None


def at_least(found: Estimate, limit: float) -> bool | None:
    """Whether the number is at least the limit."""
    return True if found.low >= limit else False if found.high < limit else None


def below(found: Estimate, limit: float) -> bool | None:
    """Whether the number is below the limit."""
    return True if found.high < limit else False if found.low >= limit else None


def above(found: Estimate, limit: float) -> bool | None:
    """Whether the number is above the limit."""
    return True if found.low > limit else False if found.high <= limit else None


def inside(found: Estimate, low: float, high: float) -> bool | None:
    """Whether the number lies within [low, high]."""
    if low <= found.low and found.high <= high:
        return True
    return False if found.high < low or found.low > high else None


def all_of(answers: Iterable[bool | None]) -> bool | None:
    """False if one answer is, None if one is open, otherwise True."""
    every = list(answers)
    return False if False in every else None if None in every else True


ONE_SIDED = (1 - LEVEL) / 2  # how often an interval misses on a given side, at most


def expected_misses(intervals: int) -> float:
    """How many of so many intervals are expected to lie wholly on the wrong side of a limit, at most.

    The expectation is a sum over intervals, so it holds however they depend on each other.
    """
    return ONE_SIDED * intervals


def _bootstrapped(samples: Sequence[_Array], statistic: Callable[..., Any], seed: int) -> Estimate:
    """The statistic of the samples and its percentile interval; each sample is resampled within itself."""
    value, count = float(statistic(*samples, axis=-1)), sum(len(sample) for sample in samples)
    if min(len(sample) for sample in samples) < 2:
        return Estimate(value, math.nan, math.nan, count)
    from scipy.stats import bootstrap

    # Percentile rather than BCa, which has no value where all trials agree.
    interval = bootstrap(
        tuple(samples), statistic, vectorized=True, n_resamples=RESAMPLES, confidence_level=LEVEL, method="percentile",
        rng=np.random.default_rng(seed),
    ).confidence_interval  # fmt: skip
    widen = _small_sample([len(sample) for sample in samples])
    low, high = (value + widen * (float(end) - value) for end in (interval.low, interval.high))
    return Estimate(value, low, high, count)


def _small_sample(sizes: Sequence[int]) -> float:
    """How much wider than its percentiles an interval from so few trials has to be."""
    from scipy.stats import norm, t

    least, freedom = min(sizes), sum(sizes) - len(sizes)
    quantile = (1 + LEVEL) / 2
    return math.sqrt(least / (least - 1)) * float(t.ppf(quantile, freedom) / norm.ppf(quantile))


def _finite(values: ArrayLike) -> _Array:
    array = np.asarray(values, dtype=np.float64).ravel()
    if not array.size:
        raise RangeError("expected at least one trial, got none")
    bad = int((~np.isfinite(array)).sum())
    if bad:
        raise NonFiniteError(f"expected finite numbers, got {bad} of {len(array)} that are not")
    return array
