"""The new edit is made, measured and judged, by the library and by the command."""

import json
import tempfile
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

import oneword as ow
from oneword.auditing.encoders import NAMED
from oneword.cli.main import app

TEXTS = [f"Number {k} shows that all films were really boring, and some actors knew it." for k in range(4)]


def count_letters(texts: list[str]) -> np.ndarray:
    return np.array([[1 + text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts])


found = ow.audit(count_letters, TEXTS, lengths=[8, 12], edits=["quantifier", "typo"], resamples=99)
edits = found.edits[found.edits["type"] == "quantifier"]
assert set(edits["kind"]) == {"signal"}
assert set(edits["was"]) <= {"all", "some"}
assert set(edits["became"]) <= {"all", "some", "no"}
assert "heard.quantifier" in set(found.verdicts["what"])

NAMED["letters"] = lambda: count_letters
with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "texts.txt"
    file.write_text("\n".join(TEXTS))
    options = ["--model", "letters", "--file", str(file), "--lengths", "8", "--edit", "quantifier", "--json", "-"]
    run = CliRunner().invoke(app, ["audit", *options])
assert run.exit_code in (0, 1), run.output
assert {line["type"] for line in json.loads(run.stdout)["types"]} == {"quantifier"}
