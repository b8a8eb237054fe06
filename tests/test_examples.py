"""Every example runs, and prints what it promises."""

import runpy
from pathlib import Path

import pytest

from oneword.text.sources import MINILM, REVIEWS

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs_and_reports_a_sensitivity(path, capsys):
    if "ow.gaussian" not in path.read_text() and None in (MINILM.version, REVIEWS.version):
        pytest.skip("needs oneword[embedded]")
    runpy.run_path(str(path), run_name="__main__")
    printed = capsys.readouterr().out
    assert "S ≥" in printed or "≤ S ≤" in printed


def test_there_are_examples():
    assert len(EXAMPLES) >= 2


def test_the_code_of_the_readme_runs(tmp_path, monkeypatch):
    text = (Path(__file__).parents[1] / "README.md").read_text()
    blocks = [part.split("```", 1)[0] for part in text.split("```python\n")[1:]]
    assert len(blocks) == 3
    blocks[2] = blocks[2].replace('smile."))', 'smile."), search=ow.Ascent.quick())')
    smaller = "\n".join(blocks).replace("384", "24").replace("(50, ", "(8, ").replace("seconds=60", "seconds=1")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(smaller, "README.md", "exec"), names)
    assert names["s"].value > 0
    assert (tmp_path / "words.pdf").stat().st_size > 1000
