"""Every example runs, and prints what it promises."""

import runpy
from pathlib import Path

import pytest

from oneword.text.sources import MINILM, REVIEWS

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
SLOW = ("chunk_length", "first_result", "long_review")


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in SLOW else []) for path in EXAMPLES],
)
def test_the_example_runs_and_reports_a_sensitivity(path, capsys):
    if "ow.gaussian" not in path.read_text() and None in (MINILM.version, REVIEWS.version):
        pytest.skip("needs oneword[embedded]")
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    assert "S ≥" in printed or "≤ S ≤" in printed


def test_there_are_examples():
    assert len(EXAMPLES) >= 2
