"""`oneword audit` as a person types it: tables, files for CI, exit codes, and bad input in one line."""

import inspect
import io
import json
import sys
from xml.etree import ElementTree

import jsonschema
import pandas as pd
import pytest

import oneword as ow
from oneword.auditing import encoders
from oneword.auditing.measurement import Settings
from oneword.cli.audit import audit as cli_audit
from tests.auditing.cases import DEAF, KEEN, Bag, reviews
from tests.text.tiny_bert import needs_minilm, needs_reviews, write_tiny

RULES = ("negation", "stop word", "typo", "case")
FAST = ["--lengths", "8,16,32", "--texts", "12", *(part for rule in RULES for part in ("--edit", rule))]


@pytest.fixture
def files(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(reviews()), encoding="utf-8")
    return path


@pytest.fixture
def audit(oneword, files, monkeypatch):
    """The command on encoders made by hand, by their names."""
    known = {"keen": KEEN, "deaf": DEAF}

    def load(name, *, random_init=None, **options):
        found = known[name] if random_init is None else Bag(f"{name} re-initialised (seed {random_init})")
        return encoders.AuditedEncoder.of(found)

    monkeypatch.setattr(encoders, "load_encoder", load)
    return lambda *arguments: oneword("audit", "--file", str(files), *FAST, *arguments)


def test_tables_advice_examples_and_what_the_numbers_are(audit, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    run = audit("--model", "keen")
    assert run.returncode == 0, run.stderr
    for what in ("negation", "AUC against noise", "∝ n^", "chunk ≤", "to keep a “not” above the noise in 95 % of texts",
                 "hardly noticed", "not seen by the tokenizer", "heard.negation", "bootstrap over texts"):  # fmt: skip
        assert what in run.stdout


def test_intervals_are_no_markup():
    """rich would take "[none, 83]" for the name of a style, and swallow it."""
    from rich.console import Console

    from oneword.report.auditing import AuditView

    chunks = pd.DataFrame([{"model": "m", "type": "name", "chunk": 73.0, "chunk_low": 0.0, "chunk_high": 83.0,
                            "shortest": 32, "longest": 256, "unit": "tokens", "advice": ""}])  # fmt: skip
    numbers = dict.fromkeys(
        [f"{name}{end}" for name in ("change", "auc", "decay") for end in ("", "_low", "_high")], 0.5
    )
    types = pd.DataFrame(
        [{"model": "m", "type": "name", "kind": "signal", "edits": 1, "unseen": 0, "cosine": 1.0} | numbers]
    )
    about = {"share": 0.95, "noise_quantile": 0.5, "texts": 1, "lengths": [32], "seed": 0}
    empty = pd.DataFrame()
    tables = {"types": types, "chunks": chunks, "worst": empty, "verdicts": empty}
    console = Console(width=200, file=io.StringIO())
    console.print(AuditView(tables, about, []))
    assert "73 [none, 83]" in console.file.getvalue()


def test_a_deaf_encoder_fails_with_exit_code_1_and_a_junit_failure(audit, tmp_path):
    place = tmp_path / "audit.xml"
    run = audit("--model", "deaf", "--junit", str(place))
    assert run.returncode == 1
    assert "deaf to negation" in run.stdout
    root = ElementTree.parse(place).getroot()
    failed = [case.get("name") for case in root.iter("testcase") if case.find("failure") is not None]
    assert "heard.negation" in failed
    assert audit("--model", "deaf", "--no-fail-deaf", "--quiet").returncode == 0


def test_thresholds_decide_the_exit_code(audit, tmp_path):
    limits = tmp_path / "limits.toml"
    limits.write_text("[auc]\nnegation = 0.8\n[ceiling]\ntypo = 0.9\n")
    assert audit("--model", "keen", "--threshold", str(limits), "--quiet").returncode == 0
    missed = audit("--model", "keen", "--threshold", "floor.negation=99")
    assert missed.returncode == 1
    assert "wanted at least 99" in missed.stdout


def test_models_are_compared_and_twins_are_not_judged(audit):
    found = json.loads(audit("--model", "keen", "--model", "deaf", "--reinit", "--json", "-").stdout)
    names = {line["model"] for line in found["types"]}
    assert names == {"keen", "deaf", "keen re-initialised (seed 0)", "deaf re-initialised (seed 0)"}
    assert {line["model"] for line in found["verdicts"]} == {"keen", "deaf"}
    assert found["passed"] is False
    jsonschema.validate(found, ow.Audit.schema())
    assert found["format"] == "oneword.audit/2"


def test_tables_open_in_pandas_and_agree(audit, tmp_path):
    places = {name: str(tmp_path / f"edits.{name}") for name in ("csv", "parquet", "json")}
    run = audit("--model", "keen", "--table", places["csv"], "--json", places["json"])
    assert run.returncode == 0, run.stderr
    assert audit("--model", "keen", "--table", places["parquet"], "--quiet").returncode == 0
    csv, parquet = pd.read_csv(places["csv"], keep_default_na=False), pd.read_parquet(places["parquet"])
    content = json.loads((tmp_path / "edits.json").read_text(encoding="utf-8"))
    assert len(csv) == len(parquet) == len(content["edits"]) > 100
    assert parquet["change"].tolist() == pytest.approx(csv["change"].tolist())
    assert {"model", "text", "length", "type", "kind", "was", "became", "change", "cosine"} <= set(csv)


def test_own_pairs_have_their_own_types(audit, oneword, tmp_path):
    place = tmp_path / "pairs.csv"
    place.write_text(
        "text,edited,kind,type\nit was good,it was not good,signal,denial\nit was good,it was fine,noise,\n"
    )
    run = oneword("audit", "--model", "keen", "--pairs", str(place), "--lengths", "4", "--json", "-")
    types = {line["type"]: line for line in json.loads(run.stdout)["types"]}
    assert types["denial"]["auc"] == 1.0
    assert types["own noise"]["edits"] == 1


def test_a_page_names_its_command_and_escapes_texts(audit, files, tmp_path):
    pytest.importorskip("jinja2")
    files.write_text("\n".join(f"<script>alert({k})</script> " + text for k, text in enumerate(reviews())))
    place = tmp_path / "a.html"
    assert audit("--model", "keen", "--html", str(place), "--quiet").returncode == 0
    page = place.read_text()
    assert "<script" not in page
    assert "oneword audit" in page


def test_texts_without_a_place_for_what_was_asked_fail_in_words(oneword, audit, files, tmp_path):
    files.write_text("the film was good and long\nthe story was bad and short\n")
    place = tmp_path / "a.html"
    common = ("audit", "--model", "keen", "--file", str(files), "--lengths", "4", "--edit", "number")
    run = oneword(*common, "--html", str(place))
    assert run.returncode == 1, run.stderr
    assert "nothing was measured of number" in run.stdout
    assert "nothing was measured of number" in place.read_text()
    assert oneword(*common, "--no-fail-deaf").returncode == 0


def test_the_command_and_the_library_have_the_same_defaults():
    command = {name: each.default for name, each in inspect.signature(cli_audit).parameters.items()}
    verb = {name: each.default for name, each in inspect.signature(ow.audit).parameters.items()}
    assert command["texts"] == verb["most_texts"]
    assert command["lengths"] == ",".join(map(str, verb["lengths"]))
    assert (command["share"], command["seed"]) == (verb["share"], verb["seed"])
    settings = Settings()
    assert all(getattr(settings, name) == verb[name] for name in Settings.model_fields)


def test_help_teaches_by_examples(oneword):
    shown = oneword("audit", "--help").stdout
    for what in ("Examples", "oneword audit --model minilm --reinit --html", "auc.negation=0.7", "Exit code 1"):
        assert what in shown


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--lengths", "16,x"], "--lengths"),
        (["--lengths", "2"], "lengths"),
        (["--texts", "0"], "texts"),
        (["--edit", "negatoin"], "did you mean 'negation'"),
        (["--threshold", "acu.negation=0.7"], "did you mean 'auc'"),
        (["--threshold", "auc.negatoin=0.7"], "did you mean 'negation'"),
        (["--threshold", "nowhere.toml"], "nowhere.toml"),
        (["--pairs", "nowhere.csv"], "nowhere.csv"),
        (["--file", "nowhere.txt"], "nowhere.txt"),
        (["--column", "x"], "expected"),
        (["--output", "hidden"], "pooled or cls"),
        (["--html", "page.txt"], ".html"),
        (["--junit", "nowhere/a.xml"], "folder"),
        (["--dtype", "int8"], "dtype float32 or float64"),
        (["--share", "2"], "share"),
        (["--set", "each=0"], "each"),
        (["--set", "eech=2"], "--set each="),
        (["--set", "each=two"], "--set each=two"),
        (["--table", "a.txt"], ".csv or .parquet"),
    ],
)
def test_bad_input_is_one_line(audit, arguments, says):
    run = audit("--model", "keen", *arguments)
    assert run.returncode == 2
    assert says in run.stderr
    assert run.stderr.count("\n") == 1


def test_an_empty_file_and_missing_columns_are_one_line(oneword, audit, tmp_path):
    for name, content, says in (
        ("empty.txt", "", "at least one word"),
        ("empty.csv", "", "names of the columns"),
        ("other.csv", "review\ngood film\n", "column 'text'"),
    ):
        (tmp_path / name).write_text(content)
        run = oneword("audit", "--model", "keen", "--file", str(tmp_path / name))
        assert run.returncode == 2
        assert says in run.stderr
        assert run.stderr.count("\n") == 1


def test_a_folder_without_a_model_is_one_line(oneword, tmp_path, files):
    folder = write_tiny(tmp_path / "tiny")
    (folder / "tokenizer.json").unlink()
    run = oneword("audit", "--model", str(folder), "--file", str(files))
    assert run.returncode == 2
    assert "tokenizer.json" in run.stderr
    assert run.stderr.count("\n") == 1


def test_without_the_extra_a_page_is_refused_before_the_work(audit, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    run = audit("--model", "keen", "--html", str(tmp_path / "a.html"))
    assert run.returncode == 2
    assert "pip install 'oneword[page]'" in run.stderr


@needs_minilm
@needs_reviews
@pytest.mark.slow
def test_minilm_on_reviews_with_its_twin(oneword, tmp_path):
    place = tmp_path / "audit.json"
    rules = ("--edit", "name", "--edit", "typo", "--edit", "case")
    oneword("audit", "--texts", "12", "--lengths", "32", *rules, "--reinit", "--json", str(place), "--quiet")
    found = json.loads(place.read_text())
    auc = {line["model"]: line["auc"] for line in found["types"] if line["type"] == "name"}
    assert len(auc) == 2
    assert all(0 <= value <= 1 for value in auc.values())
    assert any("case: the tokenizer of all-MiniLM-L6-v2 cannot see it" in note for note in found["notes"])
