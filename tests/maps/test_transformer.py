"""Trained models as maps: the same numbers as the model called directly, for every architecture, and the real one."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import oneword as ow
from oneword.errors import DTypeError, FileFormatError, NonFiniteError, RangeError, ShapeError, UnknownNameError
from oneword.maps.transformer import TransformerFeatures
from oneword.maps.transformer_probe import TransformerProbe
from oneword.text.layer0 import on_sphere
from tests.text.tiny_models import KINDS, write_model

transformers = pytest.importorskip("transformers")
TEXT = "I love this film, and it wasn't unhappily made."
ARCHITECTURES = ("bert", "roberta", "distilbert", "gpt2", "llama")
TOLERANCE = 1e-6  # of hidden states of order 1, in float32


@pytest.fixture(scope="module", params=ARCHITECTURES)
def tiny(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    write_model(folder, request.param, layers=3, spread=0.3)
    return request.param, folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bert")
    write_model(folder, "bert", layers=3, spread=0.3)
    return folder


def directly(folder: Path, text: str, **wanted: bool) -> Any:
    """The model called on token ids, as its makers mean it."""
    model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager").eval()
    ids = torch.tensor([TransformerFeatures.load(str(folder)).encoder.tokenizer.encode(text).ids])
    with torch.no_grad():
        return model(input_ids=ids, attention_mask=torch.ones_like(ids), **wanted)


def test_hidden_states_are_those_of_the_model_called_directly(tiny: tuple[str, Path]) -> None:
    _, folder = tiny
    truth = directly(folder, TEXT, output_hidden_states=True, output_attentions=True)
    phi = TransformerFeatures.load(str(folder))
    X = phi.encode(TEXT).X
    with torch.no_grad():
        states = phi.states(X, attention=True)
        assert len(states.hidden) == phi.layers + 1 == 4
        for layer, expected in enumerate(truth.hidden_states):
            torch.testing.assert_close(states.hidden[layer], expected[0], rtol=0, atol=TOLERANCE)
            alone = phi.select(layer=layer)(X)  # stops there
            torch.testing.assert_close(alone, expected[0], rtol=0, atol=TOLERANCE)
        assert states.attention is not None
        for layer, expected in enumerate(truth.attentions, 1):
            torch.testing.assert_close(states.attention[layer - 1], expected[0], rtol=0, atol=TOLERANCE)
            one_head = phi.select(output="attention", layer=layer, head=1)(X)
            torch.testing.assert_close(one_head, expected[0, 1], rtol=0, atol=TOLERANCE)


def test_layer_0_is_the_encoder_of_the_text_package(tiny: tuple[str, Path]) -> None:
    _, folder = tiny
    phi = TransformerFeatures.load(str(folder), layer=0, dtype=torch.float64)
    text = ow.Encoder.load(folder).encode(TEXT)
    with torch.no_grad():
        layer0 = phi(phi.encode(TEXT).X)
    torch.testing.assert_close(on_sphere(layer0), text.X, rtol=0, atol=1e-6)
    assert phi.read(text).words == text.words


def test_a_batch_is_its_texts_one_by_one_and_padding_changes_nothing(tiny: tuple[str, Path]) -> None:
    kind, folder = tiny
    # Llama takes its softmax in float32, whatever the model is in: another length may sum in another order.
    precision = 1e-6 if kind == "llama" else 1e-12
    phi = TransformerFeatures.load(str(folder), dtype=torch.float64)
    X = phi.encode(TEXT).X
    both = torch.stack([X, X.flip(0)])
    for output in ("hidden", "pooled", "cls", "attention"):
        chosen = phi.select(output=output)
        with torch.no_grad():
            torch.testing.assert_close(chosen(both)[1], chosen(X.flip(0)), rtol=0, atol=precision)
            torch.testing.assert_close(chosen.padded(X, 5), chosen(X), rtol=0, atol=precision)


def test_vectors_are_the_features_of_each_text(tiny: tuple[str, Path]) -> None:
    kind, folder = tiny
    phi = TransformerFeatures.load(str(folder), output="pooled", dtype=torch.float64)
    texts = ["not good", TEXT, "not bad", "A café (1999)."]
    with torch.no_grad():
        truth = torch.stack([phi(phi.encode(text).X) for text in texts])
    torch.testing.assert_close(phi.vectors(texts), truth, rtol=0, atol=1e-12)
    assert phi.pooling == ("last" if kind in ("gpt2", "llama") else "mean")


def test_only_decoders_are_causal(tiny: tuple[str, Path]) -> None:
    kind, folder = tiny
    phi = TransformerFeatures.load(str(folder))
    assert phi.causal == (kind in ("gpt2", "llama"))
    X = phi.encode(TEXT).X
    changed = X.clone()
    changed[-1] += 1
    with torch.no_grad():
        same = torch.equal(phi(X)[0], phi(changed)[0])
    assert same == phi.causal  # the first word sees the last one only in an encoder


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_logits_of_a_decoder_are_those_of_the_next_token_less_their_mean(kind: str, tmp_path: Path) -> None:
    write_model(tmp_path, kind, head=True, layers=2, spread=0.3)
    phi = TransformerFeatures.load(str(tmp_path), output="logits")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    ids = torch.tensor([phi.encoder.tokenizer.encode(TEXT).ids])
    with torch.no_grad():
        truth = model(input_ids=ids).logits[0]
        X = phi.encode(TEXT).X
        torch.testing.assert_close(phi(X), truth[-1] - truth[-1].mean(), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(phi(X).softmax(-1), truth[-1].softmax(-1), rtol=1e-5, atol=1e-7)
        logits = phi.states(X, logits=True).logits
    assert logits is not None
    torch.testing.assert_close(logits, truth, rtol=1e-5, atol=1e-5)


def test_the_real_encoder_is_itself() -> None:
    phi = TransformerFeatures.load("minilm", output="pooled")
    assert (phi.name, phi.layers, phi.heads, phi.causal, phi.pooling) == ("all-MiniLM-L6-v2", 6, 12, False, "mean")
    assert phi.encoder.folder is not None
    truth = directly(phi.encoder.folder, TEXT, output_hidden_states=True)
    text = phi.encode(TEXT)
    with torch.no_grad():
        hidden = phi.states(text.X, attention=True).hidden
        for own, expected in zip(hidden, truth.hidden_states, strict=True):
            torch.testing.assert_close(own, expected[0], rtol=0, atol=TOLERANCE)
    layer0 = ow.encode(TEXT).X
    torch.testing.assert_close(on_sphere(hidden[0].double()), layer0, rtol=0, atol=1e-5)  # float32 rows of norm 20


def test_a_loaded_model_and_a_sentence_transformer_give_the_same(bert: Path) -> None:
    phi = TransformerFeatures.load(str(bert), output="pooled")
    X = phi.encode(TEXT).X
    model = transformers.AutoModel.from_pretrained(bert)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(bert / "tokenizer.json"))
    own = TransformerFeatures.of(model, tokenizer, output="pooled")
    with torch.no_grad():
        assert torch.equal(own(own.encode(TEXT).X), phi(X))
    assert not model.training


def test_a_sentence_transformer_pools_as_it_says() -> None:
    sentence_transformers = pytest.importorskip("sentence_transformers")
    minilm = TransformerFeatures.load("minilm", output="pooled")
    loaded = sentence_transformers.SentenceTransformer(str(minilm.encoder.folder), device="cpu")
    own = TransformerFeatures.of(loaded, output="pooled")
    truth = torch.from_numpy(loaded.encode([TEXT], normalize_embeddings=True))
    with torch.no_grad():
        made = own(own.encode(TEXT).X)
    torch.testing.assert_close((made / made.norm()).cpu(), truth[0], rtol=0, atol=1e-5)


def test_weights_drawn_anew_are_the_same_for_the_same_seed_and_disturb_nobody(bert: Path) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    one, again, other = (TransformerFeatures.load(str(bert), random_init=seed) for seed in (0, 0, 1))
    assert torch.equal(torch.rand(3), expected)
    X = one.encode(TEXT).X
    with torch.no_grad():
        assert torch.equal(one(X), again(X))
        assert not torch.equal(one(X), other(other.encode(TEXT).X))
    assert one.name.endswith("re-initialised (seed 0)")


def test_a_part_of_the_model_by_its_name(bert: Path) -> None:
    phi = TransformerFeatures.load(str(bert), module="encoder.layer.1")
    X = phi.encode(TEXT).X
    with torch.no_grad():
        torch.testing.assert_close(phi(X), phi.select(layer=2)(X))
    with pytest.raises(UnknownNameError, match=r"did you mean 'encoder\.layer\.1\.attention'"):
        phi.select(module="encoder.layer.1.atention")


# Measuring ----------------------------------------------------------------------------------------------------------


def test_the_probe_is_the_model_run_anew(bert: Path) -> None:
    phi = TransformerFeatures.load(str(bert), dtype=torch.float64)
    text = phi.encode(TEXT)
    probe = phi.at(text.X)
    y = torch.randn((2, text.d), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    i = torch.tensor([1, 4])
    with torch.no_grad():
        for k in range(2):
            changed = text.X.clone()
            changed[i[k]] = y[k]
            truth = (phi(changed) - phi(text.X)).square().sum()
            torch.testing.assert_close(probe.change2(y, i)[k], truth, rtol=1e-9, atol=0)


def test_first_order_is_the_slope_of_a_small_change(bert: Path) -> None:
    """Both ways to it: the whole Jacobian (pooled), and power iteration (all hidden states)."""
    for output in ("pooled", "hidden"):
        phi = TransformerFeatures.load(str(bert), output=output, dtype=torch.float64)
        text = phi.encode(TEXT)
        probe = phi.at(text.X)
        assert isinstance(probe, TransformerProbe)
        rows = torch.tensor([[1], [4], [6]])
        gains = probe.gains(rows)
        for row, norm, direction in zip(rows, gains.norm, gains.direction, strict=True):
            assert float(direction.norm()) == pytest.approx(1)
            slope = math.sqrt(float(probe.change2(text.X[row] + 1e-5 * direction, row))) / 1e-5
            assert slope == pytest.approx(float(norm), rel=1e-2)
            others = torch.randn((64, text.d), dtype=torch.float64, generator=torch.Generator().manual_seed(1))
            others = others / others.norm(dim=1, keepdim=True)
            slopes = probe.change2(text.X[row] + 1e-5 * others, row.expand(64)).sqrt() / 1e-5
            assert float(slopes.max()) <= float(norm) * 1.01


def test_both_ways_to_the_first_order_agree(bert: Path) -> None:
    from oneword.maps.checkpoints import eager
    from oneword.maps.jacobian import jacobian, of_blocks, power_iteration

    phi = TransformerFeatures.load(str(bert), output="pooled", dtype=torch.float64)
    X, rows = phi.encode(TEXT).X, torch.tensor([[1, 2], [4, 5]])
    with eager(phi.model):
        powered = power_iteration(phi, X, rows)
    dense = of_blocks(jacobian(phi, X, at_once=3), rows)
    torch.testing.assert_close(powered.norm, dense.norm, rtol=1e-2, atol=0)


def test_the_sup_is_attained_within_the_words_own_norm(bert: Path) -> None:
    phi = TransformerFeatures.load(str(bert), output="pooled", dtype=torch.float64)
    search = ow.Ascent(random=0, steps=4, keep=1, leading=2, polish=8)
    s = ow.sensitivity(phi, ow.Encoder.load(bert).encode(TEXT), search=search)  # a text of another layer is read anew
    text = phi.encode(TEXT)
    changed = text.X.clone()
    changed[list(s.rows)] += s.delta
    with torch.no_grad():
        attained = (phi(changed) - phi(text.X)).norm() / phi(text.X).norm()
    assert s.value == pytest.approx(float(attained), rel=1e-9)
    row_norms = text.X[list(s.rows)].norm(dim=-1)
    assert bool((s.delta.reshape(len(s.rows), -1).norm(dim=-1) <= row_norms * (1 + 1e-9)).all())
    assert s.upper is not None
    assert s.value <= s.upper
    assert s.upper_kind == "ceiling"
    assert set(s.deltas) == set(s.per_word["position"])
    assert s.provenance["within"]["shown"] == "‖Δ‖ ≤ ‖x‖"


def test_a_whole_vocabulary_is_tried_one_word_at_a_time(bert: Path) -> None:
    phi = TransformerFeatures.load(str(bert), output="pooled", dtype=torch.float64)
    text = phi.encode("not bad")
    s = ow.sensitivity(phi, text, within=ow.Vocabulary.of(ow.Encoder.load(bert)), positions=[1])
    ids = phi.encoder.tokenizer.encode("not bad").ids
    best = 0.0
    with torch.no_grad():
        clean = phi(text.X)
        for v in phi.encoder.whole_words.tolist():
            changed = phi.encoder.embed(torch.tensor([ids[0], v, *ids[2:]]))
            best = max(best, float((phi(changed) - clean).norm() / clean.norm()))
    assert s.kind == "exact"
    assert s.value == pytest.approx(best, rel=1e-9)
    assert s.of(1, "not") == pytest.approx(0, abs=1e-12)


def test_a_part_that_pools_keeps_all_of_its_entries_and_a_head_can_be_asked(tmp_path: Path) -> None:
    write_model(tmp_path, "bert", layers=2, spread=0.3)
    phi = TransformerFeatures.load(str(tmp_path), module="pooler")
    for text in ("not bad", TEXT):
        assert phi(phi.encode(text).X).shape == (16,)
    write_model(tmp_path / "gpt2", "gpt2", head=True, layers=2, spread=0.3)
    spoken = TransformerFeatures.load(str(tmp_path / "gpt2"), module="lm_head")
    X = spoken.encode(TEXT).X
    with torch.no_grad():
        raw = spoken(X)[-1]
        torch.testing.assert_close(raw - raw.mean(), spoken.select(output="logits")(X))


def test_weights_that_others_share_cannot_be_changed(bert: Path) -> None:
    phi = TransformerFeatures.load(str(bert))
    with pytest.raises(DTypeError, match="load it with dtype="):
        phi.double()
    with pytest.raises(RangeError, match="eval mode"):
        phi.train()
    assert TransformerFeatures.load(str(bert)).dtype == torch.float32


def test_features_that_overflow_are_an_error_and_no_number(bert: Path) -> None:
    phi = TransformerFeatures.load(str(bert), output="pooled")
    with pytest.raises(NonFiniteError, match="expected finite features"):
        ow.sensitivity(phi, phi.encode(TEXT), within=ow.Ball(relative=1e30), search="quick")


def test_a_head_that_was_not_saved_makes_no_logits(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    write_model(tmp_path, "bert", head=True, layers=2)
    stored = load_file(tmp_path / "model.safetensors")
    weights: dict[str, Tensor] = {name: part.clone() for name, part in stored.items()}  # the file is written over
    kept = {name: value for name, value in weights.items() if not name.startswith("cls.")}
    save_file(kept, tmp_path / "model.safetensors", {"format": "pt"})
    phi = TransformerFeatures.load(str(tmp_path))
    with pytest.raises(FileFormatError, match="expected the weights of the head"):
        phi.select(output="logits")


def test_pooling_that_is_not_one_of_ours_is_refused_where_it_is_asked_for(bert: Path, tmp_path: Path) -> None:
    folder = tmp_path / "pooled"
    (folder / "1_Pooling").mkdir(parents=True)
    for file in bert.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())

    def said(**about: object) -> TransformerFeatures:
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(about))
        return TransformerFeatures.load(str(folder))

    assert said(pooling_mode_cls_token=True, pooling_mode_mean_tokens=False).select(output="pooled").pooling == "cls"
    for about in ({"pooling_mode": "weightedmean"}, {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}):
        phi = said(**about)  # hidden states are there all the same
        with pytest.raises(FileFormatError, match="expected a pooling out of mean, cls, last, max"):
            phi.select(output="pooled")


# Bad input ----------------------------------------------------------------------------------------------------------


def test_what_a_model_does_not_have_is_a_named_error(bert: Path) -> None:
    phi = TransformerFeatures.load(str(bert))
    X = phi.encode(TEXT).X
    with pytest.raises(RangeError, match=r"expected layer from 0 to 3, the layers of .*, got 9"):
        phi.select(layer=9)
    with pytest.raises(RangeError, match="expected layer from 1 to 3"):
        phi.select(output="attention", layer=0)
    with pytest.raises(RangeError, match="expected head from 0 to 1"):
        phi.select(output="attention", head=2)
    with pytest.raises(UnknownNameError, match="expected output out of hidden, rows, pooled"):
        phi.select(output="pool")  # type: ignore[arg-type]
    with pytest.raises(RangeError, match="expected a model with a head"):
        phi.select(output="logits")
    with pytest.raises(RangeError, match="expected at most 64 tokens, the window of"):
        phi(X[:1].expand(65, -1))
    with pytest.raises(RangeError, match="expected at most 64 tokens"):
        phi.encode("good " * 80)
    with pytest.raises(ShapeError):
        phi(X[:, :4])
    with pytest.raises(DTypeError):
        phi(X.double())


def test_a_folder_that_is_not_whole_is_a_named_error(bert: Path, tmp_path: Path) -> None:
    def copied(name: str, leave_out: str) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        for file in bert.iterdir():
            if file.name != leave_out:
                (folder / file.name).write_bytes(file.read_bytes())
        return folder

    for missing in ("config.json", "tokenizer.json", "model.safetensors"):
        with pytest.raises(FileFormatError, match=r"expected .* got no"):
            TransformerFeatures.load(str(copied(missing.replace(".", "-"), missing)))
    pickled = copied("pickled", "model.safetensors")
    (pickled / "pytorch_model.bin").write_bytes(b"")
    with pytest.raises(FileFormatError, match="a pickle, which is never read: convert it"):
        TransformerFeatures.load(str(pickled))
    unknown = copied("unknown", "")
    about = json.loads((unknown / "config.json").read_text())
    about |= {"model_type": "mine", "architectures": ["Mine"], "auto_map": {"AutoModel": "mine.Mine"}}
    (unknown / "config.json").write_text(json.dumps(about))
    (unknown / "mine.py").write_text("raise SystemExit('remote code was run')")
    with pytest.raises(FileFormatError, match="needs code of its own, and that is never run"):
        TransformerFeatures.load(str(unknown))
    partial = copied("partial", "model.safetensors")
    from safetensors.torch import load_file, save_file

    stored = load_file(bert / "model.safetensors")
    weights: dict[str, Tensor] = {name: part.clone() for name, part in stored.items()}  # the file is written over
    save_file({k: v for k, v in weights.items() if "layer.2" not in k}, partial / "model.safetensors", {"format": "pt"})
    with pytest.raises(FileFormatError, match=r"expected all weights .* got no encoder\.layer\.2"):
        TransformerFeatures.load(str(partial))


def test_a_tokenizer_without_offsets_is_refused(bert: Path) -> None:
    model = transformers.AutoModel.from_pretrained(bert)
    with pytest.raises(FileFormatError, match="expected a fast tokenizer, which knows where its tokens stand"):
        TransformerFeatures.of(model, object())
    with pytest.raises(FileFormatError, match="expected a model of transformers or a SentenceTransformer, got int"):
        TransformerFeatures.of(3)


def test_every_family_of_the_text_package_can_be_loaded(tmp_path: Path) -> None:
    for kind in KINDS:
        folder = tmp_path / kind.replace(",", "").replace(" ", "-")
        write_model(folder, kind, layers=2, spread=0.3)
        phi = TransformerFeatures.load(str(folder), output="pooled")
        with torch.no_grad():
            assert torch.isfinite(phi(phi.encode(TEXT).X)).all()
        assert phi.encoder.longest == ow.Encoder.load(folder).longest, kind
