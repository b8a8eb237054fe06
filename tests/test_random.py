"""Named streams: one seed, independent draws, the same numbers in every dtype and however they are cut."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from oneword import random as _random
from oneword.errors import RangeError
from oneword.random import normal, normal_pieces, resolve_seed, stream

names = st.lists(st.integers(0, 9) | st.sampled_from(("V", "W", "rest")), max_size=3).map(tuple)


@given(seed=st.integers(0, 2**62), name=names)
def test_a_name_gives_the_same_stream_again(seed: int, name: tuple[str | int, ...]) -> None:
    first, second = (stream(seed, *name).standard_normal(5) for _ in range(2))
    assert (first == second).all()


@given(seeds=st.tuples(st.integers(0, 99), st.integers(0, 99)), one=names, other=names)
def test_other_names_give_other_streams(seeds: tuple[int, int], one: tuple, other: tuple) -> None:
    first, second = (stream(seed, *name).standard_normal(5) for seed, name in zip(seeds, (one, other), strict=True))
    assert (first == second).all() == ((seeds[0], one) == (seeds[1], other))


def test_the_numbers_of_a_seed_never_change() -> None:
    """Written down once: results name a seed, so a seed must mean the same numbers in every version."""
    assert normal(1, 3, 1.0, 0, "W")[0].tolist() == [1.5702519182776584, -0.030427165457283994, 0.5096620087387737]


def test_draws_are_standard_normal_and_streams_independent() -> None:
    a, b = (normal(400, 500, 1.0, 0, "V", 1, block).flatten() for block in range(2))
    # 200,000 numbers: five standard errors of mean, variance, fourth moment (variance 96) and correlation.
    error = 5 / math.sqrt(200_000)
    assert abs(a.mean()) <= error
    assert abs(a.var() - 1) <= error * math.sqrt(2)
    assert abs((a**4).mean() - 3) <= error * math.sqrt(96)
    assert abs((a * b).mean()) <= error


def test_scale_is_the_standard_deviation() -> None:
    assert torch.equal(normal(3, 4, 0.25, 1, "V"), 0.25 * normal(3, 4, 1.0, 1, "V"))


def test_float32_is_float64_rounded() -> None:
    assert torch.equal(normal(7, 5, 0.3, 2, "W").float(), normal(7, 5, 0.3, 2, "W", dtype=torch.float32))


def test_pieces_are_the_matrix_cut_into_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_random, "_PIECE", 12)
    whole = normal(10, 5, 1.0, 3, "V")
    pieces = list(normal_pieces(10, 5, 1.0, 3, "V"))
    assert [len(piece) for _, piece in pieces] == [2] * 5
    for band, piece in pieces:
        assert torch.equal(whole[band], piece)


def test_a_row_wider_than_a_piece_is_drawn_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_random, "_PIECE", 4)
    assert normal(2, 9, 1.0, 3, "V").shape == (2, 9)


def test_a_seed_is_itself_and_nothing_means_0() -> None:
    assert resolve_seed(None, None) == 0
    assert resolve_seed(7, None) == 7


def test_a_generator_gives_a_seed_and_advances() -> None:
    first, again = (torch.Generator().manual_seed(4) for _ in range(2))
    seeds = [resolve_seed(None, first) for _ in range(3)]
    assert len(set(seeds)) == 3
    assert seeds == [resolve_seed(None, again) for _ in range(3)]
    assert min(seeds) >= 0


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(RangeError, match="expected seed >= 0, got -3"):
        resolve_seed(-3, None)


def test_seed_and_generator_together_are_refused() -> None:
    with pytest.raises(RangeError, match="at most one of seed= and generator=, got both"):
        resolve_seed(1, torch.Generator())
