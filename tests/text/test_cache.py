"""The cache: what is stored comes back, what was damaged is made again, it keeps to its size, processes share it."""

import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from oneword.errors import RangeError
from oneword.text import cache

ENDING = ".oneword.safetensors"
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
    monkeypatch.delenv("ONEWORD_CACHE_LIMIT", raising=False)
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
    name = cache.digest(*(part for key, a in content.items() for part in (key, f"{a.dtype} {a.shape}", a.tobytes())))
    # NaN is not equal to itself, its bytes are.
    content = {key: np.nan_to_num(array) for key, array in content.items()}
    assert same(cache.remembered(name, lambda: content), content)
    assert same(cache.remembered(name, never), content)


@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_a_changed_bit_anywhere_is_noticed_and_mended(place: float, bit: int) -> None:
    cache.remembered("numbers", lambda: NUMBERS)
    path = cache.folder() / f"numbers{ENDING}"
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
    path = cache.folder() / f"numbers{ENDING}"
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
    with pytest.warns(UserWarning, match="set ONEWORD_CACHE") as said:
        assert same(cache.remembered("numbers", lambda: NUMBERS), NUMBERS)
    assert len(said) == 1


def test_an_entry_that_is_a_link_or_a_pipe_is_replaced_and_never_followed(tmp_path: Path, folder: Path) -> None:
    cache.remembered("numbers", lambda: NUMBERS)
    path, victim = folder / f"numbers{ENDING}", tmp_path / "victim"
    content = path.read_bytes()
    for make in (lambda: path.symlink_to(victim), lambda: os.mkfifo(path)):
        victim.write_bytes(content)  # even if it holds the very arrays
        os.utime(victim, (1, 1))
        path.unlink()
        make()
        with pytest.warns(UserWarning, match=r"a (link|pipe), not a file\): it is made again"):
            assert same(cache.remembered("numbers", lambda: NUMBERS), NUMBERS)
        assert path.is_file()
        assert not path.is_symlink()
        assert victim.read_bytes() == content
        assert victim.stat().st_mtime == 1
        assert same(cache.remembered("numbers", never), NUMBERS)


def test_links_are_counted_and_removed_as_links(tmp_path: Path, folder: Path) -> None:
    size = store("a")
    (tmp_path / "large").write_bytes(bytes(100_000))
    (folder / f"link{ENDING}").symlink_to(tmp_path / "large")
    assert cache.usage().bytes < size + 1000
    assert cache.clear().files == 2
    assert (tmp_path / "large").stat().st_size == 100_000


def test_a_folder_in_the_place_of_an_entry_costs_time_and_nothing_else(folder: Path) -> None:
    (folder / f"numbers{ENDING}").mkdir(parents=True)
    with pytest.warns(UserWarning, match="a folder, not a file|nothing is cached") as said:
        assert same(cache.remembered("numbers", lambda: NUMBERS), NUMBERS)
    assert all("\n" not in str(warning.message) for warning in said)
    assert cache.usage() == cache.clear() == (0, 0)
    assert [path.name for path in folder.iterdir()] == [f"numbers{ENDING}"]


def test_a_folder_that_is_a_link_is_one_that_its_owner_made(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "disk").mkdir()
    folder.symlink_to("disk")
    store("a")
    assert [path.name for path in (tmp_path / "disk").iterdir()] == [f"a{ENDING}"]


@given(parts=st.lists(st.text(max_size=3), max_size=4), others=st.lists(st.text(max_size=3), max_size=4))
def test_different_parts_have_different_digests(parts: list[str], others: list[str]) -> None:
    assert (cache.digest(*parts) == cache.digest(*others)) == (parts == others)


def test_the_folder_is_the_users_cache_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ONEWORD_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", "linux")
    assert cache.folder() == tmp_path / "oneword"
    assert cache.usage() == (0, 0)


# Size ---------------------------------------------------------------------------------------------------------------


def store(name: str, numbers: int = 1000) -> int:
    """An entry of that many bytes and a few; returns its size on disk."""
    cache.remembered(name, lambda: {"x": np.zeros(numbers, dtype=np.int8)})
    return (cache.folder() / f"{name}{ENDING}").stat().st_size


def names() -> set[str]:
    return {path.name.removesuffix(ENDING) for path in cache.folder().iterdir()}


def test_usage_counts_files_and_bytes_and_clear_removes_them(folder: Path) -> None:
    assert cache.clear() == (0, 0)
    size = store("a") + store("b", 5000)
    assert cache.usage() == cache.clear() == (2, size)
    assert cache.usage() == (0, 0)
    assert not any(folder.iterdir())


def test_files_of_others_are_neither_counted_nor_removed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights of many hours")
    (folder / ".model.safetensors.0123456789abcdef").write_bytes(b"somebody's")
    monkeypatch.setenv("ONEWORD_CACHE_LIMIT", "1")
    store("a")
    store("b")
    assert cache.usage().files == cache.clear().files == 1
    assert {path.name for path in folder.iterdir()} == {"model.safetensors", ".model.safetensors.0123456789abcdef"}


@pytest.mark.parametrize(
    ("said", "bytes_"),
    [
        ("", 2_000_000_000),
        ("500MB", 500_000_000),
        ("1.5 gb", 1_500_000_000),
        ("2GiB", 2 << 30),
        ("64k", 64_000),
        ("12", 12),
        ("0", 0),
        ("7 B", 7),
    ],
)
def test_the_limit_is_a_size_with_a_unit(monkeypatch: pytest.MonkeyPatch, said: str, bytes_: int) -> None:
    monkeypatch.setenv("ONEWORD_CACHE_LIMIT", said)
    assert cache.limit() == bytes_


@pytest.mark.parametrize("said", ["a lot", "-1GB", "5 XB", "1e9", "GB", "nan", "٣MB", "9" * 400])
def test_a_limit_that_is_no_size_is_refused_before_anything_is_made(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv("ONEWORD_CACHE_LIMIT", said)
    with pytest.raises(RangeError, match=f"expected a size such as 500MB .* got '{said}'"):
        cache.remembered("numbers", never)


@given(uses=st.lists(st.sampled_from("abcdef"), min_size=1, max_size=12), room=st.integers(0, 4))
def test_the_entries_used_last_stay_within_the_limit(uses: list[str], room: int) -> None:
    cache.clear()
    size = store("a")
    cache.clear()
    expected: list[str] = []  # oldest first
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ONEWORD_CACHE_LIMIT", str(room * size))
        for moment, name in enumerate(uses):
            store(name)
            # The clock of a file system is too coarse for this test, which is quicker than anybody.
            os.utime(cache.folder() / f"{name}{ENDING}", (moment, moment))
            expected = [other for other in expected if other != name] + [name]
            expected = expected[-max(room, 1) :]
            assert names() == set(expected)


def test_reading_an_entry_is_using_it(folder: Path) -> None:
    store("a")
    os.utime(folder / f"a{ENDING}", (1, 1))
    cache.remembered("a", never)
    assert time.time() - (folder / f"a{ENDING}").stat().st_mtime < 60


# Processes ----------------------------------------------------------------------------------------------------------

SHARED = """
import os, sys, time, warnings
from pathlib import Path
import numpy as np
from oneword.text import cache
warnings.simplefilter("error")  # nothing of this is worth a warning
marks = Path(sys.argv[1])

def arrays():
    return {"x": np.arange(30_000)}

def good(found):
    assert list(found) == ["x"] and np.array_equal(found["x"], np.arange(30_000))

def wait_for(*names):
    end = time.monotonic() + 60
    while not all((marks / name).exists() for name in names):
        assert time.monotonic() < end, f"nobody made {names}"
        time.sleep(0.001)
"""
# Both are in the middle of making the entry at the same time, and so both write it.
FILL = """
def make():
    (marks / sys.argv[2]).touch()
    wait_for("one", "two")
    return arrays()
good(cache.remembered("shared", make))
good(cache.remembered("shared", arrays))
"""
READ = """
(marks / "reads").touch()
wait_for("disturbs")
made = []
end = time.monotonic() + 60
while len(made) < 30:  # until the other process came between that often
    good(cache.remembered("shared", lambda: made.append(1) or arrays()))
    assert time.monotonic() < end
(marks / "done").touch()
"""
DISTURB = """
wait_for("reads")
(marks / "disturbs").touch()
while not (marks / "done").exists():
    {act}
"""
ACTS = {
    "clears": "cache.clear()",
    "evicts": "cache.remembered('other', arrays); (cache.folder() / 'other.oneword.safetensors').unlink()",
}


def start(script: str, *arguments: object, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SHARED + script, *map(str, arguments)],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | environment,
    )


def finish(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        _, said = process.communicate(timeout=120)
        assert process.returncode == 0, said


def test_two_processes_that_fill_an_entry_at_once_leave_one_valid_entry(tmp_path: Path, folder: Path) -> None:
    finish(start(FILL, tmp_path, "one"), start(FILL, tmp_path, "two"))
    assert [path.name for path in folder.iterdir()] == [f"shared{ENDING}"]
    assert np.array_equal(cache.remembered("shared", never)["x"], np.arange(30_000))


@pytest.mark.parametrize("act", ACTS)
def test_what_another_process_removes_meanwhile_is_made_again(tmp_path: Path, folder: Path, act: str) -> None:
    reader = start(READ, tmp_path)
    other = start(DISTURB.format(act=ACTS[act]), tmp_path, ONEWORD_CACHE_LIMIT="1")
    finish(reader, other)
    assert all(path.name.endswith(ENDING) and not path.name.startswith(".") for path in folder.iterdir())


def test_what_a_killed_process_was_writing_is_removed(tmp_path: Path, folder: Path) -> None:
    die = "os.fsync = lambda _: os.kill(os.getpid(), 9)\ncache.remembered('shared', arrays)"

    def leftover() -> Path:
        process = start(die, tmp_path)
        process.communicate(timeout=120)
        assert process.returncode == -signal.SIGKILL
        (path,) = folder.glob(".*")
        return path

    path = leftover()
    assert cache.usage() == (0, 0)
    store("a")
    assert path.exists()  # somebody may still be writing it
    os.utime(path, (1, 1))
    store("b")
    assert names() == {"a", "b"}
    path = leftover()
    size = path.stat().st_size
    before = cache.usage()
    assert cache.clear() == (before.files + 1, before.bytes + size)
    assert names() == set()
