"""How many files does a change touch? Each change of CONTRIBUTING.md ("How to add …") is applied to a copy and counted.

NAME.patch is the change, NAME_check.py a script that fails where the change does not work. A patch that no longer
applies has to be made anew: `git diff > tests/changes/NAME.patch` after editing the tree by hand, then
`git checkout src`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
MOST_FILES = {
    "words_column": 2,
    "score": 2,
    "certificate": 2,
    "outside_map": 0,
    "model_output": 2,
    "constraint": 1,
    "audit_edit": 2,
    "audited_encoder": 1,
    "report_figure": 2,
    "model_family": 1,
}


def files_of(patch: Path) -> set[str]:
    """The files of the package that a patch touches."""
    named = [line.split()[1] for line in patch.read_text().splitlines() if line.startswith(("--- ", "+++ "))]
    return {name.partition("/")[2] for name in named if name.partition("/")[2].startswith("src/")}


@pytest.mark.slow
@pytest.mark.parametrize("name", MOST_FILES)
def test_a_change_touches_few_files_and_works(name: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    patch = HERE / f"{name}.patch"
    if patch.exists():
        subprocess.run(["git", "apply", "-C1", str(patch)], cwd=tmp_path, check=True)
        assert len(files_of(patch)) <= MOST_FILES[name]
    else:
        assert MOST_FILES[name] == 0, f"{patch.name} is missing"
    environment = os.environ | {"PYTHONPATH": str(tmp_path / "src"), "NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    found = subprocess.run(
        [sys.executable, str(HERE / f"{name}_check.py")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stdout + found.stderr
