"""The output "rows": every word counts alike, however long its row is; and logits, centred where S is meant."""

import io
import json
import math
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch
from rich.console import Console

import oneword as ow
from oneword.bounds.ceiling import ceiling
from oneword.bounds.certificate import Request
from oneword.maps.outputs import directions
from oneword.maps.transformer import TransformerFeatures
from oneword.search.ascent import Ascent
from oneword.words.effort import Effort
from tests.text.tiny_models import write_model
from tests.text.tiny_sinks import SINK, write_sink_model

pytest.importorskip("transformers")
TEXT = "I love this good film much"
QUICK = Ascent(random=0, steps=3, keep=1, leading=2, polish=3)
EFFORT = Effort(model_search=QUICK, random_words=0, best_words=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models")
    write_sink_model(place / "sink")
    write_model(place / "bert", "bert", layers=2, spread=0.3)
    for kind in ("gpt2", "llama"):
        write_model(place / kind, kind, head=True, layers=2, spread=0.3)
    return place


def load(folder: Path, name: str, **options: Any) -> TransformerFeatures:
    return TransformerFeatures.load(str(folder / name), **options)


def changed(phi: TransformerFeatures, count: int, seed: int = 0) -> torch.Tensor:
    """The text with words of all sizes in the place of its own."""
    X = phi.encode(TEXT).X
    draws = torch.randn((count, *X.shape), generator=torch.Generator().manual_seed(seed)).to(X)
    return X + draws * torch.logspace(-3, 3, count).to(X)[:, None, None] * X.norm(dim=1).median() / 4


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "sink"])
def test_rows_are_the_hidden_states_each_of_norm_1(folder: Path, name: str) -> None:
    phi = load(folder, name, output="rows", dtype=torch.float64)
    X = phi.encode(TEXT).X
    for layer in range(phi.layers + 1):
        with torch.no_grad():
            made, hidden = phi.select(layer=layer)(X), phi.select(layer=layer, output="hidden")(X)
        torch.testing.assert_close(made.norm(dim=-1), torch.ones(len(X)).double())
        torch.testing.assert_close(made * hidden.norm(dim=-1, keepdim=True), hidden)


def test_the_change_is_the_mean_over_words_of_their_angles(folder: Path) -> None:
    phi = load(folder, "sink", output="rows", layer=1, dtype=torch.float64)
    X, hidden = phi.encode(TEXT).X, phi.select(output="hidden")
    other = X.clone()
    other[2] += X[3]
    with torch.no_grad():
        S2 = float((phi(other) - phi(X)).square().sum() / phi(X).square().sum())
        cosines = torch.nn.functional.cosine_similarity(hidden(other), hidden(X), dim=-1)
    assert pytest.approx(float((2 - 2 * cosines).mean())) == S2


def test_hidden_is_blind_beside_a_sink_and_rows_are_not(folder: Path) -> None:
    found = {
        output: ow.sensitivity(load(folder, "sink", output=output, layer=2), TEXT, search=QUICK, positions=[2, 4])
        for output in ("hidden", "rows")
    }
    assert found["hidden"].value < 0.01
    assert found["rows"].value > 0.2


def test_a_row_of_0_stays_0_and_can_be_differentiated() -> None:
    rows = torch.zeros(3, 4, dtype=torch.float64)
    rows[1] = torch.tensor([3.0, 4, 0, 0])
    rows.requires_grad_()
    made = directions(rows)
    assert made[1].tolist() == [0.6, 0.8, 0, 0]
    assert not made[0].any()
    for size in (1e-44, 1e-30, 1e-18, 1e-12, 1e10, 1e30):  # squares vanish or overflow in float32
        assert float(directions(size * torch.ones(1, 4)).norm()) <= 1 + 1e-6
    made.square().sum().backward()
    assert rows.grad is not None
    assert rows.grad.isfinite().all()


def test_half_precision_loses_no_row_to_its_length(folder: Path) -> None:
    phi = load(folder, "gpt2", output="rows", layer=1, dtype=torch.float16)
    with torch.no_grad():
        made = phi(phi.encode(TEXT).X)
    assert made.dtype == torch.float32
    torch.testing.assert_close(made.norm(dim=-1), torch.ones(len(made)), rtol=1e-6, atol=0)


# Its ceiling --------------------------------------------------------------------------------------------------------


def uppers(phi: TransformerFeatures) -> torch.Tensor:
    probe = phi.at(phi.encode(TEXT).X)
    request = Request(torch.zeros(1), ow.Certify.plain())
    made = ceiling(probe, torch.arange(probe.n)[:, None], ow.Ball(relative=1.0), request)
    assert made.upper is not None, made.how
    assert made.kind == "ceiling"
    return made.upper / probe.norm


@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "sink"])
def test_no_row_moves_by_more_than_2_at_any_layer(folder: Path, name: str) -> None:
    for layer in range(3):
        phi = load(folder, name, output="rows", layer=layer)
        upper, n = uppers(phi), phi.encode(TEXT).n
        moving = [1 if layer == 0 else n - i if phi.causal else n for i in range(n)]
        truth = torch.tensor([2 * math.sqrt(count / n) for count in moving]).double()
        torch.testing.assert_close(upper, truth, rtol=1e-3, atol=0)  # rounding of rows that stay
        with torch.no_grad():
            texts = changed(phi, 40)
            clean = phi(phi.encode(TEXT).X)
            S = (phi(texts) - clean).flatten(1).norm(dim=1) / clean.norm()
        if layer > 0:
            assert float(S.max()) <= float(upper[0])
            assert float(S.max()) > 0.5 or name == "bert"  # words that are anything at all turn most rows


def test_a_result_has_the_ceiling(folder: Path) -> None:
    s = ow.sensitivity(load(folder, "gpt2", output="rows", layer=1), TEXT, search=QUICK)
    assert s.upper is not None
    assert s.value <= s.upper <= 2 * (1 + 1e-3)
    assert s.upper_kind == "ceiling"


# Where it is measured -----------------------------------------------------------------------------------------------


def test_measure_shows_layers_by_their_rows_and_flags_sinks(folder: Path, tmp_path: Path) -> None:
    phi = load(folder, "sink", output="rows", layer=2)
    text = phi.encode(TEXT)
    table = ow.measure(TEXT, phi, effort=EFFORT, words=False)
    (result,) = table.results.values()
    for i, delta in result.deltas.items():
        other = text.X.clone()
        other[list(text.rows[i])] += delta
        for layer in (0, 1, 2, 3):
            alone = phi.select(layer=layer)
            with torch.no_grad():
                truth = float((alone(other) - alone(text.X)).norm() / alone(text.X).norm())
            (line,) = table.layers[(table.layers["position"] == i) & (table.layers["layer"] == layer)].to_dict(
                "records"
            )
            assert line["value"] == pytest.approx(truth, rel=1e-4, abs=1e-6)
            assert line["sink"] == (line["word"] == SINK and layer < 3)
    (note,) = [note for note in table.notes if "attention sinks" in note]
    assert f"“{SINK}” in layers 0–2 (up to " in note
    assert "the output rows" not in note
    console = Console(record=True, width=120, file=io.StringIO())
    console.print(table)
    assert f"{SINK} (sink)" in console.export_text()
    jsonschema.validate(json.loads(json.dumps(table.to_dict(), allow_nan=False)), ow.WordTable.schema())
    assert f"{SINK} (sink)" in table.save_html(tmp_path / "a.html").read_text()
    blind = ow.measure(TEXT, phi.select(output="hidden"), effort=EFFORT, words=False)
    assert any("the output rows counts every word alike" in note for note in blind.notes)


def test_the_command_takes_it_with_its_layer(folder: Path, oneword: Any) -> None:
    run = oneword(
        "measure", TEXT, "--model", str(folder / "sink"), "--output", "rows:1", "--effort", "quick", "--position", "2",
        "--among", "none",
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "rows, layer 1" in run.stdout
    assert "the rows of norm 1" in run.stdout


# Logits -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_logits_are_centred_where_S_is_meant_and_raw_where_they_are_asked_for(folder: Path, kind: str) -> None:
    phi = load(folder, kind, output="logits", dtype=torch.float64)
    text = phi.encode(TEXT)
    result = ow.sensitivity(phi, text, search=QUICK, baseline=0)
    table = ow.measure(TEXT, phi, effort=EFFORT, words=False)
    other = text.X.clone()
    other[list(result.rows)] += result.delta
    with torch.no_grad():
        raw, new = (phi.states(X, logits=True).logits for X in (text.X, other))
        assert raw is not None
        assert new is not None
        # As they are: the model's own, which have a mean.
        direct = phi.model(inputs_embeds=text.X[None]).logits[0]
        torch.testing.assert_close(raw, direct)
        torch.testing.assert_close(phi.rows(text.X[None])[0, 0], direct[-1])
        assert float(raw[-1].mean().abs()) > 1e-4
        # Where S is meant: less their mean, in every way to them.
        before, after = raw[-1] - raw[-1].mean(), new[-1] - new[-1].mean()
        torch.testing.assert_close(phi(text.X), before)
        torch.testing.assert_close(phi.vectors([TEXT])[0], before)
        torch.testing.assert_close(phi.padded(text.X, 3), before, rtol=1e-5, atol=1e-5)
    assert result.value == pytest.approx(float((after - before).norm() / before.norm()), rel=1e-6)
    (measured,) = table.results.values()
    assert measured.provenance["map"]["centred"] is True
    assert table.words["value"].max() == pytest.approx(measured.value)


def test_a_comparison_is_the_same_for_raw_and_centred_logits(folder: Path) -> None:
    """Its next tokens are those of a softmax, which does not see a constant."""
    phi = load(folder, "gpt2")
    found = ow.compare("I love this good", "I love this bad", by=phi)
    assert found.answers is not None
    with torch.no_grad():
        X = phi.encode("I love this good").X
        truth = phi.select(output="logits")(X).double().softmax(-1).max()
    first = found.answers.top[(found.answers.top["text"] == "a") & (found.answers.top["rank"] == 1)]
    assert first["probability"].item() == pytest.approx(float(truth), rel=1e-5)
