"""The cache: what is stored comes back, what was damaged is noticed and made again, and nothing is half written."""

import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from oneword.text import cache

NUMBERS = {"ids": np.arange(20, dtype=np.int32), "labels": np.array([1, -1], dtype=np.int8)}


def same(left: Mapping[str, np.ndarray], right: Mapping[str, np.ndarray]) -> bool:
    return left.keys() == right.keys() and all(
        left[name].dtype == right[name].dtype and np.array_equal(left[name], right[name]) for name in left
    )


def never() -> Mapping[str, np.ndarray]:
    raise AssertionError("made again although it was stored")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ONEWORD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


types = st.sampled_from([np.int8, np.int32, np.int64, np.float64])
stored = st.dictionaries(
    st.text("abc", min_size=1, max_size=3),
    types.flatmap(lambda dtype: arrays(dtype, array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=5))),
    min_size=1,
    max_size=3,
)


@given(content=stored)
def test_what_is_stored_comes_back_without_being_made_again(content: dict[str, np.ndarray]) -> None:
    name = cache.digest(*(part for key in content for part in (key, str(content[key].shape), content[key].tobytes())))
    # NaN is not equal to itself, its bytes are.
    content = {key: np.nan_to_num(array) for key, array in content.items()}
    assert same(cache.remembered(name, lambda: content), content)
    assert same(cache.remembered(name, never), content)


@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_changed_bit_anywhere_is_noticed_and_mended(place: float, bit: int) -> None:
    cache.remembered("numbers", lambda: NUMBERS)
    path = cache.folder() / "numbers.safetensors"
    good = path.read_bytes()
    bad = bytearray(good)
    bad[int(place * len(bad))] ^= 1 << bit
    path.write_bytes(bytes(bad))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = cache.remembered("numbers", lambda: NUMBERS)
    assert same(found, NUMBERS)
    # A bit of the header's padding, or one that makes another name or note of it, may change nothing that matters.
    if said:
        assert "made again" in str(said[0].message)
        assert "\n" not in str(said[0].message)
        assert path.read_bytes() == good


@given(kept=st.floats(0, 1, exclude_max=True))
def test_a_file_that_was_cut_off_is_made_again(kept: float) -> None:
    cache.remembered("numbers", lambda: NUMBERS)
    path = cache.folder() / "numbers.safetensors"
    good = path.read_bytes()
    path.write_bytes(good[: int(kept * len(good))])
    with pytest.warns(UserWarning, match="made again"):
        assert same(cache.remembered("numbers", lambda: NUMBERS), NUMBERS)
    assert path.read_bytes() == good


def test_a_folder_that_cannot_be_written_costs_time_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ONEWORD_CACHE", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="set ONEWORD_CACHE"):
        assert same(cache.remembered("numbers", lambda: NUMBERS), NUMBERS)


@given(parts=st.lists(st.text(max_size=3), max_size=4), others=st.lists(st.text(max_size=3), max_size=4))
def test_different_parts_have_different_digests(parts: list[str], others: list[str]) -> None:
    assert (cache.digest(*parts) == cache.digest(*others)) == (parts == others)


def test_the_folder_is_the_users_cache_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ONEWORD_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert cache.folder() == tmp_path / "oneword"
    assert cache.usage() == (0, 0)


def test_usage_counts_files_and_bytes() -> None:
    cache.remembered("numbers", lambda: NUMBERS)
    files, size = cache.usage()
    assert (files, size) == (1, (cache.folder() / "numbers.safetensors").stat().st_size)
