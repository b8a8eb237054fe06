"""How soon a long text is answered: a real review of 300 words, by the command as a person types it."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from oneword.text.corpora import Corpus

BARS = {"first_answer_seconds": "< 30 on two cores"}
WORDS = 300
COMMANDS = {"minilm": ["--model", "minilm"], "default": []}


def reviews(words: int, count: int) -> list[str]:
    """Real reviews of about this many words, in the order of the corpus."""
    found = (text for text in Corpus.load("imdb-embedded").texts if abs(len(text.split()) - words) <= words // 20)
    return [" ".join(text.split()) for _, text in zip(range(count), found, strict=False)]


def measure(count: int = 1) -> dict[str, Any]:
    """From the start of the command to its first answer on standard error and to its end, for each of the commands."""
    texts = [text for text in reviews(WORDS, 50) if len(text.split()) == WORDS][:count]
    out: dict[str, Any] = {"bars": BARS, "words": WORDS, "texts": len(texts)}
    for name, options in COMMANDS.items():
        both = [_timed(text, options) for text in texts]
        first, whole = zip(*both, strict=True)
        out[name] = {
            "first_answer_seconds": list(first),
            "first_answer_seconds_median": statistics.median(first),
            "all_seconds": list(whole),
        }
    return out


def _timed(text: str, options: list[str]) -> tuple[float, float]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "review.txt"
        file.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "oneword", "measure", "--file", str(file), *options]
        began = time.monotonic()
        run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=os.environ)
        assert run.stderr is not None
        first = next((time.monotonic() - began for line in run.stderr if "first answer after" in line), float("nan"))
        run.communicate()
        assert run.returncode == 0
        return round(first, 1), round(time.monotonic() - began, 1)
