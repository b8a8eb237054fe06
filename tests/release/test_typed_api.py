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
s: ow.Sensitivity = ow.sensitivity(phi, text, within=ow.Ball(), search=ow.Ascent.quick(), certify=ow.Certify(target=1.1))
value: float = s.value
upper: float | None = s.upper
table: pd.DataFrame = s.per_word
weights: Tensor = phi.W


def largest(maps: list[ow.FeatureMap], texts: list[ow.Context]) -> float:
    return max(ow.sensitivity(each, one).value for each in maps for one in texts)
"""
WRONG = """
ow.sensitivity(phi, text, serach=ow.Ascent())
name: str = s.value
phi.at(text.X).change(text.X)
"""


def test_a_program_that_uses_the_package_passes_strict_checks(installed: Installed, tmp_path: Path) -> None:
    pytest.importorskip("mypy", reason="needs oneword[dev]")
    (tmp_path / "program.py").write_text(PROGRAM + WRONG)
    # What the linters know of torch and pandas is used again; the copy is this test's own to change.
    if (ROOT / ".mypy_cache").exists():
        shutil.copytree(ROOT / ".mypy_cache", tmp_path / "cache")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "program.py"]
    options = ["--config-file", ROOT / "pyproject.toml", "--cache-dir", tmp_path / "cache"]
    run = subprocess.run(
        [*command, *options, "--python-executable", installed.folder / "bin" / "python"],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert run.stderr == ""
    first = PROGRAM.count("\n") + 2
    lines = [(int(line.split(":")[1]), line.split("[")[-1].rstrip("]")) for line in run.stdout.splitlines()]
    assert lines == [(first, "call-arg"), (first + 1, "assignment"), (first + 2, "attr-defined")]
