"""Cells small enough to be done in a blink, a small encoder and a small corpus."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from oneword.experiments.cells import SensitivityCell
from tests.text.tiny_bert import write_tiny


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(write_tiny(tmp_path_factory.mktemp("models") / "tiny"))


@pytest.fixture(scope="session")
def tiny_corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    """64 different reviews of 6 words, with labels."""
    path = tmp_path_factory.mktemp("corpora") / "reviews.csv"
    write_reviews(path)
    return str(path)


def write_reviews(path: Path, words: tuple[str, str] = ("good", "bad")) -> None:
    lines = [f"{' '.join(words[j >> bit & 1] for bit in range(6))},{('pos', 'neg')[j % 2]}" for j in range(64)]
    path.write_text("\n".join(["text,label", *lines]) + "\n")


def quick_cells(count: int, map_: str = "attention", **more: object) -> list[SensitivityCell]:
    """So many cells that take some hundredths of a second each."""
    return [SensitivityCell(map=map_, n=4, d=6, search="quick", trial=trial, **more) for trial in range(count)]


def flipped(content: bytes, step: int) -> Iterator[bytes]:
    """The content with one bit changed, a different one of every `step`-th byte."""
    for place in range(0, len(content), step):
        yield content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :]


def kept(out: Path) -> int:
    """How many cells a folder holds, as another program counts them."""
    if not (out / "cells.sqlite").exists():
        return 0
    file = sqlite3.connect(out / "cells.sqlite")
    try:
        return int(file.execute("SELECT count(*) FROM cells").fetchone()[0])
    except sqlite3.OperationalError:  # no table yet
        return 0
    finally:
        file.close()
