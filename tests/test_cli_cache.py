"""`oneword cache`, as a user runs it."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from oneword.cli.main import main
from oneword.text import cache


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ONEWORD_CACHE", str(tmp_path / "[bold]cache"))
    monkeypatch.setenv("ONEWORD_CACHE_LIMIT", "500MB")
    cache.remembered("numbers", lambda: {"x": np.zeros(200_000)})
    return tmp_path / "[bold]cache"


def oneword(*arguments: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["oneword", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()
    return int(stopped.value.code or 0)


@pytest.mark.parametrize("arguments", [["cache"], ["cache", "show"]])
def test_alone_it_shows_the_folder_its_size_and_its_limit(
    arguments: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert oneword(*arguments) == 0
    assert capsys.readouterr().out == f"{folder}: 1 file, 1.6 MB, at most 500.0 MB\n"
    assert cache.usage().files == 1


def test_clear_removes_everything_and_says_how_much(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert oneword("cache", "clear") == 0
    assert capsys.readouterr().out == f"removed 1 file, 1.6 MB from {folder}\n"
    assert not any(folder.iterdir())
    assert oneword("cache", "clear", "--json", "-") == 0
    assert json.loads(capsys.readouterr().out) == {"folder": str(folder), "files": 0, "bytes": 0}


def test_the_numbers_can_be_had_as_json(folder: Path, tmp_path: Path) -> None:
    assert oneword("cache", "show", "--json", str(tmp_path / "a.json")) == 0
    shown = json.loads((tmp_path / "a.json").read_text())
    assert shown == {"folder": str(folder), "files": 1, "bytes": cache.usage().bytes, "limit": 500_000_000}


def test_a_limit_that_is_no_size_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ONEWORD_CACHE_LIMIT", "a lot")
    assert oneword("cache") == 2
    said = capsys.readouterr().err
    assert said.startswith("oneword: RangeError: expected a size such as 500MB")
    assert said.count("\n") == 1


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    assert oneword("cache", "--help") == 0
    shown = capsys.readouterr().out
    for word in ("show", "clear", "ONEWORD_CACHE", "ONEWORD_CACHE_LIMIT"):
        assert word in shown
