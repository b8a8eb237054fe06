"""The chunk advisor: where the share of texts that hear a signal falls below what is wanted."""

import math

import numpy as np
import pandas as pd
import pytest

from oneword.auditing.detection import LEAST_TEXTS, chunk_advice, hearing, shares

LENGTHS = (16, 32, 64, 128)


def heard(*counts, texts=40):
    """Of each length, this many texts hear."""
    return pd.DataFrame({n: [float(t < c) for t in range(texts)] for n, c in zip(LENGTHS, counts, strict=False)})


def edits(changes, *, text=0, length=16):
    return pd.DataFrame({"text": text, "length": length, "change": changes})


def test_a_text_hears_above_the_quantile_of_its_own_noise():
    noise = pd.concat([edits([0.1, 0.2, 0.3]), edits([0.8, 0.9, 1.0], text=1), edits([0.1], text=2)])
    signal = pd.concat([edits([0.25], text=t) for t in range(4)])
    found = hearing(signal, noise, 0.5)
    assert found[16].to_dict() == {0: 1.0, 1: 0.0}  # too little noise in text 2, none in 3
    assert hearing(signal, noise, 1.0)[16].to_dict() == {0: 0.0, 1: 0.0}
    assert hearing(edits([0.1, 0.5]), noise, 0.5)[16].to_dict() == {0: 1.0}  # by the mean of several
    assert hearing(edits([0.9], length=0), edits([0.1, 0.2], length=0), 0.5).empty  # whole texts have no length


def test_the_crossing_is_interpolated_in_log_n_and_rounded_down():
    found = chunk_advice(heard(40, 36, 20, 10), 0.95, resamples=199)  # 100 %, 90 %: half way, at 16·√2
    assert found.longest_chunk == math.floor(16 * math.sqrt(2))
    assert found.in_words() == "≤ 22 tokens"
    assert found.low <= found.longest_chunk <= found.high


def test_honest_outcomes():
    none, all_of_them = (
        chunk_advice(heard(20, 10, 5, 0), 0.95, resamples=99),
        chunk_advice(heard(40, 40, 40, 40), 0.95, resamples=99),
    )
    assert (none.longest_chunk, none.high) == (0.0, 0.0)
    assert none.in_words() == "no tested length (from 16)"
    assert (all_of_them.longest_chunk, all_of_them.high) == (128.0, 128.0)
    assert all_of_them.in_words() == "every tested length (≥ 128)"
    few = chunk_advice(heard(3, 3, 3, 3, texts=LEAST_TEXTS - 1), 0.95, resamples=99)
    assert math.isnan(few.longest_chunk)
    assert "too few texts" in few.in_words()


def test_texts_that_all_agree_are_no_certainty():
    """40 of 40 may be 92 % of all texts; 80 of 80 are 95 % at the least."""
    few, many = (chunk_advice(heard(*(4 * [count]), texts=count), 0.95, resamples=99) for count in (40, 80))
    assert (few.low, many.low) == (0.0, 128.0)


def test_a_share_that_rises_by_chance_is_levelled():
    found = shares(heard(36, 40, 20, 20))
    np.testing.assert_allclose(found["falling"], [0.95, 0.95, 0.5, 0.5])
    assert found["share"].tolist() == [0.9, 1.0, 0.5, 0.5]
    assert chunk_advice(heard(36, 40, 20, 20), 0.95, resamples=99).longest_chunk == 32
    assert (found["low"] < found["share"]).all()


def test_texts_that_were_not_asked_at_a_length_do_not_count():
    table = heard(40, 40, 20, 0)
    table.loc[20:, 64] = np.nan  # those that remain all hear
    assert shares(table)["share"].tolist() == [1.0, 1.0, 1.0, 0.0]


def test_more_texts_make_the_interval_narrower():
    few, many = (chunk_advice(heard(c, c * 0.9, c * 0.6, 0, texts=c), 0.8, resamples=999) for c in (20, 400))
    assert many.high - many.low < 0.6 * (few.high - few.low)
    assert many.longest_chunk == pytest.approx(few.longest_chunk, rel=0.1)
