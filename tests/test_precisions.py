"""Every place that takes a dtype takes the same ones, and refuses others with the same sentence."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import oneword as ow
from oneword.cli.main import app
from oneword.errors import DTypeError
from oneword.maps import registry
from oneword.text.context import clustered
from tests.text.tiny_bert import needs_minilm
from tests.text.tiny_models import wordpiece, write_model

transformers = pytest.importorskip("transformers")
HALVES = (torch.float16, torch.bfloat16)
FULL = (torch.float32, torch.float64)
WRONG = (torch.int64,)
TEXT, WORDS, CHANGED = "not good, not bad", "not good", "not bad"
SENTENCE = (
    "expected dtype float32 or float64 (float16 and bfloat16 for trained models only), got {}: choose one of these, or "
    "convert to it"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models")
    write_model(place / "bert", "bert", spread=0.3)
    write_model(place / "llama", "llama", head=True, spread=0.3)
    (place / "texts.txt").write_text("\n".join(f"I love film {k}, and I love her much." for k in range(4)))
    return place


def command(*arguments: object) -> None:
    """The command with these arguments; what it refuses is raised as the library would."""
    run = CliRunner().invoke(app, list(map(str, arguments)))
    if isinstance(run.exception, Exception):
        raise run.exception
    assert run.exit_code in (0, 1), run.output  # 1: a verdict of the audit


def given_model(folder: Path, dtype: torch.dtype) -> ow.TransformerFeatures:
    model = transformers.AutoModel.from_pretrained(folder / "bert")
    for parameter in model.parameters():  # torch itself casts no model to whole numbers
        parameter.requires_grad_(False).data = parameter.data.to(dtype)
    return ow.TransformerFeatures.of(model, wordpiece())


def quick(by: Any, folder: Path, text: str = WORDS, **options: Any) -> Any:
    encoder = ow.Encoder.load(folder / "bert")
    return ow.measure(text, by, encoder=encoder, effort="quick", seeds=1, words=False, positions=[1], **options)


# Trained models and nothing else: 16 bits are taken.
OF_MODELS = {
    "TransformerFeatures.load": lambda folder, dtype: ow.TransformerFeatures.load(str(folder / "bert"), dtype=dtype),
    "TransformerFeatures.of": given_model,
    "measure a model": lambda folder, dtype: quick(str(folder / "bert"), folder, dtype=dtype),
    "compare by a model": lambda folder, dtype: ow.compare(WORDS, CHANGED, by=str(folder / "bert"), dtype=dtype),
    "sensitivity of a model": lambda folder, dtype: ow.sensitivity(
        ow.TransformerFeatures.load(str(folder / "bert"), output="pooled", dtype=dtype), WORDS, search="quick"
    ),
    "audit a model": lambda folder, dtype: ow.audit(
        ow.TransformerFeatures.load(str(folder / "bert"), output="pooled", dtype=dtype),
        (folder / "texts.txt").read_text().splitlines(), lengths=[8], edits=["typo"], resamples=99,
    ),
    "oneword measure --model": lambda folder, dtype: command(
        "measure", WORDS, "--model", folder / "bert", "--encoder", folder / "bert", "--dtype", named(dtype),
        "--effort", "quick", "--position", 1, "--among", "none", "--quiet",
    ),
    "oneword compare --model": lambda folder, dtype: command(
        "compare", WORDS, CHANGED, "--model", folder / "bert", "--dtype", named(dtype), "--quiet"
    ),
    "oneword chat": lambda folder, dtype: command(
        "chat", "--model", folder / "llama", "--user", "I {word} it", "--word", "love", "--word", "watch",
        "--tokens", 2, "--dtype", named(dtype), "--quiet",
    ),
    "oneword audit": lambda folder, dtype: command(
        "audit", "--model", folder / "bert", "--file", folder / "texts.txt", "--lengths", 8, "--edit", "typo",
        "--set", "resamples=99", "--dtype", named(dtype), "--quiet",
    ),
}  # fmt: skip
# Maps and texts as arrays: 32 or 64 bits.
OF_MAPS = {
    "gaussian": lambda folder, dtype: ow.gaussian(3, 4, dtype=dtype),
    "clustered": lambda folder, dtype: clustered(3, 4, dtype=dtype),
    "Encoder.encode": lambda folder, dtype: ow.Encoder.load(folder / "bert").encode(WORDS, dtype=dtype),
    "Encoder.embed": lambda folder, dtype: ow.Encoder.load(folder / "bert").embed(torch.tensor([1]), dtype=dtype),
    "Encoder.windows": lambda folder, dtype: ow.Encoder.load(folder / "bert").windows(WORDS, dtype=dtype),
    "AttentionFeatures.draw": lambda folder, dtype: ow.AttentionFeatures.draw(4, dtype=dtype),
    "MultiHeadAttention.draw": lambda folder, dtype: ow.MultiHeadAttention.draw(4, heads=2, dtype=dtype),
    "RandomFeatures.draw": lambda folder, dtype: ow.RandomFeatures.draw(3, 4, dtype=dtype),
    "DeepRandomFeatures.draw": lambda folder, dtype: ow.DeepRandomFeatures.draw(3, 4, depth=2, dtype=dtype),
    "a map by name": lambda folder, dtype: registry.draw("attention-relu", 3, 4, dtype=dtype),
    "AttentionFeatures": lambda folder, dtype: ow.AttentionFeatures(torch.ones(4, 4).to(dtype)),
    "MultiHeadAttention": lambda folder, dtype: ow.MultiHeadAttention(*torch.ones(3, 2, 4, 2).to(dtype)),
    "RandomFeatures": lambda folder, dtype: ow.RandomFeatures(torch.ones(5, 12).to(dtype), 3),
    "DeepRandomFeatures": lambda folder, dtype: ow.DeepRandomFeatures([torch.ones(5, 12).to(dtype)], 3),
    "sensitivity at a tensor": lambda folder, dtype: ow.sensitivity(
        "attention", (1 + torch.arange(12).reshape(3, 4)).to(dtype), search="quick", certify=False
    ),
    "Context": lambda folder, dtype: ow.Context(torch.ones(3, 4).to(dtype)),
    "measure a map": lambda folder, dtype: quick("attention", folder, dtype=dtype),
    "measure a map and a model": lambda folder, dtype: quick([str(folder / "bert"), "attention"], folder, dtype=dtype),
    "compare by a map": lambda folder, dtype: ow.compare(
        WORDS, CHANGED, by="attention", encoder=ow.Encoder.load(folder / "bert"), dtype=dtype
    ),
    "oneword measure --gaussian": lambda folder, dtype: command(
        "measure", "--gaussian", "3,4", "--map", "attention", "--dtype", named(dtype), "--effort", "quick", "--quiet"
    ),
    "oneword measure --map": lambda folder, dtype: command(
        "measure", WORDS, "--map", "attention", "--model", folder / "bert", "--encoder", folder / "bert",
        "--dtype", named(dtype), "--effort", "quick", "--position", 1, "--among", "none", "--quiet",
    ),
}  # fmt: skip


def named(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def check(act: Any, folder: Path, dtype: torch.dtype, taken: bool) -> None:
    if taken:
        act(folder, dtype)
        return
    with pytest.raises(DTypeError) as caught:
        act(folder, dtype)
    assert str(caught.value) == SENTENCE.format(named(dtype))


@pytest.mark.parametrize("dtype", [*HALVES, torch.int64], ids=named)
@pytest.mark.parametrize("name", OF_MODELS)
def test_trained_models_take_16_32_and_64_bits(name: str, dtype: torch.dtype, folder: Path) -> None:
    check(OF_MODELS[name], folder, dtype, dtype.is_floating_point)


@pytest.mark.parametrize("dtype", [*HALVES, torch.float32, *WRONG], ids=named)
@pytest.mark.parametrize("name", OF_MAPS)
def test_maps_and_texts_take_32_and_64_bits(name: str, dtype: torch.dtype, folder: Path) -> None:
    check(OF_MAPS[name], folder, dtype, dtype in FULL)


@needs_minilm
@pytest.mark.parametrize("dtype", [torch.float16, *FULL, torch.int64], ids=named)
def test_compare_takes_the_same_for_a_map(dtype: torch.dtype, folder: Path) -> None:
    def act(folder: Path, dtype: torch.dtype) -> None:
        command("compare", WORDS, CHANGED, "--map", "attention", "--dtype", named(dtype), "--quiet")

    check(act, folder, dtype, dtype in FULL)


@pytest.mark.parametrize("dtype", HALVES, ids=named)
def test_a_module_of_ones_own_in_16_bits_is_refused_too(dtype: torch.dtype, folder: Path) -> None:
    module = torch.nn.Linear(16, 2).to(dtype)
    check(lambda folder, dtype: quick(module, folder), folder, dtype, taken=False)
    phi = ow.AttentionFeatures.draw(4).to(dtype)  # cast after it was made
    check(lambda folder, dtype: phi(torch.ones(3, 4, dtype=dtype)), folder, dtype, taken=False)


def test_arrays_of_numpy_are_refused_alike(folder: Path) -> None:
    check(
        lambda folder, dtype: ow.sensitivity("attention", np.ones((3, 4), np.float16)), folder, HALVES[0], taken=False
    )


@pytest.mark.parametrize("wrong", ["float32", None, float, 3, np.float32], ids=repr)
def test_what_is_no_dtype_is_refused_in_one_line(wrong: object) -> None:
    for act in (
        lambda: ow.gaussian(3, 4, dtype=wrong),  # type: ignore[arg-type]
        lambda: ow.TransformerFeatures.load("nowhere", dtype=wrong),  # type: ignore[arg-type]
    ):
        with pytest.raises(DTypeError, match=r"^expected dtype float32 or float64 \(.*\), got .*: choose") as caught:
            act()
        assert "\n" not in str(caught.value)


def test_a_model_in_16_bits_gives_features_in_32(folder: Path) -> None:
    for dtype in HALVES:
        phi = ow.TransformerFeatures.load(str(folder / "bert"), output="pooled", dtype=dtype)
        assert (phi.precision, phi.dtype, phi.encode(TEXT).X.dtype) == (dtype, torch.float32, torch.float32)
        assert phi(phi.encode(TEXT).X).dtype == torch.float32
