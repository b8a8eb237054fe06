"""Ceilings of trained models as a user meets them: never beaten, near what can be found, and a reason where none is."""

import json
import math
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import oneword as ow
from benchmarks.ceilings import attack
from oneword.bounds.ceiling import ceiling
from oneword.bounds.certificate import Certificate, Request, certificate
from oneword.bounds.ranges import Ellipsoid
from oneword.maps.last_steps import STEADY, Norm, UnknownSteps, last_steps, recognised, unsteadiness
from oneword.maps.transformer import TransformerFeatures
from oneword.maps.transformer_probe import TransformerProbe
from tests.bounds.test_ranges import primal
from tests.text.tiny_models import byte_level, write_model

transformers = pytest.importorskip("transformers")
TEXT = "not good, not bad, not for everyone"
POST = ("bert", "roberta", "mpnet", "electra", "distilbert")
PRE = ("gpt2", "llama", "gemma")
NOTHING_FOUND = Request(torch.zeros(1), ow.Certify.plain())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    """A tiny random model by family and head, with random gains and shifts in its norms."""

    @cache
    def load(kind: str, head: bool | str = True, dtype: torch.dtype = torch.float32) -> TransformerFeatures:
        path = folder / f"{kind}-{head}"
        if not path.exists():
            write_model(path, kind, head=head, layers=2, spread=0.3)
        return TransformerFeatures.load(str(path), dtype=dtype)

    return load


def ceilings(phi: TransformerFeatures, text: str = TEXT) -> Certificate:
    """Of every row of a text."""
    probe = phi.at(phi.encode(text).X)
    assert isinstance(probe, TransformerProbe)
    return ceiling(probe, torch.arange(probe.n)[:, None], ow.Ball(relative=1.0), NOTHING_FOUND)


def upper(phi: TransformerFeatures, text: str = TEXT) -> Tensor:
    made = ceilings(phi, text)
    assert made.upper is not None, made.how
    return made.upper


# The number itself --------------------------------------------------------------------------------------------------


def test_the_ceiling_of_minilm_is_that_of_its_last_norm() -> None:
    phi = TransformerFeatures.load("minilm", output="pooled")
    text = phi.encode("I love her smile.")
    probe = phi.at(text.X)
    steps = last_steps(phi, text.X)
    own = phi.checkpoint.base.encoder.layer[-1].output.LayerNorm  # type: ignore[union-attr, index]
    assert steps.norm is not None
    assert torch.equal(steps.norm.gain.float(), own.weight)
    made = ceilings(phi, "I love her smile.")
    assert made.upper is not None
    assert float(made.upper[0]) / probe.norm == pytest.approx(3.2526, abs=1e-4)
    E = Ellipsoid(steps.norm.gain, steps.norm.shift, centred=True)
    point = probe.clean.double()
    exact = float(E.farthest(point[None])[0])
    assert exact == pytest.approx(primal(E, point, starts=4), rel=1e-6)
    assert exact < float(made.upper[0]) < exact * (1 + 1e-4)  # what float32 adds


@pytest.mark.parametrize("stride", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_no_ceiling_is_beaten(stride: int) -> None:
    """Families, outputs, layers, poolings and precisions, some or all; `make evidence` adds all-MiniLM-L6-v2."""
    result = attack(1, families=(*POST, *PRE), steps=4, stride=stride)
    assert result["attacks"] > 50_000 / stride
    assert result["beaten"] == 0, result["cases"]
    assert max(result["best"].values()) > 0.8  # an attack that comes near: the bounds are not merely large


# Which steps are known ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", POST)
def test_every_layer_of_a_model_that_ends_its_blocks_in_norms_has_a_ceiling(kind: str, model: Any) -> None:
    for layer in (0, 1, 2):
        for output in ("hidden", "pooled", "cls"):
            assert bool((upper(model(kind).select(layer=layer, output=output)) > 0).all())


@pytest.mark.parametrize("kind", PRE)
def test_a_decoder_has_one_at_its_last_layer_and_its_logits_and_says_why_not_below(kind: str, model: Any) -> None:
    phi = model(kind)
    assert "does not end in a norm" in ceilings(phi.select(layer=1)).how
    assert ceilings(phi.select(layer=1)).upper is None
    assert ceilings(phi.select(layer=2)).upper is not None
    assert ceilings(phi.select(output="logits")).upper is not None


@pytest.mark.parametrize(
    ("kind", "head", "why"),
    [
        ("bert", True, ""),
        ("roberta", True, ""),
        ("mpnet", True, ""),
        ("distilbert", True, ""),
        ("bert", "ForSequenceClassification", ""),
        ("roberta", "ForSequenceClassification", ""),
        ("distilbert", "ForSequenceClassification", "neither a norm nor a tanh"),
        ("electra", "ForSequenceClassification", "neither a norm nor a tanh"),
    ],
)
def test_heads_that_end_in_a_norm_or_a_tanh_have_a_ceiling(kind: str, head: bool | str, why: str, model: Any) -> None:
    made = ceilings(model(kind, head).select(output="logits"))
    assert (made.upper is None) == bool(why)
    assert why in made.how


def test_the_gain_is_what_multiplies_not_what_is_called_weight(model: Any) -> None:
    phi = model("gemma").select(output="hidden")
    X = phi.encode(TEXT).X
    steps = last_steps(phi, X)
    assert steps.norm is not None
    weight = phi.checkpoint.base.norm.weight
    torch.testing.assert_close(steps.norm.gain, 1 + weight.double())
    # The bound that takes the weight for the gain is beaten by an ordinary text.
    naive = replace(steps.norm, gain=weight.double())
    with torch.no_grad():
        before, after = phi(X).double(), phi(X.flip(0)).double()
    far = Ellipsoid(naive.gain, naive.shift, naive.centred).farthest(before)
    assert bool(((after - before).norm(dim=1) > far).any())


class Doubled(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


class Clipped(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).clamp(-1, 1)


class Plus(nn.Module):
    """A block whose last step is not its norm any more."""

    def __init__(self, norm: nn.Module, in_place: bool) -> None:
        super().__init__()
        self.norm, self.in_place = norm, in_place

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.norm(x)
        return out.mul_(3) if self.in_place else 3 * out


@pytest.mark.parametrize("case", ["doubled", "clipped", "scaled after", "scaled in place"])
def test_a_norm_that_does_something_else_has_no_ceiling(case: str, tmp_path: Path) -> None:
    write_model(tmp_path, "bert", layers=1)
    loaded = TransformerFeatures.load(str(tmp_path))
    phi = loaded.apart()
    output: Any = phi.checkpoint.base.encoder.layer[-1].output  # type: ignore[union-attr, index]
    if case in ("doubled", "clipped"):
        other = (Doubled if case == "doubled" else Clipped)(16)
        other.load_state_dict(output.LayerNorm.state_dict())
        output.LayerNorm = other.requires_grad_(False)
    else:
        output.LayerNorm = Plus(output.LayerNorm, in_place=case.endswith("place"))
    with pytest.raises(UnknownSteps):
        last_steps(phi, phi.encode(TEXT).X)
    assert ceilings(loaded).upper is not None
    made = ceilings(phi)
    assert made.upper is None
    assert made.how.startswith("no ceiling: ")


def test_a_part_of_a_model_has_none(model: Any) -> None:
    made = ceilings(model("bert").select(module="encoder.layer.0.attention"))
    assert (made.upper, made.how) == (None, "no ceiling: none is known for a part of a model")


# Which rows move ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_in_causal_models_the_rows_before_the_changed_word_stay(kind: str, model: Any) -> None:
    whole = upper(model(kind).select(output="hidden"))
    assert bool((whole.diff() < 0).all())
    pooled = model(kind).select(output="pooled")
    for pooling in ("mean", "max"):
        phi = TransformerFeatures(replace(pooled.checkpoint, pooling=pooling), pooled.selection)
        assert bool((upper(phi).diff() < 0).all()) or pooling == "max"
    first = upper(model(kind).select(output="cls"))
    assert float(first[1:].max()) < 1e-3 * float(first[0])  # nothing but rounding
    last = upper(model(kind).select(output="logits"))
    assert float(last.max()) == float(last.min())
    assert "those after it" in ceilings(pooled).how


def test_in_models_that_read_both_ways_it_is_the_same_for_every_word(model: Any) -> None:
    for output in ("hidden", "pooled", "cls", "attention", "logits"):
        bounds = upper(model("bert").select(output=output))
        assert float(bounds.max()) == float(bounds.min())
        assert "any words" in ceilings(model("bert").select(output=output)).how


def test_at_layer_0_only_the_changed_word_moves(model: Any) -> None:
    encoder, decoder = model("bert").select(layer=0), model("llama").select(layer=0)
    assert len(set(upper(encoder).tolist())) > 1
    assert "these rows, of any size" in ceilings(encoder).how
    made = ceilings(decoder)
    assert (made.how, made.kind) == ("layer 0 moves by the change itself", "certificate")
    assert made.upper is not None
    size = decoder.encode(TEXT).X.norm(dim=1)
    torch.testing.assert_close(made.upper, size.double(), rtol=1e-5, atol=0)


def test_attention_moves_at_most_to_the_corner_that_it_is_farthest_from(model: Any) -> None:
    phi = model("gpt2").select(output="attention", layer=1, head=1)
    X = phi.encode("not good").X
    with torch.no_grad():
        a = phi(X).double()
    truth = []
    corners = torch.eye(len(a)).double()
    for i in range(len(a)):  # a corner of the words that a row sees, or no word at all
        rows = [max(a[j].norm(), *((a[j] - corner).norm() for corner in corners[: j + 1])) for j in range(i, len(a))]
        truth.append(math.sqrt(sum(float(row) ** 2 for row in rows)))
    torch.testing.assert_close(upper(phi, "not good"), torch.tensor(truth).double(), rtol=1e-3, atol=1e-4)


def test_several_words_at_once_are_covered_whichever_they_are(model: Any) -> None:
    phi = model("gpt2").select(output="hidden")
    s = ow.sensitivity(phi, phi.encode(TEXT), words=2, search="quick", baseline=0)
    first = float(upper(phi)[0])
    assert s.upper is not None
    assert s.upper * phi.at(phi.encode(TEXT).X).norm == pytest.approx(first, rel=1e-4)


# Precision ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_measured_and_its_rounding_is_added(dtype: torch.dtype, model: Any) -> None:
    phi = model("bert", True, dtype).select(output="pooled")
    assert (phi.precision, phi.dtype) == (dtype, torch.float32)
    s = ow.sensitivity(phi, phi.encode(TEXT), search="quick", baseline=0)
    own = model("bert").select(output="pooled")
    single = ow.sensitivity(own, phi.encode(TEXT), search="quick", baseline=0)
    assert s.upper is not None
    assert single.upper is not None
    assert s.value <= s.upper
    assert single.upper * 0.98 < s.upper < single.upper * (1.2 if dtype == torch.bfloat16 else 1.05)


def test_rows_whose_mean_drowns_their_spread_are_known(model: Any) -> None:
    phi = model("gpt2", True, torch.bfloat16).select(output="hidden")
    X = phi.encode(TEXT).X
    texts = torch.stack([X, torch.full_like(X, 1e12)])
    steady = unsteadiness(phi, texts)
    assert float(steady[0]) < STEADY < float(steady[1])
    assert not unsteadiness(model("llama").select(output="hidden"), X[None]).any()  # nothing is taken off


def test_a_norm_without_parameters_is_one_all_the_same() -> None:
    found = recognised(nn.LayerNorm(6, elementwise_affine=False), torch.float32)
    assert isinstance(found, Norm)
    assert found.centred
    assert torch.equal(found.gain, torch.ones(6).double())


# Logits -------------------------------------------------------------------------------------------------------------


def test_logits_before_a_softmax_lose_their_mean_and_others_keep_it(model: Any, tmp_path: Path) -> None:
    for kind in ("bert", "gpt2"):
        phi = model(kind).select(output="logits")
        with torch.no_grad():
            X = phi.encode(TEXT).X
            assert float(phi(X).mean(-1).abs().max()) < 1e-5
            raw = phi.states(X, logits=True).logits
            assert raw is not None
            shown = raw[-1] if phi.causal else raw
            torch.testing.assert_close(phi(X), shown - shown.mean(-1, keepdim=True), rtol=1e-5, atol=1e-5)
        assert phi.describe()["centred"] is True
    write_model(tmp_path, "bert", head="ForSequenceClassification")
    settings = json.loads((tmp_path / "config.json").read_text())
    for said in ({"problem_type": "multi_label_classification"}, {"problem_type": "regression"}):
        (tmp_path / "config.json").write_text(json.dumps(settings | said))
        phi = TransformerFeatures.load(str(tmp_path), output="logits")
        with torch.no_grad():
            raw = phi.states(phi.encode(TEXT).X, logits=True).logits
            torch.testing.assert_close(phi(phi.encode(TEXT).X), raw, rtol=1e-6, atol=1e-6)
        assert phi.describe()["centred"] is False


# What a result says -------------------------------------------------------------------------------------------------


def test_a_result_names_its_ceiling_and_how_much_of_it_is_reached(model: Any, tmp_path: Path) -> None:
    phi = model("bert").select(output="pooled")
    s = ow.sensitivity(phi, phi.encode(TEXT), search="quick", baseline=0)
    assert s.upper is not None
    assert s.value <= s.upper == s.per_word["upper"].max()
    assert s.upper_kind == "ceiling"
    assert f"S ≤ {s.upper:.4f} (ceiling for changes of any size; {s.value / s.upper:.0%} of it reached)" in repr(s)
    assert "any change of any words, of any size" in repr(s)
    saved = json.loads(s.save(tmp_path / "s.json").read_text())
    assert (saved["upper"], saved["upper_kind"]) == (s.upper, "ceiling")
    assert ow.Sensitivity.load(tmp_path / "s.json").upper_kind == "ceiling"
    without = ow.sensitivity(model("gpt2").select(layer=1), phi.encode(TEXT), search="quick", baseline=0)
    assert (without.upper, without.upper_kind) == (None, "none")
    assert "no ceiling: layer 1 does not end in a norm" in repr(without)


# What an attack found once ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_norm_is_not_taken_for_a_multiple_of_the_words(dtype: torch.dtype, model: Any) -> None:
    """In half precision a coarse comparison would call layer 0 of an encoder linear."""
    phi = model("bert", True, dtype).select(layer=0)
    assert ceilings(phi).kind == "ceiling"
    s = ow.sensitivity(phi, phi.encode("no"), search="quick", baseline=0)
    assert s.upper is not None
    assert 0 < s.value <= s.upper


def built(name: str, head: str = "Model", seed: int = 0, spread: float = 1.0, **settings: Any) -> TransformerFeatures:
    """A tiny random model of any class, in memory."""
    small = {"vocab_size": 400, "hidden_size": 16, "num_attention_heads": 2, "num_hidden_layers": 1}
    small |= {"intermediate_size": 16, "max_position_embeddings": 64, "pad_token_id": 1, "bos_token_id": 0}
    torch.manual_seed(seed)
    wanted = {key: value for key, value in (small | settings).items() if value is not None}
    config = getattr(transformers, f"{name}Config")(**wanted)
    made = getattr(transformers, f"{name}{head}")(config).eval()
    with torch.no_grad():
        for parameter in made.parameters():
            nn.init.normal_(parameter, std=spread)
    return TransformerFeatures.of(made, byte_level())


@pytest.mark.parametrize("seed", range(6))
def test_an_encoder_whose_attention_is_saturated_is_not_causal(seed: int) -> None:
    assert not built("Bert", seed=seed).causal
    window = {"local_attention": 2, "layer_types": ["sliding_attention"], "cls_token_id": 0, "sep_token_id": 2}
    assert not built("ModernBert", seed=seed, eos_token_id=2, **window).causal
    assert built("Llama", seed=seed, spread=0.3, num_key_value_heads=1).causal


def test_attention_may_go_to_no_word_at_all() -> None:
    """A word that is alone has all the attention, unless the model has a sink."""
    experts = {"num_local_experts": 2, "num_experts_per_tok": 1, "head_dim": 8, "num_key_value_heads": 1}
    phi = built("GptOss", spread=0.3, **experts).select(output="attention")
    probe = phi.at(phi.encoder.layer0.word[:1].clone())
    made = ceiling(probe, torch.tensor([[0]]), ow.Ball(), NOTHING_FOUND)  # type: ignore[arg-type]
    assert made.upper is not None
    with torch.no_grad():
        moved = [(phi(scale * probe.X) - probe.clean).norm() for scale in (-100, -1, 0, 10, 1e4)]
    assert max(map(float, moved)) <= float(made.upper[0])


@pytest.mark.parametrize("case", ["hook", "forward"])
def test_a_last_matrix_that_gives_something_else_has_no_ceiling(case: str) -> None:
    phi = built("Llama", "ForCausalLM", spread=0.3, num_key_value_heads=1).select(output="logits")
    assert ceilings(phi).upper is not None
    head: Any = phi.model.lm_head
    if case == "hook":
        head.register_forward_hook(lambda module, args, out: 5 * out)
    else:
        plain = head.forward
        head.forward = lambda x: 5 * plain(x)
    assert ceilings(phi).how == "no ceiling: its last matrix gives something else than its product"


def test_models_with_other_rows_than_words_say_so() -> None:
    sizes = {"d_model": 16, "n_head": 2, "d_head": 8, "d_inner": 16, "block_sizes": [1, 1], "num_decoder_layers": 1}
    phi = built("Funnel", "BaseModel", spread=0.3, num_hidden_layers=None, **sizes)
    for output in ("hidden", "pooled", "attention"):
        made = ceilings(phi.select(output=output))
        assert made.upper is None
        assert "not those of the words" in made.how


def test_a_model_may_write_into_its_input() -> None:
    phi = built("CTRL", spread=0.3, n_embd=16, dff=16, n_layer=1, n_head=2)
    X = phi.encode(TEXT).X
    before = X.clone()
    with torch.no_grad():
        assert torch.equal(phi(X), phi(X))
    assert torch.equal(X, before)


def test_one_label_a_word_is_not_centred() -> None:
    assert built("Bert", "ForTokenClassification", num_labels=3).select(output="logits").describe()["centred"]
    assert not built("Bert", "ForTokenClassification", num_labels=1).select(output="logits").describe()["centred"]


def test_a_ceiling_that_a_search_went_beyond_is_withdrawn(model: Any) -> None:
    phi = model("bert").select(output="pooled")
    probe, row = phi.at(phi.encode(TEXT).X), torch.tensor([[1]])
    made = certificate(probe, row, ow.Ball(), torch.tensor([1e9]), ow.Certify.plain())
    assert (made.upper, made.kind) == (None, "none")
    assert "a search went beyond it" in made.how
