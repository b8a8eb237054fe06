"""How commands end: exit codes that a script can trust, at most one line, on every terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from oneword.cli import main as ends
from oneword.cli import measure as command
from oneword.cli.streams import any_encoding
from oneword.errors import CellError, RangeError
from tests.experiments.conftest import kept

QUICK = ["measure", "--gaussian", "3,4", "--map", "rf", "--effort", "quick"]
SPEC = """
[[sweep]]
maps = ["rf"]
n = [4, 5, 6]
d = 4
trials = 30
"""


@pytest.fixture
def raising(oneword, monkeypatch):
    """The command, while its work raises this."""

    def run(error: BaseException, *more: str):
        def work(*_, **__):
            raise error

        monkeypatch.setattr(command, "like_of", work)
        return oneword(*QUICK, *more)

    return run


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (RangeError("expected more"), 2, "RangeError: expected more"),
        (RuntimeError("size\nmismatch"), 70, "RuntimeError: size mismatch: this is a fault of oneword's own; please"),
        (KeyError("x"), 70, "KeyError"),
        (AssertionError(), 70, "AssertionError"),
        (CellError("expected all 3 cells"), 2, "CellError"),
        (KeyboardInterrupt(), 130, "oneword: stopped\n"),
        (KeyboardInterrupt("2 of 4 cells are done"), 130, "oneword: stopped: 2 of 4 cells are done\n"),
        (MemoryError(), 2, "expected enough memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), 2, "expected enough memory"),
        (RangeError("got \x1b[31mred\x07"), 2, r"got \x1b[31mred\x07"),
    ],
)
def test_every_end_has_its_code_and_one_line(raising, error, code, says):
    run = raising(error)
    assert run.returncode == code
    assert says in run.stderr
    assert run.stderr.count("\n") == 1
    assert run.stdout == ""


def test_cells_that_raised_what_nobody_raises_on_purpose_are_our_fault(raising):
    error = CellError("expected all 3 cells")
    error.__cause__ = ZeroDivisionError()
    assert raising(error).returncode == 70


def test_debug_shows_the_traceback_and_keeps_the_code(raising):
    for error, code in ((RuntimeError("x"), 70), (RangeError("x"), 2)):
        run = raising(error, "--debug")
        assert (run.returncode, "Traceback" in run.stderr) == (code, True)


@pytest.mark.parametrize(
    ("option", "place", "says"),
    [
        ("--json", "no/such/folder/a.json", "make the folder first"),
        ("--json", ".", "got the folder"),
        ("--html", "taken.html", "got the folder"),
        ("--table", "no/t.csv", "make the folder first"),
        ("--table", "t.xlsx", "ends in .csv or .parquet"),
        ("--out", "file/results", "can be made"),
    ],
)
def test_places_are_refused_before_the_work(raising, tmp_path, monkeypatch, option, place, says):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "taken.html").mkdir()
    run = raising(AssertionError("work began"), option, place)
    assert run.returncode == 2
    assert option in run.stderr
    assert says in run.stderr


def test_reproduce_refuses_its_json_before_the_work(oneword, tmp_path):
    run = oneword("reproduce", "--out", str(tmp_path / "new"), "--json", str(tmp_path / "no" / "a.json"))
    assert (run.returncode, "--json" in run.stderr, (tmp_path / "new").exists()) == (2, True, False)


@pytest.mark.parametrize("device", ["meta", "abacus", "cuda:99", ""])
def test_a_device_that_holds_no_numbers_is_one_line(oneword, device):
    run = oneword(*QUICK, "--device", device)
    assert run.returncode == 2
    assert f"got {device!r}" in run.stderr
    assert run.stderr.count("\n") == 1


@pytest.mark.parametrize("within", ["ball:1e300", "ball:1e308", "ball:inf", "ball:nan", "sphere:inf"])
def test_a_radius_beyond_all_numbers_is_one_line(oneword, within):
    run = oneword("measure", "--gaussian", "3,4", "--map", "attention", "--map", "rf", "--within", within)
    assert run.returncode == 2
    assert run.stderr.count("\n") == 1


def test_the_whole_sphere_lies_within_a_large_radius(oneword):
    command = ["measure", "--gaussian", "3,4", "--map", "attention", "--effort", "quick", "--json", "-", "--within"]
    large, whole = (json.loads(oneword(*command, within).stdout) for within in ("sphere:1e300", "sphere"))
    assert [line["value"] for line in large["words"]] == [line["value"] for line in whole["words"]]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_every_character_goes_to_every_terminal(tmp_path, encoding):
    with (tmp_path / "out").open("w", encoding=encoding) as stream:
        any_encoding(stream)
        stream.write("S ≥ 1.5 … ‖Δ‖ ≤ √d é ﬁlm 词 \udcff ÷")
    content = (tmp_path / "out").read_bytes()
    kept = {"ascii": b"e", "latin-1": b"\xe9"}[encoding]
    assert content.startswith(b"S >= 1.5 ... |Delta| <= sqrt d " + kept + b" film \\u8bcd \\udcff ")


def _process(*command: str, **more):
    return subprocess.Popen(
        [sys.executable, "-m", "oneword", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more
    )


def test_a_terminal_without_our_characters_and_a_reader_who_leaves():
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    with _process("measure", "--help", env=ascii_only) as run:
        out, errors = run.communicate()
        assert (run.returncode, errors) == (0, "")
        assert "S >= is attained" in " ".join(out.replace("|", " ").split())
    with _process("measure", "--help") as run:
        run.stdout.close()  # as `head` does
        assert (run.wait(), run.stderr.read()) == (141, "")
    if Path("/dev/full").exists():
        with Path("/dev/full").open("w") as full:
            run = subprocess.run([sys.executable, "-m", "oneword", "--version"], stdout=full, stderr=subprocess.PIPE)
        assert run.returncode == 2
        assert run.stderr.count(b"\n") == 1
        assert b"No space left" in run.stderr


@pytest.mark.parametrize("moment", [0.05, 0.1, 0.2])
def test_interrupted_while_importing(moment):
    with _process("doctor", env={**os.environ, "PYTHONSTARTUP": ""}) as run:
        time.sleep(moment)
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate()
    # Before Python has read its own modules, nobody but Python can answer.
    assert "oneword" not in errors.replace("oneword: stopped", "")


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["0", "2"])
def test_an_interrupted_sweep_says_how_far_it_is_and_goes_on(tmp_path, workers):
    (tmp_path / "spec.toml").write_text(SPEC)
    command = ["sweep", str(tmp_path / "spec.toml"), "--out", str(tmp_path / "out"), "--workers", workers]
    with _process(*command) as run:
        while run.poll() is None and not kept(tmp_path / "out"):
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)
        _, errors = run.communicate(timeout=120)
        assert run.returncode == 130, errors
    last = errors.splitlines()[-1]
    assert last.startswith("oneword: stopped: ")
    assert last.endswith(" of 90 cells are done; the same command goes on from there")
    assert "Traceback" not in errors
    with _process(*command) as run:
        _, errors = run.communicate(timeout=120)
        assert run.returncode == 0, errors
    assert "of them done before" in errors


def test_the_codes_are_in_the_help(oneword):
    shown = " ".join(oneword("--help").stdout.split())
    for code in (ends.BAD_INPUT, ends.OUR_FAULT, ends.INTERRUPTED):
        assert f"{code} " in shown
