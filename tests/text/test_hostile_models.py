"""Models as data: a hostile folder, table or name ends in one line, soon, before anything large is allocated or run."""

from __future__ import annotations

import io
import json
import os
import pickle
import shutil
import struct
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from benchmarks import fuzz, fuzz_models
from oneword.checks import printable
from oneword.errors import FileFormatError, OnewordError, RangeError, TextError
from oneword.maps.transformer import TransformerFeatures
from oneword.text.encoders import Encoder
from oneword.text.sources import expect_hub
from tests.text.tiny_models import write_model

TEXT = "I love this film"
SECONDS = 15.0  # each takes less than one alone; the machine may be busy
Folder = Callable[..., Path]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A small model of a family, saved once."""
    made: dict[str, Path] = {}

    def one(kind: str) -> Path:
        if kind not in made:
            made[kind] = tmp_path_factory.mktemp(kind.replace(" ", "-"))
            write_model(made[kind], kind, layers=2)
            load(made[kind])  # what is imported for it first takes its time
        return made[kind]

    return one


@pytest.fixture
def folder(saved: Callable[[str], Path], tmp_path: Path) -> Folder:
    """A copy of it with other settings; `None` removes one."""

    def copy(kind: str = "bert", **settings: Any) -> Path:
        place = tmp_path / "model"
        shutil.copytree(saved(kind), place)
        path = place / "config.json"
        config = json.loads(path.read_text()) | settings
        path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
        return place

    return copy


@contextmanager
def refused(match: str | None = None, error: type[OnewordError] = OnewordError) -> Iterator[Any]:
    """One printable line of this kind, soon."""
    with fuzz.within(SECONDS), pytest.raises(error, match=match) as caught:
        yield caught
    text = str(caught.value)
    assert text == printable(text)
    assert 10 < len(text) < fuzz.LONGEST_MESSAGE


def load(folder: Path) -> TransformerFeatures:
    return TransformerFeatures.load(str(folder))


class Marker:
    """A pickle that leaves a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (open, (str(self.path), "w"))


# Settings that choose code or files ----------------------------------------------------------------------------------


def test_weights_that_the_settings_name_are_never_read(folder: Folder, tmp_path: Path) -> None:
    place = folder(transformers_weights="adapter_model.bin")
    (place / "adapter_model.bin").write_bytes(pickle.dumps(Marker(tmp_path / "was_read")))
    torch.save(load_file(place / "model.safetensors"), place / "adapter_model.bin")
    with refused("no transformers_weights", FileFormatError):
        load(place)
    assert not (tmp_path / "was_read").exists()


@pytest.mark.parametrize(
    "settings",
    [
        {"_attn_implementation": "x/kernel"},
        {"attn_implementation": "kernels-community/flash-attn"},
        {"_attn_implementation": {"": "x/kernel"}},
        {"attn_implementation": ["sdpa"]},
        {"experts_implementation": "x/kernel"},
        {"text_config": {"_attn_implementation": "x/kernel"}},
        {"per_layer_config": {"0": {"attn_implementation": "x/kernel"}}},
        {"sub": [{"transformers_weights": "../x.safetensors"}]},
        {"quantization_config": {"quant_method": "gptq", "bits": 4}},
        {"fusion_config": {"patch_embeddings": True}},
        {"kernel_config": {"a": "b"}},
        {"attribute_map": {"hidden_size": "x"}},
        {"backbone": "timm/x", "use_timm_backbone": True},
        {"dtype": "load"},
        {"torch_dtype": "nn"},
        {"to_dict": 5},
    ],
    ids=lambda settings: next(iter(settings))[:20],
)
def test_settings_that_choose_code_or_files_are_refused(folder: Folder, settings: dict[str, Any]) -> None:
    with refused("config.json of model", FileFormatError):
        load(folder(**settings))


def test_settings_that_only_say_where_a_model_came_from_change_nothing(folder: Folder, saved: Any) -> None:
    place = folder(
        _name_or_path="/somewhere/else",
        _commit_hash="0" * 40,
        auto_map={"AutoConfig": "evil.Config", "AutoModel": "x/y--evil.Model"},
        custom_pipelines={"a": {"impl": "evil.Pipeline"}},
        tokenizer_class="../evil",
        base_model="x/y",
        training={"steps": 10**12, "flops": 10**40},
        model_max_length=10**30,
        attn_implementation="sdpa",
    )
    (place / "adapter_config.json").write_text('{"base_model_name_or_path": "x/y", "peft_type": "LORA"}')
    (place / "generation_config.json").write_text('{"max_length": "evil"}')
    (place / "tokenizer_config.json").write_text('{"auto_map": {"AutoTokenizer": ["evil.T", null]}}')
    (place / "evil.py").write_text("raise SystemExit")
    ours, honest = load(place), load(saved("bert"))
    X = honest.encode(TEXT).X
    assert torch.equal(ours(X), honest(X))
    assert ours.model.config._attn_implementation == honest.model.config._attn_implementation


@pytest.mark.parametrize(
    "kind", ["bert", "roberta", "distilbert", "electra", "gpt2", "llama", "qwen3", "mpnet", "gemma"]
)
def test_a_model_is_bit_for_bit_what_transformers_loads(saved: Any, kind: str) -> None:
    transformers = pytest.importorskip("transformers")
    ours = load(saved(kind))
    theirs = transformers.AutoModel.from_pretrained(saved(kind), local_files_only=True).state_dict()
    mine = ours.model.state_dict()
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[name], theirs[name]) for name in theirs)


@pytest.mark.parametrize(
    "name", ["Trainer", "pipeline", "AutoConfig", "AutoModel", "BertTokenizer", "GPT2Model", "BertConfig", "logging"]
)
def test_architectures_that_are_no_models_of_this_type(folder: Folder, name: str) -> None:
    with refused("to name a model of type 'bert'", FileFormatError):
        load(folder(architectures=[name]))


@pytest.mark.parametrize("kind", ["mra", "rwkv", "yoso"])
def test_models_that_fetch_compiled_code(folder: Folder, kind: str) -> None:
    with refused("compiled code", FileFormatError):
        load(folder(model_type=kind, architectures=None))


# Sizes ---------------------------------------------------------------------------------------------------------------

SIZES: list[tuple[str, dict[str, Any]]] = [
    ("bert", {"vocab_size": 10**9}),
    ("bert", {"num_hidden_layers": 10**6}),
    ("bert", {"num_hidden_layers": 10**4}),
    ("bert", {"num_hidden_layers": 3}),
    ("bert", {"num_hidden_layers": 10**30}),
    ("bert", {"num_attention_heads": 0}),
    ("bert", {"num_attention_heads": 3}),
    ("bert", {"hidden_size": 10**9}),
    ("bert", {"hidden_size": 60_000, "num_attention_heads": 1}),
    ("bert", {"hidden_size": -16}),
    ("bert", {"hidden_size": "16"}),
    ("bert", {"hidden_size": 1.5}),
    ("bert", {"hidden_size": 1e9}),
    ("bert", {"hidden_size": float("nan")}),
    ("bert", {"intermediate_size": 10**9}),
    ("bert", {"max_position_embeddings": 10**9}),
    ("bert", {"max_position_embeddings": 2**24}),
    ("bert", {"num_labels": 10**9}),
    ("bert", {"vocab_size": [10**9]}),
    ("bert", {"id2label": None, "num_labels": 10**40}),
    ("gpt2", {"n_layer": 10**6}),
    ("gpt2", {"n_head": 0}),
    ("gpt2", {"n_positions": 2**25}),
    ("llama", {"num_hidden_layers": 10**6}),
    ("llama", {"num_attention_heads": 0}),
    ("llama", {"num_key_value_heads": 0}),
    ("llama", {"head_dim": 10**9}),
    ("distilbert", {"n_layers": 10**6}),
    ("distilbert", {"sinusoidal_pos_embds": True, "max_position_embeddings": 2**24}),
]


@pytest.mark.parametrize(("kind", "settings"), SIZES, ids=lambda each: str(each)[:40])
@pytest.mark.parametrize("random_init", [None, 0])
def test_sizes_are_those_of_the_files(folder: Folder, kind: str, settings: dict[str, Any], random_init: Any) -> None:
    if random_init is not None and settings in ({"num_hidden_layers": 3}, {"num_attention_heads": 3}):
        settings = settings | {"hidden_size": 10**9}  # by themselves they are small
    place = folder(kind, **settings)
    before = fuzz.peak()
    with refused(error=FileFormatError):
        TransformerFeatures.load(str(place), random_init=random_init)
    assert fuzz.peak() - before < 300_000_000


# Files ---------------------------------------------------------------------------------------------------------------


def deep(place: Path) -> None:
    (place / "config.json").write_text('{"a":' * 100_000 + "1" + "}" * 100_000)


def large(place: Path) -> None:
    with (place / "config.json").open("wb") as file:
        file.truncate(10**9)


def long_header(place: Path) -> None:
    with (place / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", 90_000_000) + b'{"a":{}}')
        file.truncate(100_000_000)


def secret(name: str) -> Callable[[Path], None]:
    def link(place: Path) -> None:
        other = place.parent / "other.txt"
        other.write_text(f'"{fuzz.SECRET}" {fuzz.SECRET}')
        (place / name).unlink()
        (place / name).symlink_to(other)

    return link


def replaced(name: str, make: Callable[[Path], object]) -> Callable[[Path], None]:
    def act(place: Path) -> None:
        (place / name).unlink()
        make(place / name)

    return act


FILES: dict[str, Callable[[Path], object]] = {
    "deep": deep,
    "large": large,
    "a list": lambda place: (place / "config.json").write_text("[1]"),
    "not UTF-8": lambda place: (place / "config.json").write_bytes(b'{"a": "\xff\xfe"}'),
    "many digits": lambda place: (place / "config.json").write_text('{"a": ' + "9" * 5000 + "}"),
    "no JSON": lambda place: (place / "config.json").write_text("{"),
    "long header": long_header,
    "lying header": lambda place: (place / "model.safetensors").write_bytes(struct.pack("<Q", 2**63) + b"{}"),
    "empty weights": lambda place: (place / "model.safetensors").write_bytes(b""),
    "truncated weights": lambda place: os.truncate(place / "model.safetensors", 3000),
    "a secret config": secret("config.json"),
    "a secret tokenizer": secret("tokenizer.json"),
    "secret weights": secret("model.safetensors"),
    **{f"pipe as {name}": replaced(name, os.mkfifo) for name in ("config.json", "tokenizer.json", "model.safetensors")},
    **{
        f"folder as {name}": replaced(name, os.mkdir) for name in ("config.json", "tokenizer.json", "model.safetensors")
    },
    "dangling": replaced("model.safetensors", lambda path: path.symlink_to("nowhere")),
    "a loop": replaced("config.json", lambda path: path.symlink_to(path)),
}


@pytest.mark.parametrize("spoil", FILES.values(), ids=list(FILES))
@pytest.mark.parametrize("read", [load, lambda place: Encoder.load(str(place))], ids=["model", "encoder"])
def test_files_that_are_not_what_they_seem(folder: Folder, spoil: Callable[[Path], None], read: Any) -> None:
    place = folder()
    spoil(place)
    with refused() as caught:
        read(place)
    assert fuzz.SECRET not in str(caught.value)


def shards(place: Path, **names: str) -> None:
    """The weights in a shard, with an index that gives these names instead."""
    (place / "model.safetensors").rename(place / "shard.safetensors")
    tensors = load_file(place / "shard.safetensors")
    index = {name: names.get("shard", "shard.safetensors") for name in tensors}
    (place / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))


@pytest.mark.parametrize(
    "where", ["../out.safetensors", "{root}/out.safetensors", "a/../../out.safetensors", "out.bin"]
)
@pytest.mark.parametrize("read", [load, lambda place: Encoder.load(str(place))], ids=["model", "encoder"])
def test_an_index_of_shards_stays_in_its_folder(folder: Folder, tmp_path: Path, where: str, read: Any) -> None:
    place = folder()
    shutil.copy(place / "model.safetensors", tmp_path / "out.safetensors")
    shutil.copy(place / "model.safetensors", place / "out.bin")
    shards(place, shard=where.format(root=tmp_path))
    with refused("shards .* of the folder itself", FileFormatError):
        read(place)


@pytest.mark.parametrize("shard", ["no.safetensors", "a\0.safetensors", "a" * 5000 + ".safetensors", ".safetensors"])
def test_shards_that_are_not_there(folder: Folder, shard: str) -> None:
    place = folder()
    shards(place, shard=shard)
    for read in (load, Encoder.load):
        with refused(error=FileFormatError):
            read(place)


def test_shards_without_an_index_are_read_and_other_weights_beside_them_are_not(folder: Folder, saved: Any) -> None:
    place = folder()
    tensors = load_file(place / "model.safetensors")
    (place / "model.safetensors").unlink()
    for number, names in enumerate((sorted(tensors)[::2], sorted(tensors)[1::2]), 1):
        save_file({name: tensors[name] for name in names}, place / f"model-{number:05}-of-00002.safetensors")
    save_file({name: 0 * each for name, each in tensors.items()}, place / "original.safetensors")
    ours, honest = load(place), load(saved("bert"))
    X = honest.encode(TEXT).X
    assert torch.equal(ours(X), honest(X))


@pytest.mark.parametrize("linked", [False, True])
def test_shards_and_links_as_the_hub_keeps_them_are_read(folder: Folder, saved: Any, linked: bool) -> None:
    place = folder()
    shards(place)
    if linked:  # snapshots/COMMIT/file → ../../blobs/HASH
        blobs = place.parent / "blobs"
        blobs.mkdir()
        for number, path in enumerate(sorted(place.iterdir())):
            path.rename(blobs / str(number))
            path.symlink_to(Path("..", "blobs", str(number)))
    ours, honest = load(place), load(saved("bert"))
    X = honest.encode(TEXT).X
    assert torch.equal(ours(X), honest(X))
    assert torch.equal(Encoder.load(place).encode(TEXT).X, Encoder.load(saved("bert")).encode(TEXT).X)


def test_weights_that_change_on_the_disk_change_no_model_in_memory(folder: Folder) -> None:
    place = folder()
    phi, encoder = load(place), Encoder.load(place)
    X = phi.encode(TEXT).X
    before, rows = phi(X), encoder.encode(TEXT).X
    path = place / "model.safetensors"
    size = path.stat().st_size
    with path.open("r+b") as file:  # the same file, as one that is being copied over it
        file.seek(size // 4)
        file.write(b"\x11" * (size // 2))
    assert torch.equal(phi(X), before)
    assert torch.equal(encoder.encode(TEXT).X, rows)


def test_weights_of_another_model(folder: Folder, saved: Any) -> None:
    place = folder()
    shutil.copy(saved("gpt2") / "model.safetensors", place)
    with refused(error=FileFormatError):
        load(place)


def test_pooling_and_modules_that_are_no_tables(folder: Folder) -> None:
    place = folder()
    (place / "1_Pooling").mkdir()
    for content in ("[1]", '"x"', "nothing", '{"pooling_mode": [[{"\\u001b": 1}]]}'):
        (place / "1_Pooling" / "config.json").write_text(content)
        (place / "modules.json").write_text('[{"type": 5}, "x"]')
        with refused(error=FileFormatError):
            load(place)


# Tokenizers ----------------------------------------------------------------------------------------------------------


def split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def template(ids: list[int] | None) -> dict[str, Any]:
    known = {} if ids is None else {"X": {"id": "X", "ids": ids, "tokens": ["X"] * len(ids)}}
    single = [{"SpecialToken": {"id": "X", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    return {"type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": known}


DOUBLED = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
BETWEEN = {"type": "Replace", "pattern": {"Regex": ""}, "content": "a" * 50}
TOKENIZERS: dict[str, dict[str, Any]] = {
    "a pattern that goes back and forth": {"pre_tokenizer": split("(a+)+$b")},
    "no pattern": {"pre_tokenizer": split("(")},
    "no characters": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAAAA=="}},
    "no table": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "/////w=="}},
    "doubled 40 times": {"normalizer": {"type": "Sequence", "normalizers": [DOUBLED] * 40}},
    "letters between letters": {"normalizer": {"type": "Sequence", "normalizers": [BETWEEN] * 9}},
    "pieces of no length": {"pre_tokenizer": {"type": "FixedLength", "length": 0}},
    "an unknown special token": {"post_processor": template(None)},
    "a special id beyond the table": {"post_processor": template([999_999_999])},
    "a huge id": {"model": {"type": "WordLevel", "vocab": {"I": 4_000_000_000, "[UNK]": 1}, "unk_token": "[UNK]"}},
    "no unknown token": {"model": {"type": "WordLevel", "vocab": {"I": 0}, "unk_token": "[UNK]"}},
    "nothing": {"model": {"type": "Unigram", "vocab": [], "unk_id": None}},
}


@pytest.mark.parametrize("changes", TOKENIZERS.values(), ids=list(TOKENIZERS))
def test_a_tokenizer_that_fails(folder: Folder, changes: dict[str, Any], capfd: pytest.CaptureFixture[str]) -> None:
    place = folder()
    path = place / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    for read in (load, Encoder.load):
        with refused(error=FileFormatError):
            read(place)
    assert not capfd.readouterr().err


def test_a_tokenizer_that_fails_on_one_text_only(folder: Folder) -> None:
    place = folder()
    path = place / "tokenizer.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"pre_tokenizer": split("(q+)+$b")}))
    encoder = Encoder.load(place)
    assert encoder.encode(TEXT).words
    for act in (
        encoder.encode,
        encoder.first_attention,
        lambda text: load(place).select(output="pooled").vectors([text]),
    ):
        with refused("tokenizer that can read the text", TextError):
            act("q" * 60 + " x")


# Tables of vectors ---------------------------------------------------------------------------------------------------


def npz(path: Path, shape: tuple[int, ...], data: bytes = b"", method: int = zipfile.ZIP_DEFLATED) -> Path:
    """An .npz file with a word, and vectors of a declared shape."""
    with zipfile.ZipFile(path, "w", method) as archive:
        words = io.BytesIO()
        np.save(words, np.array(["a"] * 3))
        archive.writestr("words.npy", words.getvalue())
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": shape})
        archive.writestr("vectors.npy", header.getvalue() + data)
    return path


@pytest.mark.parametrize(
    "make",
    [
        lambda path: npz(path, (3, 1_610_612_736)),
        lambda path: npz(path, (3, 7_000_000), bytes(84_000_000)),
        lambda path: npz(path, (2**62, 2**62)),
        lambda path: npz(path, (-1, 3)),
        lambda path: path.write_bytes(b"PK\x05\x06" + bytes(18)),
        lambda path: path.write_bytes(b"PK\x03\x04"),
        os.mkfifo,
        os.mkdir,
    ],
    ids=["18 GiB declared", "zeros", "overflow", "negative", "empty zip", "broken zip", "pipe", "folder"],
)
def test_arrays_that_unpack_to_much_more_than_the_file(tmp_path: Path, make: Any) -> None:
    path = tmp_path / "table.npz"
    make(path)
    before = fuzz.peak()
    with refused(error=FileFormatError):
        Encoder.load(path)
    assert fuzz.peak() - before < 300_000_000


@pytest.mark.parametrize("content", [b"1000000000 1000000000\n", bytes(3_000_000), b"a " * 2_000_000, b"\xff\xfe a 1"])
def test_text_tables_that_lie(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "table.vec"
    path.write_bytes(content)
    with refused(error=FileFormatError):
        Encoder.load(path)


# Names ---------------------------------------------------------------------------------------------------------------

NAMES = ["~nosuchuser/m", "x" * 5000, "", " ", "\0", "a/b/c", "a\nb", "\udc80", "\x1b[31m", "a" * 300 + "/b", "x\\y"]


@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name)[:20])
def test_names_that_are_no_models(name: str, oneword: Any) -> None:
    import oneword as ow

    expect_hub(name)
    for act in (load, Encoder.load, lambda name: ow.measure(TEXT, by=name)):
        with refused():
            act(name)
    for option in ("--model", "--encoder"):
        if "\0" not in name:  # which no command line can hold
            run = oneword("measure", TEXT, option, name, "--effort", "quick")
            assert run.returncode == 2
            assert len(run.stderr.splitlines()) == 1
            assert "Traceback" not in run.stderr


@pytest.mark.parametrize("revision", ["/dev/zero", "../../x", "", "\0", "x" * 5000, "a\nb", 5])
def test_a_revision_is_no_path(revision: Any) -> None:
    for read in (Encoder.load, TransformerFeatures.load):
        with refused("branch, tag or commit", RangeError):
            read("some/model", revision=revision)


def test_a_folder_that_is_no_model(tmp_path: Path) -> None:
    odd = tmp_path / "a\n\x1b[31mb"
    odd.mkdir()
    for place in (odd, tmp_path / ".."):
        for read in (load, Encoder.load):
            with refused(error=FileFormatError):
                read(place)


# All at once ---------------------------------------------------------------------------------------------------------


def test_hostile_folders_end_in_a_result_or_in_one_line() -> None:
    found = fuzz.run(fuzz_models.cases(count=25, seed=1))
    assert found["faults"] == []
    assert sum(found["outcomes"].values()) == 25
