"""`oneword compare` as a person types it: texts, outputs, and what cannot be compared."""

import json
import sys

import jsonschema
import pandas as pd
import pytest
from safetensors.numpy import load_file

import oneword as ow
from tests.text.tiny_bert import needs_minilm
from tests.text.tiny_models import write_model

A, B = "I love her much", "I love her story"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for kind, head in (("bert", False), ("gpt2", True)):
        write_model(folder / kind, kind, head=head)
    return {kind: str(folder / kind) for kind in ("bert", "gpt2")}


def test_words_layers_and_maps_in_the_terminal(oneword, models):
    run = oneword("compare", A, B, "--model", models["bert"])
    assert run.returncode == 0, run.stderr
    above, below = run.stdout.splitlines()[:2]
    assert (above.split(), below.split()) == (A.split(), B.split())
    assert above.index("much") == below.index("story")
    for what in ("much → story", "whole", "pooled", "moved most", "layer 1, mean over heads", "lower bound"):
        assert what in run.stdout
    assert "next token" not in run.stdout


def test_a_causal_model_says_what_comes_next(oneword, models):
    run = oneword("compare", A, B, "--model", models["gpt2"], "--top", "3")
    assert run.returncode == 0, run.stderr
    for what in ("next token", "KL(a‖b)", "JS"):
        assert what in run.stdout


def test_everything_is_written_and_agrees(oneword, models, tmp_path):
    out, page = tmp_path / "out", tmp_path / "a.html"
    run = oneword(
        "compare", A, B, "--model", models["gpt2"], "--html", str(page), "--out", str(out),
        "--json", "-", "--head", "1",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    content = json.loads(run.stdout)
    assert content["texts"] == [A, B]
    jsonschema.validate(content, ow.Comparison.schema())
    assert content["command"].startswith("oneword compare")
    for name in ("pairs", "moved", "layers", "heads", "attention", "answers", "divergence"):
        stored = pd.read_parquet(out / f"{name}.parquet")
        told = pd.DataFrame(content[name]).astype(stored.dtypes.to_dict())
        pd.testing.assert_frame_equal(stored, told)
    weights = load_file(out / "attention.safetensors")
    assert weights["a"].shape[:2] == (1, 2)
    for name in ("attention", "layers", "heads", "answers"):
        for kind in ("pdf", "svg", "png"):
            assert (out / f"{name}.{kind}").stat().st_size > 1000
    assert "oneword compare" in page.read_text()


@needs_minilm
def test_a_map_instead_of_a_model(oneword):
    run = oneword("compare", A, B, "--map", "attention")
    assert run.returncode == 0, run.stderr
    assert "softmax attention, random weights" in run.stdout
    assert oneword("compare", A, B, "--map", "atention").returncode == 2


@needs_minilm
def test_the_embedded_model_is_the_default(oneword):
    run = oneword("compare", "I love her much", "I love her smile", "--layer", "6", "--head", "11")
    assert run.returncode == 0, run.stderr
    assert "all-MiniLM-L6-v2, 6 layers of 12 heads" in run.stdout
    assert "layer 6, head 11" in run.stdout


def test_control_characters_of_a_text_are_not_sent_to_the_terminal(oneword, models):
    assert "\x1b" not in oneword("compare", "I \x1b[31m love", B, "--model", models["gpt2"]).stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([A], "RangeError: expected two texts"),
        ([], "RangeError: expected two texts"),
        ([A, " "], "TextError: expected a text with at least one word"),
        ([A, "film " * 99], "RangeError: expected at most 64 tokens"),
        ([A, B, "--layer", "9"], "RangeError: expected layer 1 … 1, got 9"),
        ([A, B, "--head", "2"], "RangeError: expected head 0 … 1, got 2"),
        ([A, B, "--top", "0"], "RangeError: expected --top of at least 1"),
        ([A, B, "--dtype", "int8"], "DTypeError: expected dtype float32 or float64"),
        ([A, B, "--html", "page.txt"], "FileFormatError: expected --html with a name that ends in .html"),
    ],
)
def test_bad_input_is_one_line(oneword, models, arguments, said):
    run = oneword("compare", *arguments, "--model", models["bert"])
    assert run.returncode == 2
    assert run.stdout == ""
    assert said in run.stderr
    assert run.stderr.count("\n") == 1


def test_without_the_extra_a_page_is_refused_before_the_work(oneword, models, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    run = oneword("compare", A, B, "--model", models["bert"], "--html", str(tmp_path / "a.html"))
    assert run.returncode == 2
    assert "pip install 'oneword[page]'" in run.stderr
