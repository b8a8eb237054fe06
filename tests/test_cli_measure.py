"""`oneword measure` on texts, as a person types it: inputs, outputs, and what is no text."""

import io
import json
import os
import subprocess
import sys

import pandas as pd
import pytest

from tests.text.tiny_bert import write_tiny

FAST = ["--map", "attention", "--seeds", "1"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return str(write_tiny(tmp_path_factory.mktemp("models") / "tiny"))


@pytest.fixture
def measure(oneword, model):
    return lambda *arguments: oneword("measure", "--encoder", model, *arguments)


def test_the_sentence_the_table_and_what_the_numbers_are(measure):
    run = measure("not a good film", "--map", "attention", "--map", "rf")
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("not a good film\n")
    for what in (
        "S ≥",
        "S ≤",
        "best",
        "becomes",
        "random",
        "3 seeds",
        "lower bound",
        "certified",
        "Exact over",
        "[CLS]",
    ):
        assert what in " ".join(run.stdout.split())


def test_colours_are_for_terminals_that_want_them(measure, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[" in measure("not a good film", *FAST).stdout
    monkeypatch.setenv("NO_COLOR", "1")
    assert "38;" not in measure("not a good film", *FAST).stdout


def test_control_characters_of_a_text_are_not_sent_to_the_terminal(measure):
    assert "\x1b" not in measure("not a \x1b[31m good film", *FAST).stdout


def test_tables_open_in_pandas_and_agree(measure, tmp_path):
    places = {name: str(tmp_path / f"words.{name}") for name in ("csv", "parquet", "json")}
    for name in ("csv", "parquet"):
        options = ["--table", places[name], "--json", places["json"]]
        run = measure("not a good film", *FAST, "--seeds", "2", "--top", "3", *options)
        assert run.returncode == 0, run.stderr
    csv, parquet = pd.read_csv(places["csv"]), pd.read_parquet(places["parquet"])
    content = json.loads((tmp_path / "words.json").read_text(encoding="utf-8"))
    for other in (parquet, pd.DataFrame(content["words"])):
        pd.testing.assert_frame_equal(csv, other.astype(csv.dtypes), check_dtype=False)
    assert {"text", "index", "word", "by", "seed", "value", "upper", "best_word", "replacement", "random_word"} <= set(
        csv
    )
    assert len(csv) == 8
    assert set(pd.DataFrame(content["replacements"])["rank"]) == {1, 2, 3}
    assert content["command"].startswith("oneword measure")


def test_a_page_names_its_command_and_escapes_its_text(measure, tmp_path):
    pytest.importorskip("jinja2")
    place = tmp_path / "a.html"
    run = measure("<script>alert('good')</script> film", *FAST, "--html", str(place))
    assert run.returncode == 0, run.stderr
    page = place.read_text()
    assert "<script" not in page
    assert "oneword measure" in page


def test_without_the_extra_a_page_is_refused_before_the_work(measure, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    run = measure("good film", "--html", str(tmp_path / "a.html"))
    assert run.returncode == 2
    assert "pip install 'oneword[page]'" in run.stderr


def test_texts_come_from_files_columns_and_pipes(measure, tmp_path, monkeypatch):
    lines = tmp_path / "two.txt"
    lines.write_text("a good film\n\nthe bad film\n", encoding="utf-8")
    for name, content in {"r.csv": "review,x\na good film,1\nthe bad film,2\n",
                          "r.jsonl": '{"review": "a good film"}\n{"review": "the bad film"}\n'}.items():  # fmt: skip
        (tmp_path / name).write_text(content, encoding="utf-8")
    pd.DataFrame({"review": ["a good film", "the bad film"]}).to_parquet(tmp_path / "r.parquet")
    first = measure("--file", str(lines), *FAST).stdout
    assert first.index("a good film") < first.index("the bad film")
    for name in ("r.csv", "r.jsonl", "r.parquet"):
        assert measure("--file", str(tmp_path / name), "--column", "review", *FAST).stdout == first
    for arguments in (["-"], []):
        monkeypatch.setattr(sys, "stdin", io.StringIO("a good film\nthe bad film\n"))
        assert measure(*arguments, *FAST).stdout == first
    whole = json.loads(measure("--file", str(lines), "--column", "*", *FAST, "--json", "-").stdout)
    assert whole["texts"] == [lines.read_text()]
    one = json.loads(measure("--file", str(lines), "--limit", "1", *FAST, "--json", "-").stdout)
    assert one["texts"] == ["a good film"]


def test_many_texts_are_a_summary(measure, tmp_path):
    lines = tmp_path / "many.txt"
    lines.write_text("\n".join(["a good film", "the bad film", "not bad", "good !"]), encoding="utf-8")
    shown = measure("--file", str(lines), *FAST).stdout
    assert "the bad film" in shown
    assert "words" in shown
    assert "0  a  " not in shown  # no table a text


def test_filters_of_the_vocabulary(measure, tmp_path):
    among = tmp_path / "words.txt"
    among.write_text("good\nbad\n", encoding="utf-8")
    some = json.loads(measure("not a film", *FAST, "--among", str(among), "--json", "-").stdout)
    assert {line["replacement"] for line in some["words"]} <= {"good", "bad"}
    letters = json.loads(measure("not a film", *FAST, "--among", "letters", "--top", "20", "--json", "-").stdout)
    assert all(line["replacement"].isalpha() for line in letters["replacements"])
    none = json.loads(measure("not a film", *FAST, "--among", "none", "--json", "-").stdout)
    assert all(line["best_word"] is None for line in none["words"])


def test_positions_count_as_the_library_does(measure):
    one = json.loads(measure("not a good film", *FAST, "--position", "3", "--json", "-").stdout)
    assert [line["word"] for line in one["words"]] == ["good"]
    assert measure("not a good film", *FAST, "--together", "2", "--effort", "quick", "--quiet").returncode == 0


def test_results_and_figures_are_written_where_asked(measure, tmp_path):
    assert measure("good film", "--map", "attention", "--seeds", "2", "--out", str(tmp_path / "new")).returncode == 0
    assert {"attention-seed0.json", "attention-seed1.pdf"} <= {path.name for path in (tmp_path / "new").iterdir()}


@pytest.mark.parametrize(
    "text", ["", "   \n ", "\u200b", "\N{GRINNING FACE}" * 3, "good " * 100_000, "\x00", "ﷺ", "good\ud800", "-x"]
)
def test_any_text_gives_a_result_or_one_line(measure, text):
    run = measure("--effort", "quick", *FAST, "--", text)
    assert run.returncode in (0, 2)
    assert "Traceback" not in run.stderr
    if run.returncode == 2:
        assert run.stderr.startswith("oneword: ")
        assert run.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["good", "--file", "x.txt"], "expected one text"),
        (["--file", "nowhere.txt"], "nowhere.txt"),
        (["--file", "nowhere.csv", "--column", "x"], "nowhere.csv"),
        (["good film", "--column", "x"], "--column"),
        (["good film", "--limit", "0"], "--limit"),
        (["good film", "--html", "page.txt"], ".html"),
        (["good film", "--table", "nowhere/a.csv"], "folder"),
        (["good film", "--table", "a.xlsx"], ".parquet"),
        (["good film", "--among", "nowhere.txt"], "nowhere.txt"),
        (["good film", "--effort", "hard"], "quick, usual, thorough"),
        (["good film", "--together", "9"], "words"),
        (["good film", "--position", "9"], "9"),
        (["good film", "--position", "x"], "all or tokens"),
        (["good film", "--top", "0"], "top"),
        (
            ["good film", "--map", "rf", "--map", "attention", "--map", "rf"],
            "expected each map once, got 'rf' 2 times",
        ),
        (["--gaussian", "5,4", "--map", "rf", "--map", "rf"], "expected each map once, got 'rf' 2 times"),
        (["good film", "--map", "attention-"], "got 'attention-'"),
    ],
)
def test_bad_input_is_one_line(measure, arguments, says):
    run = measure(*arguments)
    assert run.returncode == 2
    assert says in run.stderr
    assert run.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_hub_out_of_reach_is_one_line_in_a_process_of_its_own():
    """Nothing of the hub's client is loaded yet when the hub is first asked."""
    pytest.importorskip("huggingface_hub")
    nobody = os.environ | {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HUB_OFFLINE": "0"}
    command = [sys.executable, "-m", "oneword", "measure", "I love her", "--encoder", "no-such-owner/no-such-model"]
    run = subprocess.run(command, capture_output=True, text=True, env=nobody)
    assert run.returncode == 2
    assert run.stderr.startswith("oneword: HubError: expected a hub that can be reached")
    assert run.stderr.count("\n") == 1
