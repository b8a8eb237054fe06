"""The public names have types that a user's own program is checked against: py.typed is in the wheel."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.release.conftest import ROOT, Installed

PROGRAM = """
import pandas as pd
import oneword as ow
from torch import Tensor

text: ow.Context = ow.gaussian(10, 16)
phi = ow.AttentionFeatures.draw(text.d, seed=0)
s: ow.Sensitivity = ow.sensitivity(phi, text, within=ow.Ball(), search="quick", certify=ow.Certify(1.1))
value: float = s.value
upper: float | None = s.upper
table: pd.DataFrame = s.per_word
weights: Tensor = phi.W


def largest(maps: list[ow.FeatureMap], texts: list[ow.Context]) -> float:
    return max(ow.sensitivity(each, one).value for each in maps for one in texts)
"""
WRONG = """
name: str = s.value
s.vlaue
ow.Ascent.quik()
"""


def test_a_program_that_uses_the_package_passes_strict_checks_and_a_wrong_one_does_not(
    installed: Installed, tmp_path: Path
) -> None:
    pytest.importorskip("mypy", reason="needs oneword[dev]")
    (tmp_path / "program.py").write_text(PROGRAM + WRONG)
    # The linters' settings (strict) and a copy of what they know of torch and pandas, which takes a minute to read.
    if (ROOT / ".mypy_cache").exists():
        shutil.copytree(ROOT / ".mypy_cache", tmp_path / "cache")
    settings = ["--config-file", ROOT / "pyproject.toml", "--cache-dir", tmp_path / "cache", "--no-error-summary"]
    command = [sys.executable, "-m", "mypy", *settings, "--python-executable", installed.python, "program.py"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert run.stderr == ""
    places = [(int(line.split(":")[1]), line.rpartition("[")[2]) for line in run.stdout.splitlines()]
    first = PROGRAM.count("\n") + 2
    assert places == [(first, "assignment]"), (first + 1, "attr-defined]"), (first + 2, "attr-defined]")]
