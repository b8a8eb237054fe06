"""Hostile texts, specs, prompts, thresholds, pairs and tables: a result or an error of one line, soon; nothing written.

`python -m benchmarks.evidence hostile_inputs` tries 500 of them; here are those that once did harm, and some more.
"""

from __future__ import annotations

import io
import os
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import oneword as ow
from benchmarks import fuzz_inputs
from benchmarks.fuzz import run
from oneword.auditing.pairs import Pairs
from oneword.auditing.thresholds import Thresholds
from oneword.errors import FileFormatError, RangeError, UnknownNameError
from oneword.experiments.spec import load_spec
from oneword.files import read_regular
from oneword.text import tables


def test_a_part_of_the_hostile_inputs_does_no_harm() -> None:
    some = [case for case in fuzz_inputs.cases(200) if int(case.name.partition(":")[0]) in range(16, 24)]
    found = run(some)
    assert found["faults"] == []
    assert found["cases"] == 48


def written(tmp_path: Path, name: str, content: str | bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ('[sweep]\nmaps = "rf"\nn = 4\nd = 3\ntrials = 1000000000000', "trials a whole number .* ≤ 100000"),
        (fuzz_inputs.SPECS[1], "at most 100,000 cells in a grid, got 1.6e"),
        ("x = " + "[" * 100_000, "brackets inside brackets"),
        ("x = " + "{a = " * 100_000, "brackets inside brackets"),
        ("[" + ".".join(["a"] * 100_000) + "]", "a key of many parts"),
        ("a" * 100_000 + " = 1", r"got 'a+…"),
        ("x = " + "9" * 5000, "4300 digits"),
    ],
    ids=["trials", "a huge grid", "brackets", "braces", "a dotted key", "a long key", "a long number"],
)
def test_specs_that_once_did_harm_are_refused_in_one_short_line(tmp_path: Path, content: str, match: str) -> None:
    with pytest.raises(ow.OnewordError, match=match) as caught:
        load_spec(written(tmp_path, "spec.toml", content))
    assert len(str(caught.value)) < 600


def test_a_parquet_file_that_stands_for_many_bytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_BYTES", 10_000_000)
    rows = pa.DictionaryArray.from_arrays(pa.nulls(20_000, pa.int32()).fill_null(0), ["x" * 1000])
    file = io.BytesIO()
    parquet.write_table(pa.table({"text": rows, "edited": rows, "kind": rows}), file, compression="zstd")
    assert len(file.getvalue()) < 20_000
    path = written(tmp_path, "bomb.parquet", file.getvalue())
    for read in (Pairs.read, lambda path: ow.Corpus.load(path).texts):
        with pytest.raises(FileFormatError, match="more than 10,000,000 bytes in its columns"):
            read(path)
    monkeypatch.setattr(tables, "_MOST_ROWS", 1000)
    with pytest.raises(FileFormatError, match="more than 1,000 rows"):
        Pairs.read(path)


def test_many_or_long_columns_make_a_short_message(tmp_path: Path) -> None:
    path = written(tmp_path, "wide.csv", ",".join(f"c{k}" for k in range(10_000)) + "\n")
    for read, kind in ((Pairs.read, FileFormatError), (lambda path: ow.Corpus.load(path).texts, UnknownNameError)):
        with pytest.raises(kind, match=r"c0, c1, .*…") as caught:
            read(path)
        assert len(str(caught.value)) < 600


def test_a_long_text_is_refused_before_its_words_are_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from oneword.text import encoders

    monkeypatch.setattr(encoders, "align", lambda *_: pytest.fail("the words of a text that is too long"))
    with pytest.raises(RangeError, match="at most 512 tokens"):
        ow.encode("word " * 1000)


def test_names_and_limits_of_many_letters_are_shortened() -> None:
    long = "a" * 10_000
    for act in (
        lambda: Thresholds.parse([long]),
        lambda: Thresholds.parse([f"auc.negation={long}"]),
        lambda: ow.measure("I love her", by="attention", within=long),
        lambda: ow.measure("I love her", by="attention", within=f"ball:{long}"),
    ):
        with pytest.raises(ow.OnewordError) as caught:
            act()
        assert len(str(caught.value)) < 300


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet", ".txt"])
def test_a_pipe_in_the_place_of_a_table_is_refused_at_once(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"pipe{suffix}"
    os.mkfifo(path)
    with pytest.raises(OSError, match="a pipe, not a file"):
        read_regular(path)
    with pytest.raises(FileFormatError):
        ow.Corpus.load(path)
    if suffix != ".txt":
        with pytest.raises(FileFormatError, match="a pipe, not a file"):
            Pairs.read(path)


def test_the_command_names_its_option_for_a_column(oneword, tmp_path: Path) -> None:
    path = written(tmp_path, "reviews.csv", "review\ngood film\n")
    run = oneword("measure", "--file", str(path), "--map", "attention")
    assert run.returncode == 2
    assert "expected a column 'text' in reviews.csv, got review" in run.stderr
    assert "--column" in run.stderr


@pytest.mark.parametrize("radius", ["-1", "0"])
def test_the_command_shows_a_radius_as_it_was_given(oneword, radius: str) -> None:
    run = oneword("measure", "I love her", "--map", "attention", "--within", f"ball:{radius}")
    assert run.returncode == 2
    assert f"got {radius}:" in run.stderr


def test_the_command_shows_what_a_terminal_would_obey(oneword, tmp_path: Path) -> None:
    evil = "\x1b]8;;x\x07\x9b2J\u202e"
    for arguments in (
        ["measure", "--file", str(tmp_path / f"{evil}.csv")],
        ["measure", "I love her", "--map", evil],
        ["measure", "I love her", "--within", evil],
        ["audit", "--threshold", evil],
        ["compare", "a", "b", "--model", evil],
        ["chat", "--user", "a {word}", "--word", "b", "--word", "c", "--model", evil],
        ["sweep", str(tmp_path / f"{evil}.toml")],
    ):
        run = oneword(*arguments)
        assert run.returncode == 2, arguments
        assert not set(evil) & set("\x1b\x07\x9b\u202e") & set(run.stdout + run.stderr), arguments
