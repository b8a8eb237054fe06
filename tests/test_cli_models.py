"""`oneword measure --model`, as a person types it: what is shown, what is written, and what is no model."""

import json

import pandas as pd
import pytest

from tests.text.tiny_models import write_model

pytest.importorskip("transformers")
TEXT = "I love this film."


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    write_model(folder, "bert", layers=2, spread=0.3)
    return str(folder)


def test_the_words_the_layers_and_the_twin(oneword, model):
    run = oneword("measure", TEXT, "--model", model, "--model", f"{model}@random", "--effort", "quick")
    assert run.returncode == 0, run.stderr
    for what in ("love", "S ≥", "First order", "random", "tiny re-initialised", "lower bound"):
        assert what in run.stdout


def test_everything_that_is_written_opens(oneword, model, tmp_path):
    places = {name: str(tmp_path / f"model.{name}") for name in ("html", "csv", "json")}
    options = ["--html", places["html"], "--table", places["csv"], "--json", places["json"]]
    run = oneword("measure", TEXT, "--model", model, "--effort", "quick", *options, "--out", str(tmp_path / "out"))
    assert run.returncode == 0, run.stderr
    csv, parquet = pd.read_csv(places["csv"]), pd.read_parquet(tmp_path / "out" / "words.parquet")
    content = json.loads((tmp_path / "model.json").read_text(encoding="utf-8"))
    assert csv["word"].tolist() == parquet["word"].tolist() == [line["word"] for line in content["words"]]
    assert len(content["layers"]) == 3 * len(csv)
    assert "love" in (tmp_path / "model.html").read_text(encoding="utf-8")
    for name in ("tiny.json", "tiny-layers.pdf", "tiny-heads.png", "layers.parquet"):
        assert (tmp_path / "out" / name).stat().st_size > 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--output", "pooled:9"], "expected layer from 0 to 2, the layers of tiny, got 9"),
        (["--output", "pool"], "expected output out of hidden, rows, pooled, cls, logits, attention, got 'pool'"),
        (["--output", "pooled:x"], "hidden:3"),
        (["--within", "sphere"], "expected within='ball' for models"),
        (["--position", "40"], "expected positions out of 0 … 6, got [40]"),
        (["--output", "module:encoder.layers.1"], "did you mean 'encoder.layer.1'?"),
    ],
)
def test_what_cannot_be_is_one_line(oneword, model, options, said):
    run = oneword("measure", TEXT, "--model", model, *options)
    assert run.returncode == 2
    assert said in run.stderr
    assert len(run.stderr.strip().splitlines()) == 1


def test_maps_and_models_are_one_table_one_page_and_one_json(oneword, model, tmp_path):
    page, options = tmp_path / "p.html", ["--encoder", model, "--map", "attention", "--map", "rf", "--seeds", "1"]
    run = oneword("measure", TEXT, *options, "--model", model, "--effort", "quick", "--html", str(page), "--json", "-")
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["format"] == "oneword.words/3"
    words = pd.DataFrame(found["words"])
    assert list(dict.fromkeys(words["by"])) == ["attention", "rf", "tiny"]
    assert (words["value"] <= words["upper"]).all()
    assert set(words.loc[words["by"] == "tiny", "upper_kind"]) == {"ceiling"}
    assert words.groupby("by")["word"].apply(list).map(tuple).nunique() == 1
    for title in ("Softmax attention", "Fully connected layer", "tiny: pooled, layer 2"):
        assert title in page.read_text(encoding="utf-8")


def test_a_text_longer_than_the_window_and_a_folder_that_is_none(oneword, model, tmp_path):
    long = oneword("measure", "good " * 100, "--model", model)
    assert (long.returncode, "expected at most 64 tokens" in long.stderr) == (2, True)
    empty = oneword("measure", TEXT, "--model", str(tmp_path))
    assert (empty.returncode, "got no config.json" in empty.stderr) == (2, True)
