"""The new encoder is audited by its name, by the library and by the command; an own function needs no change."""

import json
import tempfile
from pathlib import Path

from typer.testing import CliRunner

import oneword as ow
from oneword.cli.main import app

TEXTS = [f"Number {k} was a good film, and I would really call it great." for k in range(4)]

found = ow.audit("hashed-words", TEXTS, lengths=[8, 12], edits=["negation", "typo"], resamples=99)
assert found.about["judged"] == ["hashed-words"]
assert (found.edits["change"] > 0).all()
assert set(found.chunks["unit"]) == {"words"}

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "texts.txt"
    file.write_text("\n".join(TEXTS))
    run = CliRunner().invoke(
        app, ["audit", "--model", "hashed-words", "--file", str(file), "--lengths", "8", "--json", "-"]
    )
assert run.exit_code in (0, 1), run.output
assert json.loads(run.stdout)["about"]["judged"] == ["hashed-words"]


def own(texts: list[str]) -> list[list[float]]:
    return [[1 + text.count(letter) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]


assert ow.audit(own, TEXTS, lengths=[8], resamples=99).about["judged"] == ["own"]
