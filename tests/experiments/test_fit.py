"""Exponents and intervals: exact on exact data, right as often as they say, the same every time."""

import math

import numpy as np
import pandas as pd
import pytest

from oneword.errors import NonFiniteError, RangeError
from oneword.experiments.rows import fits
from oneword.statistics import exponent, mean, per_layer, ratio, share
from tests.fake_results import results


def power(slope, trials=5, noise=0.0, seed=0, sizes=(10, 20, 40, 80)):
    draw = np.random.default_rng(seed)
    rows = [(n, 2.0 * n**slope * math.exp(noise * draw.standard_normal())) for n in sizes for _ in range(trials)]
    return pd.DataFrame(rows, columns=["n", "value"])


@pytest.mark.parametrize("slope", [-0.5, 0.0, 1.25])
def test_an_exact_power_is_found_exactly(slope):
    fitted = exponent(power(slope))
    assert fitted.slope == pytest.approx(slope, abs=1e-12)
    assert fitted.low == pytest.approx(slope, abs=1e-12)
    assert fitted.high == pytest.approx(slope, abs=1e-12)
    assert fitted.at(30) == pytest.approx(2 * 30**slope)
    assert fitted.sizes == (10, 20, 40, 80)
    assert fitted.count == 20


def test_the_slope_is_that_of_least_squares_whatever_the_number_of_trials():
    rows = power(-0.5, noise=0.2).drop(index=[0, 1, 7, 13])
    slope, intercept = np.polyfit(np.log(rows["n"]), np.log(rows["value"]), 1)
    fitted = exponent(rows)
    assert fitted.slope == pytest.approx(slope)
    assert fitted.intercept == pytest.approx(intercept)


def test_the_interval_contains_the_truth_as_often_as_it_says():
    """95 % intervals of 10 trials a length: 93 % or so; fewer than 42 of 50 would be one chance in a thousand."""
    held = 0
    for seed in range(50):
        fitted = exponent(power(-0.5, trials=10, noise=0.1, seed=seed))
        held += fitted.low <= -0.5 <= fitted.high
    assert held >= 42


def test_the_interval_is_as_wide_as_theory_says():
    fitted = exponent(power(-0.5, trials=40, noise=0.1))
    x = np.repeat(np.log([10, 20, 40, 80]), 40)
    sigma = 0.1 / math.sqrt(((x - x.mean()) ** 2).sum())
    assert fitted.high - fitted.low == pytest.approx(2 * 1.96 * sigma, rel=0.2)


def layers(c=0.03, bend=0.0, noise=0.0, seed=0, depths=(2, 4, 8), trials=8):
    """log S = C·L + bend·L² − ½ log n, each trial with noise of its own at every depth."""
    draw = np.random.default_rng(seed)
    rows = [
        (n, trial, depth, math.exp(c * depth + bend * depth**2 + noise * draw.standard_normal()) / math.sqrt(n))
        for n in (20, 45, 100)
        for trial in range(trials)
        for depth in depths
    ]
    return pd.DataFrame(rows, columns=["n", "trial", "depth", "value"])


def test_growth_per_layer_is_found_exactly_and_an_exponential_does_not_bend():
    rate, rise = per_layer(layers(0.03))
    assert (rate.value, rate.low, rate.high) == pytest.approx((0.03, 0.03, 0.03))
    assert (rise.value, rise.low, rise.high) == pytest.approx((0, 0, 0), abs=1e-12)
    assert rate.count == 24
    _, rise = per_layer(layers(0.03, bend=0.01))
    assert rise.value == pytest.approx(0.01 * ((64 - 16) / 4 - (16 - 4) / 2))


def test_growth_per_layer_is_that_of_least_squares_on_depth_and_log_n():
    rows = layers(noise=0.2)
    design = np.column_stack([np.ones(len(rows)), rows["depth"], np.log(rows["n"])])
    (_, rate, _), *_ = np.linalg.lstsq(design, np.log(rows["value"]))
    assert per_layer(rows)[0].value == pytest.approx(rate)


def test_intervals_of_the_growth_per_layer_contain_the_truth_as_often_as_they_say():
    held = [0, 0]
    for seed in range(50):
        found = per_layer(layers(0.03, noise=0.1, seed=seed))
        held = [count + (e.low <= truth <= e.high) for count, e, truth in zip(held, found, (0.03, 0), strict=True)]
    assert min(held) >= 42


def test_growth_per_layer_needs_three_depths_and_every_depth_of_a_trial():
    with pytest.raises(RangeError, match="three depths"):
        per_layer(layers(depths=(2, 8)))
    with pytest.raises(NonFiniteError, match="1 of 24 trials"):
        per_layer(layers().iloc[1:])


def test_the_same_table_gives_the_same_interval():
    rows = power(-0.5, noise=0.1)
    assert exponent(rows) == exponent(rows)
    assert exponent(rows, seed=1).low != exponent(rows).low


def test_one_trial_a_length_gives_a_slope_and_no_interval():
    fitted = exponent(power(-0.5, trials=1))
    assert fitted.slope == pytest.approx(-0.5)
    assert math.isnan(fitted.low)
    assert math.isnan(fitted.high)


def test_one_length_is_an_error():
    with pytest.raises(RangeError, match="at least two different n"):
        exponent(power(-0.5, sizes=(10,)))


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
def test_what_has_no_logarithm_is_an_error_and_counted(bad):
    rows = power(-0.5)
    rows.loc[[3, 4], "value"] = bad
    with pytest.raises(NonFiniteError, match="got 2 of 20"):
        exponent(rows)


def test_levels():
    draw = np.random.default_rng(0)
    values = draw.normal(3, 0.5, 200)
    assert mean(values).value == pytest.approx(values.mean())
    assert mean(values).low < 3.05
    assert mean(values).high > 2.95


@pytest.mark.parametrize("trials", [3, 5])
def test_the_interval_of_few_trials_covers_as_often_as_it_says(trials):
    """Percentiles alone would cover 0.76 of the time with three trials."""
    draws = np.random.default_rng(trials).standard_normal((200, trials))
    covered = sum(found.low <= 0 <= found.high for found in (mean(values) for values in draws))
    assert covered >= 180  # 190 expected, three standard deviations are 9


def test_ratios_are_of_pairs():
    """What the two have in common cancels: the interval is that of the ratio, not of its terms."""
    draw = np.random.default_rng(0)
    common = draw.uniform(1, 100, 30)
    found = ratio(2 * common * np.exp(0.01 * draw.standard_normal(30)), common)
    assert found.value == pytest.approx(2, rel=0.01)
    assert found.high - found.low < 0.05


def test_shares_have_the_interval_of_clopper_and_pearson():
    everyone = share([True] * 20)
    assert everyone.value == 1
    assert everyone.low == pytest.approx(0.025 ** (1 / 20))
    assert everyone.high == 1
    half = share([True, False] * 10)
    assert (half.low, half.high) == pytest.approx((0.272, 0.728), abs=1e-3)


@pytest.mark.parametrize("call", [mean, share])
def test_nothing_is_an_error(call):
    with pytest.raises(RangeError, match="at least one trial"):
        call([])


def test_broken_pairs_are_errors():
    with pytest.raises(RangeError, match="as many"):
        ratio([1, 2], [1])
    with pytest.raises(NonFiniteError, match="positive"):
        ratio([1, 2], [1, 0])
    with pytest.raises(NonFiniteError, match="1 of 2"):
        mean([1, math.nan])


def test_every_curve_of_a_table_is_fitted():
    found = fits(results())
    scores = ("relu", "relu-unnormalised", "sparsemax", "sigmoid", "linear")
    assert set(found["map"]) == {"rf", "drf", "attention", *(f"attention-{score}" for score in scores)}
    assert sorted(set(found.loc[found["map"] == "drf", "depth"])) == [2, 4, 8]
    rf = found[(found["map"] == "rf") & (found["words_from"] == "corpus")]
    assert sorted(rf["d"]) == [96, 192, 384]
    assert rf["slope"].between(-0.6, -0.52).all()
    assert fits(pd.DataFrame({"kind": []})).empty


def test_a_curve_never_mixes_one_position_with_all():
    """Three lengths at one position, two at all: the curve is that of the one position."""
    table = results()
    table = table[(table["map"] == "rf") & (table["changed"] == 1)]
    table = table[(table["words_from"] == "corpus") & (table["d"] == 384)]
    one = table[table["n"] > 50].copy()
    one["positions"] = "one"
    both = pd.concat([table[table["n"] < 100], one.assign(value=2 * one["value"])])
    (line,) = fits(both).to_dict("records")
    assert (line["n_low"], line["n_high"]) == (75, 150)
    assert line["slope"] == pytest.approx(exponent(one).slope)
