"""The command line, as a user runs it: what it prints, what it writes, how it fails."""

import json
import os
import re
import subprocess
import sys
import time
import tomllib

import pandas as pd
import pytest

import oneword as ow
from oneword.experiments import paper
from oneword.experiments.judging import Claim
from tests.text.tiny_bert import needs_minilm


def test_the_command_itself_runs_in_a_process_of_its_own(oneword):
    command = ["measure", "--gaussian", "3,4", "--map", "attention", "--effort", "quick"]
    run = subprocess.run([sys.executable, "-m", "oneword", *command], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert "Softmax attention" in run.stdout
    bad = oneword(*command, "--together", "7")
    assert bad.returncode == 2
    assert bad.stderr.count("\n") == 1
    assert bad.stderr.startswith("oneword: RangeError: expected words out of 1 … 3")


def test_help_teaches(oneword):
    shown = oneword("measure", "--help").stdout
    for word in ("--gaussian", "--map", "--model", "--together", "--json", "--effort", "Examples"):
        assert word in shown


def test_help_shows_brackets_as_they_are_to_be_typed(oneword):
    shown = oneword("sweep", "--help").stdout
    lines = [line.strip() for line in shown.splitlines()]
    begin = lines.index("[[sweep]]")
    assert tomllib.loads("\n".join(lines[begin - 1 : begin + 5]))["sweep"][0]["n"] == [20, 40, 80]
    assert "[OPTIONS] [FIGURE]...\n" in re.sub(" +\n", "\n", oneword("reproduce", "--help").stdout)


def test_help_is_quick_because_nothing_heavy_is_imported():
    code = (
        "import sys, oneword.cli.main; print(any(m in sys.modules for m in ('torch', 'pandas', 'matplotlib', 'numba')))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout.strip() == "False"


def test_measure_prints_a_table_for_each_map(oneword):
    run = oneword("measure", "--gaussian", "6,16", "--map", "attention", "--map", "rf", "--effort", "1.2,0.5")
    assert run.returncode == 0, run.stderr
    assert "Softmax attention" in run.stdout
    assert "Fully connected layer" in run.stdout
    assert "S ≥" in run.stdout
    assert "S ≤" in run.stdout


def test_json_on_standard_output_is_all_there_is(oneword):
    run = oneword(
        "measure", "--gaussian", "5,8", "--map", "drf-2", "--together", "2", "--effort", "quick", "--json", "-"
    )
    found = json.loads(run.stdout)
    (result,) = found["joint"]
    assert {line["by"] for line in found["words"]} == {"drf-2"}
    assert len(result["positions"]) == 2
    assert result["value"] <= result["upper"]


def test_out_writes_results_that_load_and_figures_and_follows_no_link(oneword, tmp_path):
    victim, new = tmp_path / "victim", tmp_path / "new"
    victim.write_text("victim")
    new.mkdir()
    names = {"attention.json", "attention.json.safetensors", "attention.pdf", "rf.png", "words.parquet"}
    asked = [tmp_path / name for name in ("page.html", "found.json", "table.csv")]
    for link in (*(new / name for name in names), *asked):
        link.symlink_to(victim)
    page, found, table = map(str, asked)
    outputs = ["--out", str(new), "--html", page, "--json", found, "--table", table]
    run = oneword("measure", "--gaussian", "5,8", "--effort", "quick", *outputs)
    assert run.returncode == 0, run.stderr
    assert names <= {path.name for path in new.iterdir()}
    assert not any(path.is_symlink() for path in (*new.iterdir(), *asked))
    assert not any(path.name.startswith(".") for path in (*new.iterdir(), *tmp_path.iterdir()))
    assert victim.read_text() == "victim"
    assert ow.Sensitivity.load(new / "attention.json").value > 0


def test_the_command_line_gives_the_numbers_of_the_library(oneword):
    command = ["measure", "--gaussian", "6,12", "--map", "attention", "--seed", "3", "--effort", "1.2,0", "--json", "-"]
    found = json.loads(oneword(*command).stdout)["words"]
    text = ow.gaussian(6, 12, seed=3)
    s = ow.sensitivity(ow.AttentionFeatures.draw(12, seed=3), text, seed=3, certify=ow.Certify(seconds=0))
    for name in ("value", "upper"):
        assert [line[name] for line in found] == pytest.approx(list(s.per_word[name]), rel=1e-9)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["measure"], "--gaussian N,D"),
        (["measure", "--gaussian", "50"], "'50'"),
        (["measure", "--gaussian", "0,8"], "n = 0"),
        (["measure", "--gaussian", "5,8", "--map", "raf"], "'raf'"),
        (["measure", "--gaussian", "5,8", "--map", "attention-softmx"], "did you mean 'attention-softmax'"),
        (["measure", "--gaussian", "5,8", "--dtype", "half"], "'half'"),
        (["measure", "--gaussian", "5,8", "--together", "9"], "1 … 5"),
        (["measure", "--gaussian", "5,8", "--position", "7"], "[7]"),
        (["measure", "--gaussian", "5,8", "--within", "ball:-1"], "radius"),
        (["measure", "--gaussian", "5,8", "--within", "cube"], "ball, sphere"),
        (["measure", "--gaussian", "5,8", "--effort", "0.5"], "target"),
        (["measure", "--gaussian", "5,8", "--effort", "quick", "--json", "/no/such/folder/x.json"], "--json"),
        (["measure", "--gaussian", "5000,768", "--map", "rf"], "GB"),
        (["measure", "--gaussian", "5,8", "--map", "drf-²"], "'drf-²'"),
        (["measure", "--gaussian", "5,8", "--device", "abacus"], "'abacus'"),
        (["measure", "--gaussian", "100000000,1000000"], "GB"),
        (["measure", "--gausian", "5,8"], "--gaussian"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(oneword, arguments, says):
    run = oneword(*arguments)
    assert run.returncode == 2
    assert "Traceback" not in run.stderr
    assert says in run.stderr
    if run.stderr.startswith("oneword:"):
        assert run.stderr.count("\n") == 1


def test_doctor_names_what_is_there_and_what_is_missing(oneword):
    findings = json.loads(oneword("doctor", "--json", "-").stdout)
    assert findings["packages"]["torch"].startswith("2.")
    assert set(findings["extras"]) == {"embedded", "hub", "gguf", "cluster", "page", "app", "docs"}
    shown = oneword("doctor").stdout
    assert "core" in shown
    assert "ready" in shown


def test_version(oneword):
    assert oneword("--version").stdout.strip() == f"oneword {ow.__version__}"


def test_the_seconds_given_are_about_the_seconds_taken(oneword):
    started = time.monotonic()
    run = oneword("measure", "--gaussian", "40,32", "--map", "attention", "--effort", "1,1", "--quiet")
    assert run.returncode == 0
    assert run.stdout == ""
    assert time.monotonic() - started < 60  # start-up and a first compilation included; without the limit: minutes


@needs_minilm
def test_a_text_of_ones_own(oneword, tmp_path):
    run = oneword("measure", "Not a good film", "--map", "attention", "--effort", "quick", "-d", "32")
    assert run.returncode == 0, run.stderr
    assert "good" in run.stdout
    file = tmp_path / "review.txt"
    file.write_text("Not a good film", encoding="utf-8")
    again = oneword("measure", "--file", str(file), "--map", "attention", "--effort", "quick", "-d", "32")
    assert again.stdout == run.stdout
    for arguments in (["measure", "text", "--file", str(file)], ["measure"], ["measure", "--file", "nowhere.txt"]):
        assert oneword(*arguments).returncode == 2


SPEC = """
title = "Two maps"
[[sweep]]
maps = ["attention", "rf"]
n = [4, 8]
d = 8
trials = 2
"""


def test_a_sweep_of_ones_own_opens_in_pandas_and_shows_exponents(oneword, tmp_path):
    spec = tmp_path / "mine.toml"
    spec.write_text(SPEC)
    run = oneword("sweep", str(spec), "--out", str(tmp_path / "out"), "--workers", "0")
    assert run.returncode == 0, run.stderr
    assert "8 rows" in run.stdout
    assert "attention" in run.stdout
    assert len(pd.read_parquet(tmp_path / "out" / "results.parquet")) == 8
    spec.write_text(SPEC.replace("trials", "trails"))
    wrong = oneword("sweep", str(spec))
    assert wrong.returncode == 2
    assert "did you mean 'trials'" in wrong.stderr
    assert not (tmp_path / "mine").exists()


def test_a_title_with_brackets_is_shown_as_it_is(oneword, tmp_path, monkeypatch):
    spec = tmp_path / "mine.toml"
    spec.write_text(SPEC.replace("Two maps", "S of [/n] [red]"))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    run = oneword("sweep", str(spec), "--out", str(tmp_path / "out"), "--workers", "0")
    assert run.returncode == 0, run.stderr
    assert "S of [/n] [red]: 8 cells" in run.stderr


def test_json_goes_through_a_pipe_and_into_a_file(oneword, tmp_path):
    arguments = ["measure", "--gaussian", "3,4", "--map", "attention", "--effort", "quick", "--quiet", "--json"]
    assert oneword(*arguments, str(tmp_path / "a.json")).returncode == 0
    assert json.loads((tmp_path / "a.json").read_text())["words"][0]["value"] > 0
    assert oneword(*arguments, os.devnull).returncode == 0
    assert not os.path.isfile(os.devnull)


@needs_minilm
def test_reproduce_says_where_everything_is(oneword, tmp_path):
    run = oneword("reproduce", "fig1", "--out", str(tmp_path), "--workers", "0")
    assert run.returncode == 0, run.stderr
    assert "report.html" in run.stdout
    assert json.loads((tmp_path / "run.json").read_text())["command"].startswith("oneword reproduce fig1")


def test_a_claim_that_fails_is_exit_code_1(oneword, tmp_path, monkeypatch):
    claim = Claim("T1", "S decays", "exponent ≤ −0.45", 0.1, 0.0, 0.2, False)
    done = paper.Reproduction(pd.DataFrame(), [claim], [])
    monkeypatch.setattr(paper, "reproduce", lambda *a, **k: done)
    assert oneword("reproduce", "--out", str(tmp_path)).returncode == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [(["fig4"], "fig4-5"), (["--scale", "quik"], "did you mean 'quick'"), (["fig1"], "pip install 'oneword[page]'")],
)
def test_what_reproduce_refuses_it_refuses_before_it_makes_a_folder(oneword, tmp_path, monkeypatch, arguments, says):
    if arguments == ["fig1"]:
        monkeypatch.setitem(sys.modules, "vl_convert", None)
    run = oneword("reproduce", *arguments, "--out", str(tmp_path / "out"))
    assert run.returncode == 2
    assert says in run.stderr
    assert not (tmp_path / "out").exists()
