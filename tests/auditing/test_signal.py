"""AUC, its interval and the decay, against plain loops and known answers."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import mannwhitneyu

from oneword.auditing.detection import auc, decay, typical


def table(changes, *, texts=None, length=16):
    count = len(changes)
    return pd.DataFrame({"text": range(count) if texts is None else texts, "length": length, "tokens": length,
                         "change": changes})  # fmt: skip


def test_one_length_is_the_statistic_of_mann_and_whitney():
    draw = np.random.default_rng(0)
    signal, noise = table(draw.integers(9, size=30) / 4), table(draw.integers(9, size=50) / 5)  # with ties
    found = auc(signal, noise, resamples=99)
    assert found.value == pytest.approx(mannwhitneyu(signal["change"], noise["change"]).statistic / (30 * 50))


def test_only_noise_of_the_same_length_counts():
    signal = pd.concat([table([1.0]), table([0.1], length=64)])
    noise = pd.concat([table([0.5, 0.6]), table([0.05, 0.06], length=64), table([9.0], length=128)])
    assert auc(signal, noise, resamples=99).value == 1.0


def test_the_interval_is_that_of_a_plain_cluster_bootstrap():
    draw = np.random.default_rng(1)
    texts = np.repeat(np.arange(20), 3)
    signal = table(draw.random(60) + 0.2, texts=texts)
    noise = table(draw.random(60), texts=texts)
    found = auc(signal, noise, resamples=1999)
    plain = []
    for _ in range(1999):
        chosen = draw.integers(20, size=20)
        ours, theirs = (table["change"].to_numpy().reshape(20, 3)[chosen].ravel() for table in (signal, noise))
        plain.append((ours[:, None] > theirs).mean())
    # Percentiles of two bootstraps of this size agree to about a tenth of their spread.
    low, high = np.quantile(plain, [0.025, 0.975])
    assert found.low == pytest.approx(low, abs=0.1 * (high - low))
    assert found.high == pytest.approx(high, abs=0.1 * (high - low))
    assert found.low < found.value < found.high


def test_nothing_to_compare_is_no_number():
    assert math.isnan(auc(table([1.0]), table([]), resamples=99).value)
    assert math.isnan(auc(table([1.0], length=16), table([1.0], length=32), resamples=99).value)
    assert math.isnan(auc(table([1.0], texts=[0]), table([0.5], texts=[0]), resamples=99).low)


def test_typical_is_the_median_over_texts():
    edits = table([1.0, 3.0, 10.0, 20.0, 7.0], texts=[0, 0, 1, 1, 2])
    found = typical(edits, "change", resamples=499)
    assert found.value == 7.0
    assert found.low == 2.0
    assert found.high == 15.0


def test_decay_is_the_exponent_of_length():
    draw = np.random.default_rng(2)
    cut = pd.concat([table(n**-0.5 * np.exp(0.1 * draw.standard_normal(30)), length=n) for n in (16, 32, 64, 128)])
    fitted = decay(cut)
    assert fitted.slope == pytest.approx(-0.5, abs=0.05)
    assert fitted.low < fitted.slope < fitted.high
    whole = cut.assign(length=0)  # lengths of their own
    assert decay(whole).slope == pytest.approx(fitted.slope)
    assert decay(cut[cut["length"] == 16]) is None
    assert decay(cut.assign(change=0.0)) is None


def test_more_edits_of_a_text_do_not_make_the_exponent_more_certain():
    draw = np.random.default_rng(3)
    once = pd.concat([table(n**-0.5 * np.exp(draw.standard_normal(12)), length=n) for n in (16, 64)])
    thrice = pd.concat([once, once, once])
    assert decay(thrice).slope == pytest.approx(decay(once).slope)
    assert (decay(thrice).low, decay(thrice).high) == pytest.approx((decay(once).low, decay(once).high))


def test_whole_texts_are_pooled_whatever_their_size():
    signal, noise = table([0.1], length=250).assign(length=0), table([0.5], length=16).assign(length=0)
    assert auc(signal, noise, resamples=99).value == 0.0
    assert math.isnan(auc(signal, noise.assign(length=16), resamples=99).value)  # a cut is no whole text
