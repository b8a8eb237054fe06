"""Texts: what is refused and why, and that synthetic texts have the norms and cosines they promise."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from oneword.errors import DTypeError, NonFiniteError, RangeError, ShapeError
from oneword.text.context import Context, as_context, clustered, gaussian


def text(n: int = 4, d: int = 3) -> Tensor:
    return torch.from_numpy(np.random.default_rng(0).standard_normal((n, d)))


# What is refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_entries_that_are_not_finite_are_counted(bad: float) -> None:
    X = text()
    X[0, 1] = X[3, 2] = bad
    with pytest.raises(NonFiniteError, match=r"2 of 12 entries of X"):
        as_context(X)


@pytest.mark.parametrize("shape", [(3,), (2, 3, 4), (), (0, 3), (3, 0), (0,)])
def test_shapes_that_are_no_text_are_refused_with_what_was_given(shape: tuple[int, ...]) -> None:
    with pytest.raises(ShapeError) as refused:
        as_context(torch.zeros(shape))
    assert f"got {shape}" in str(refused.value)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64], ids=str)
def test_numbers_that_are_not_floating_point_are_refused(dtype: torch.dtype) -> None:
    with pytest.raises(DTypeError, match=f"got {str(dtype).removeprefix('torch.')}:"):
        as_context(torch.ones(2, 3, dtype=dtype))


@pytest.mark.parametrize("given_text", [np.ones((2, 3), dtype=int), [[1, 2], [3, 4]], [["a", "b"]]])
def test_integers_and_strings_outside_of_torch_are_refused(given_text: object) -> None:
    with pytest.raises(DTypeError, match=r"float32 or float64, got"):
        as_context(given_text)


def test_ragged_lists_are_refused() -> None:
    with pytest.raises(ShapeError, match="ragged"):
        as_context([[1.0, 2.0], [3.0]])


def test_an_empty_list_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"got \(0,\)"):
        as_context([])


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        (("a",), ((0,), (1,))),  # one word, two entries
        (("a", "b"), ((0, 1), (1,))),  # a row owned twice
        (("a", "b"), ((0,), ())),  # a word without rows
        (("a", "b"), ((0,), (4,))),  # a row that does not exist
        (("a", "b"), ((0,), (-1,))),
    ],
)
def test_words_that_do_not_own_rows_of_their_own_are_refused(words: tuple, rows: tuple) -> None:
    with pytest.raises(ShapeError, match=r"expected (one entry of rows|each word to own its own rows)"):
        Context(text(), words=words, rows=rows)


# What a text becomes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_lists_and_tensors_become_the_same_text(dtype: type) -> None:
    array = text().numpy().astype(dtype)
    for X in (array, torch.from_numpy(array), np.asfortranarray(array)):
        found = as_context(X)
        assert torch.equal(found.X, torch.from_numpy(array))
        assert (found.n, found.d) == (4, 3)
    assert torch.equal(as_context(array.tolist()).X, torch.from_numpy(array).double())


def test_words_rows_and_tokens_are_filled_in() -> None:
    plain = as_context(text())
    assert plain.words == plain.tokens == ("w0", "w1", "w2", "w3")
    assert plain.rows == ((0,), (1,), (2,), (3,))
    assert as_context(plain) is plain
    pieces = Context(text(), words=("un", "happy"), rows=((0, 1), (2,)))
    assert pieces.tokens == ("t0", "t1", "t2", "t3")


# Synthetic texts ----------------------------------------------------------------------------------------------------

sizes = st.integers(1, 30)


def cosines(X: Tensor) -> Tensor:
    return X @ X.T / X.shape[1]


@given(n=sizes, d=sizes, cosine=st.floats(0, 1), seed=st.integers(0, 99))
def test_every_row_has_norm_root_d(n: int, d: int, cosine: float, seed: int) -> None:
    for made in (gaussian(n, d, cosine=cosine, seed=seed), clustered(n, d, within=cosine, seed=seed)):
        assert made.X.shape == (n, d)
        # Two roundings of a quotient and those of the norm of d numbers.
        assert (made.X.norm(dim=1) - math.sqrt(d)).abs().max() <= 1e-14 * math.sqrt(d)


@pytest.mark.parametrize("cosine", [0.0, 0.07, 0.5, 0.95])
def test_the_mean_cosine_of_gaussian_words_is_what_was_asked_for(cosine: float) -> None:
    found = []
    for seed in range(20):
        between = cosines(gaussian(40, 400, cosine=cosine, seed=seed).X)
        found.append(float((between.sum() - 40) / (40 * 39)))
    # The common part has squared norm d(1 ± √(2/d)), 7 % here and 1.6 % over 20 seeds, of a mean that is c; scaling to
    # norm √d moves it by c(1−c)/d·const. Independent parts add 1/√(d·780·20). Five standard errors of both.
    error = 5 * (0.016 * cosine * (1 - cosine) + 1 / math.sqrt(400 * 780 * 20)) + 3 / 400 * cosine
    assert abs(np.mean(found) - cosine) <= error


@pytest.mark.parametrize(("within", "between"), [(0.6, 0.0), (0.8, 0.3), (0.5, 0.5)])
def test_clustered_words_have_one_cosine_inside_a_group_and_another_between(within: float, between: float) -> None:
    group = torch.arange(40) % 4
    same = (group[:, None] == group) & ~torch.eye(40, dtype=torch.bool)
    other = group[:, None] != group
    inside, across = [], []
    for seed in range(20):
        found = cosines(clustered(40, 400, clusters=4, within=within, between=between, seed=seed).X)
        inside.append(float(found[same].mean()))
        across.append(float(found[other].mean()))
    # 4 centres with random inner products of 1/√d = 5 %, 6 pairs and 20 seeds: 0.5 % of the part that is not common,
    # and 1.6 % of what is common (as above). Five standard errors.
    assert abs(np.mean(inside) - within) <= 5 * (0.016 * within * (1 - within)) + 3 / 400
    assert abs(np.mean(across) - between) <= 5 * (0.005 * within + 0.016 * between * (1 - between)) + 3 / 400


def test_equal_words_are_the_limit_of_cosine_1() -> None:
    X = gaussian(5, 7, cosine=1.0, seed=3).X
    assert torch.equal(X, X[:1].expand_as(X))


def test_a_seed_reproduces_and_more_words_continue_fewer() -> None:
    assert torch.equal(gaussian(9, 5, seed=4).X, gaussian(9, 5, seed=4).X)
    assert not torch.equal(gaussian(9, 5, seed=4).X, gaussian(9, 5, seed=5).X)
    assert torch.equal(gaussian(9, 5, seed=4).X[:6], gaussian(6, 5, seed=4).X)


def test_float32_texts_are_the_float64_texts_cast() -> None:
    assert torch.equal(gaussian(6, 5, seed=1).X.float(), gaussian(6, 5, seed=1, dtype=torch.float32).X)


def test_a_generator_may_stand_for_the_seed_and_is_written_down() -> None:
    made = gaussian(6, 5, generator=torch.Generator().manual_seed(1))
    assert torch.equal(made.X, gaussian(6, 5, seed=made.source["seed"]).X)
    assert made.source["text"] == "gaussian"
    assert (made.source["n"], made.source["d"]) == (6, 5)


@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (-1, 3)])
def test_sizes_below_1_are_refused(sizes: tuple[int, int]) -> None:
    with pytest.raises(RangeError, match="at least 1"):
        gaussian(*sizes)
    with pytest.raises(RangeError, match="clusters = 0"):
        clustered(3, 3, clusters=0)


@pytest.mark.parametrize(("within", "between"), [(0.2, 0.3), (1.1, 0.0), (0.5, -0.1), (math.nan, 0.0)])
def test_cosines_that_no_words_can_have_are_refused(within: float, between: float) -> None:
    with pytest.raises(RangeError, match="0 ≤ between ≤ within ≤ 1"):
        clustered(3, 3, within=within, between=between)
