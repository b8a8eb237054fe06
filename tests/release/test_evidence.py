"""Measurements belong to a commit: they are made on a clean tree, and the file says which."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import evidence

POSITIONS = ("one_position", "all_positions")


def _commits(data: Any) -> Iterator[str]:
    """Every value named commit, however deep."""
    if isinstance(data, dict):
        yield from (str(value) for name, value in data.items() if name == "commit")
        for value in data.values():
            yield from _commits(value)


def _git(folder: Path, *command: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run(["git", *who, *command], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of its own with one measurement in one commit."""
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "measurements.json").write_text("{}\n")
    (tmp_path / "code.py").write_text("x = 1\n")
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "add", "-A")
    _git(tmp_path, "commit", "-q", "-m", "first")
    monkeypatch.setattr(evidence, "FILE", tmp_path / "docs" / "measurements.json")
    monkeypatch.setattr(evidence, "SECTIONS", {"one": lambda: {"number": 1}})
    return tmp_path


def test_every_recorded_measurement_was_made_on_a_commit() -> None:
    commits = list(_commits(json.loads(evidence.FILE.read_text())))
    assert commits
    assert not [commit for commit in commits if "dirty" in commit]


@pytest.mark.parametrize("name", ["code.py", "new.py"])
def test_uncommitted_code_is_refused_in_one_line_before_the_work(tree: Path, name: str) -> None:
    (tree / name).write_text("x = 2\n")
    with pytest.raises(SystemExit, match=rf"^expected a clean tree, got .*{name}.*: commit"):
        evidence.main(["one"])
    assert json.loads(evidence.FILE.read_text()) == {}


def test_the_file_of_measurements_itself_may_differ(tree: Path) -> None:
    evidence.main(["one"])
    evidence.main(["one"])
    written = json.loads(evidence.FILE.read_text())
    assert written["one"]["numbers"] == {"number": 1}
    assert "dirty" not in written["one"]["made_on"]["commit"]


def test_what_is_said_of_the_guide_of_deep_random_features_is_what_was_measured() -> None:
    """Ranges are rounded outwards, by less than one of their last digits."""
    rows = json.loads(evidence.FILE.read_text())["deep_guide"]["numbers"]
    text = " ".join((evidence.FILE.parent / "theory.md").read_text().split())
    said = re.search(
        r"on average (\S+) to (\S+) of it at one position and (\S+) to (\S+) of it over all positions .* single draws "
        r"of the weights gave (\S+) to (\S+) \(",
        text,
    )
    assert said is not None
    numbers = [float(number) for number in said.groups()]
    means = [[row[f"{where}_over_guide"] for row in rows if f"{where}_over_guide" in row] for where in POSITIONS]
    single = [value for row in rows for name, value in row.items() if name.endswith(("_least", "_largest"))]
    measured = [*means, single]
    for low, high, values in zip(numbers[::2], numbers[1::2], measured, strict=True):
        assert low <= min(values) < low + 0.01
        assert high - 0.01 < max(values) <= high
