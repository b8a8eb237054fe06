"""Hostile folders of models, made from small real ones by a seed: settings, sizes, links, truncated and swapped files.

Each folder is read as an encoder and as a model, once with weights drawn anew, and a text is encoded.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import struct
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors.torch import load_file, save_file

from benchmarks.fuzz import Case, Home, run
from oneword.errors import OnewordError
from oneword.maps.transformer import TransformerFeatures
from oneword.text.encoders import Encoder
from tests.text.tiny_models import write_model

FAMILIES = ("bert", "roberta", "distilbert", "electra", "gpt2", "llama", "qwen3", "mpnet", "gemma")
COUNT = 500
TEXT = "I love this film, and I love her much."
Draw = random.Random
Spoil = Callable[[Path, Home, Draw], None]


def measure(count: int = COUNT, seed: int = 16) -> dict[str, Any]:
    """Counts of outcomes; `faults` must be empty."""
    return run(cases(count, seed))


def cases(count: int, seed: int) -> Iterator[Case]:
    """So many folders, each spoiled in one to three ways."""
    kinds = list(SPOILS)
    for number in range(count):
        draw = random.Random(f"{seed} {number}")
        kind = kinds[number % len(kinds)]
        ways = sorted({kind, *draw.choices(kinds, k=draw.choice((0, 0, 1, 2)))}, key=kinds.index)
        yield Case(f"folder {number}", kind, lambda home, draw=draw, ways=ways: _folder(home, draw, ways))


def _folder(home: Home, draw: Draw, ways: list[str]) -> Callable[[], object]:
    family = draw.choice(FAMILIES)
    place = home.input / "model"
    shutil.copytree(_saved(family), place)
    for way in ways:
        try:
            SPOILS[way](place, home, draw)
        except Exception:
            continue  # an earlier way took the file that this one would spoil, or made it unreadable
    seed = draw.choice((None, None, 0))
    return lambda: _read(place, seed)


def _read(place: Path, seed: int | None) -> None:
    """What can be asked of a folder. All of it is tried; the last error counts."""
    error: OnewordError | None = None
    for read in (_as_encoder, lambda folder: _as_model(folder, seed)):
        try:
            read(place)
        except OnewordError as refused:
            error = refused
    if error is not None:
        raise error


def _as_encoder(place: Path) -> object:
    encoder = Encoder.load(place)
    return encoder.encode(TEXT), len(encoder.whole_words)


def _as_model(place: Path, seed: int | None) -> object:
    phi = TransformerFeatures.load(str(place), random_init=seed)
    return phi(phi.encode(TEXT).X), phi.describe()


@cache
def _shelf() -> tempfile.TemporaryDirectory[str]:
    """Where these models are; it is removed when the process ends."""
    return tempfile.TemporaryDirectory(prefix="fuzz-models-")


@cache
def _saved(family: str) -> Path:
    """A small model of a family, made once a process."""
    place = Path(_shelf().name, family)
    transformers.logging.disable_progress_bar()
    write_model(place, family, layers=2, head=family in ("bert", "gpt2", "llama"))
    return place


# Ways to spoil a folder ----------------------------------------------------------------------------------------------

ODD: tuple[Any, ...] = (
    0, -1, 1, 3, 2**16, 10**6, 10**9, 2**31, 2**63, 10**40, 1.5, -0.0, 1e9, 1e308, float("nan"), float("inf"), True,
    False, None, "", "x", "1e9", "../x", "two words", "a" * 10_000, [], [1, 2], [10**9], {}, {"a": {"b": [1]}},
    "\x1b[31m", "\ud800",
)  # fmt: skip
CHOOSING: dict[str, tuple[Any, ...]] = {
    "transformers_weights": ("adapter_model.bin", "../outside/x.safetensors", "pytorch_model.bin"),
    "_attn_implementation": ("x/kernel", "kernels-community/flash-attn", "flash_attention_2", "paged|sdpa", {"": "x"}),
    "attn_implementation": ("x/kernel", "flex_attention", ["sdpa"], 5),
    "_attn_implementation_internal": ("x/kernel",),
    "experts_implementation": ("x/kernel", "deepgemm"),
    "quantization_config": ({"quant_method": "gptq", "bits": 4}, {"quant_method": "x"}, {"load_in_8bit": True}, []),
    "auto_map": ({"AutoConfig": "evil.C", "AutoModel": "evil.M"}, {"AutoModel": "x/y--evil.M"}, [], "x"),
    "architectures": (["Trainer"], ["pipeline"], ["AutoModel"], ["BertTokenizer"], ["T5Model"], "BertModel", [5],
                      [["x"]], ["__class__"], ["BertPreTrainedModel"], ["os.system"], {"a": "b"}),
    "model_type": ("t5", "clip", "evil", "", 5, None, ["bert"], "gpt2", "llama", "albert", "encoder-decoder", "mamba"),
    "dtype": ("load", "nn", "int8", "float16", "bfloat16", {"": "float32"}, "float8_e4m3fn"),
    "torch_dtype": ("load", "complex64", "bool", "auto"),
    "custom_pipelines": ({"x": {"impl": "evil.P"}},),
    "tokenizer_class": ("evil", "../x"),
    "fusion_config": ({"patch_embeddings": True}, {"x": "y"}),
    "kernel_config": ({"a": "b"},),
    "_name_or_path": ("../../outside", "/dev/zero"),
    "text_config": ({"_attn_implementation": "x/y"}, {"model_type": "bert"}, "x"),
    "per_layer_config": ({"0": {"hidden_size": 10**9}}, {"0": {"attn_implementation": "x/y"}}),
    "attribute_map": ({"hidden_size": "x"},),
    "id2label": ({"0": "two words", "x": "y"}, {}, [], {"0": {"a": "b"}}),
    "is_encoder_decoder": (True, "x"),
    "is_decoder": (True, 5),
    "add_cross_attention": (True,),
    "return_dict": (False, "x"),
    "output_hidden_states": (True,),
    "output_attentions": (True,),
    "tie_word_embeddings": (False, True, "x"),
    "hidden_act": ("evil", "torch.load", "gelu_new", 5, None, ["gelu"]),
    "position_embedding_type": ("relative_key", "evil"),
    "rope_scaling": ({"rope_type": "evil"}, {"rope_type": "linear", "factor": 10**9}, {"type": "yarn"}, [], 5),
    "rope_parameters": ({"rope_theta": 0}, {"rope_theta": float("nan")}, {"rope_type": "x"}),
    "layer_types": (["x"], ["full_attention"] * 5, "x"),
    "pruned_heads": ({"0": [0]}, {"0": [10**9]}),
    "chunk_size_feed_forward": (7, -1),
    "pad_token_id": (-1, 10**9, 63, "x"),
    "to_dict": (5,),
    "self": (1,),
    "__class__": ("x",),
    "_auto_class": ("x",),
}  # fmt: skip


def _settings(place: Path) -> dict[str, Any]:
    found = json.loads((place / "config.json").read_text())
    if not isinstance(found, dict):
        raise KeyError("no table any more")
    return found


def _write(place: Path, settings: Any) -> None:
    (place / "config.json").write_text(json.dumps(settings))


def choosing(place: Path, home: Home, draw: Draw) -> None:
    """Settings that would choose code or files, with the files that they name."""
    settings = _settings(place)
    for key in draw.sample(sorted(CHOOSING), k=draw.choice((1, 1, 2, 4))):
        settings[key] = draw.choice(CHOOSING[key])
    _write(place, settings)
    (place / "evil.py").write_text(f"open({str(home.outside / 'ran')!r}, 'w')\nclass C: pass\nclass M: pass\n")
    for name in ("adapter_model.bin", "pytorch_model.bin"):
        (place / name).write_bytes(pickle.dumps(_Opens(home.outside / "ran")))
    shutil.copy(place / "model.safetensors", home.input / "x.safetensors")


class _Opens:
    """A pickle that leaves a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self.path, "w")


def sizes(place: Path, home: Home, draw: Draw) -> None:
    """Numbers of the settings made odd."""
    settings = _settings(place)
    numbers = [key for key, value in settings.items() if isinstance(value, int | float) and not isinstance(value, bool)]
    for key in draw.sample(numbers, k=min(len(numbers), draw.choice((1, 1, 2, 3)))):
        settings[key] = draw.choice(ODD)
    _write(place, settings)


def anything(place: Path, home: Home, draw: Draw) -> None:
    """Any setting made anything, or gone."""
    settings = _settings(place)
    for key in draw.sample(sorted(settings), k=draw.choice((1, 2, 5))):
        if draw.random() < 0.2:
            del settings[key]
        else:
            settings[key] = draw.choice(ODD)
    settings[draw.choice(("num_labels", "pruned_heads", "\x1b", "head_dim", "cache", "x" * 1000))] = draw.choice(ODD)
    _write(place, settings)


def raw_config(place: Path, home: Home, draw: Draw) -> None:
    """A config.json that is no table, or none that can be read."""
    text = (place / "config.json").read_text()
    contents: list[bytes] = [
        b"", b"[]", b"5", b'"x"', b"null", b"{", text.encode()[: draw.randrange(len(text))], b"\xff" + text.encode(),
        b"\xef\xbb\xbf" + text.encode(), text.encode("utf-16"), b'{"a":' * 100_000, b"[" * 100_000 + b"]" * 100_000,
        text.encode().replace(b"}", b', "hidden_size": 1, "hidden_size": NaN}', 1), b'{"a": ' + b"9" * 6000 + b"}",
        bytes(1000), text.encode() * 2, b" " * 11_000_000 + text.encode(),
    ]  # fmt: skip
    (place / "config.json").write_bytes(draw.choice(contents))


def linked(place: Path, home: Home, draw: Draw) -> None:
    """Links to foreign files, to themselves and to nowhere; pipes and folders in the place of files."""
    path = place / draw.choice(("config.json", "tokenizer.json", "model.safetensors", "1_Pooling", "modules.json"))
    kept = home.input / f"kept-{path.name}"
    if path.exists():
        path.rename(kept)
    draw.choice(
        [
            lambda: path.symlink_to(home.decoy),
            lambda: path.symlink_to("/dev/zero"),
            lambda: path.symlink_to(path),
            lambda: path.symlink_to("nowhere"),
            lambda: path.symlink_to(Path("..", kept.name)),
            lambda: os.mkfifo(path),
            lambda: path.mkdir(),
            lambda: None,
        ]
    )()


def truncated(place: Path, home: Home, draw: Draw) -> None:
    """Files cut short, filled up, or with bytes changed."""
    path = place / draw.choice(("tokenizer.json", "model.safetensors", "model.safetensors", "config.json"))
    content = bytearray(path.read_bytes())
    how = draw.randrange(4)
    if how == 0:
        content = content[: draw.randrange(len(content))]
    elif how == 1:
        content += bytes(draw.randrange(1, 1000))
    else:
        for _ in range(draw.choice((1, 10, 200))):
            content[draw.randrange(min(len(content), 4000 if how == 2 else len(content)))] = draw.randrange(256)
    path.write_bytes(content)


def headers(place: Path, home: Home, draw: Draw) -> None:
    """safetensors whose header lies."""
    path = place / "model.safetensors"
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    name = draw.choice(sorted(header))
    shape = draw.choice(([10**9, 10**9], [0, 10**18], [-1], [2**63], [], [1] * 1000, "x", [16.5]))
    offsets = draw.choice(([0, 2**62], [5, 1], [0, 0], [-1, 4], "x"))
    said = draw.choice(
        [
            {**header, name: {"dtype": "F32", "shape": shape, "data_offsets": [0, 4]}},
            {**header, name: {"dtype": "F32", "shape": [1], "data_offsets": offsets}},
            {
                **header,
                name: {"dtype": draw.choice(("F8_E4M3", "X", "BOOL", "I64", "")), "shape": [1], "data_offsets": [0, 4]},
            },
            {**header, "__metadata__": {"format": draw.choice(("tf", "evil", "pt"))}},
            {"a" * 100_000: header.get(name, {})},
            {},
        ]
    )
    text = json.dumps(said).encode()
    stated = draw.choice((len(text), len(text), 2**63, 99_000_000, 0, len(text) - 5))
    path.write_bytes(struct.pack("<Q", stated) + text + data)


def swapped(place: Path, home: Home, draw: Draw) -> None:
    """Files of another model, tensors renamed, reshaped, of another type, or gone."""
    other = _saved(draw.choice(FAMILIES))
    how = draw.randrange(4)
    if how == 0:
        name = draw.choice(("model.safetensors", "tokenizer.json", "config.json"))
        shutil.copy(other / name, place / name)
        return
    tensors = load_file(place / "model.safetensors")
    for name in draw.sample(sorted(tensors), k=min(len(tensors), draw.choice((1, 3)))):
        tensor = tensors.pop(name)
        if how == 1:
            tensors[draw.choice(("x", f"model.{name}", f"{name}.0", "\x1b", name.upper()))] = tensor
        elif how == 2:
            kinds = (torch.int8, torch.float16, torch.bfloat16, torch.float64, torch.bool, torch.complex64)
            tensors[name] = tensor.to(draw.choice(kinds))
        else:
            shapes = (
                tensor.mT.contiguous() if tensor.ndim > 1 else -tensor,
                tensor[:0].clone(),
                tensor.flatten(),
                tensor[None],
                tensor * float("nan"),
            )
            tensors[name] = draw.choice(shapes)
    save_file(tensors, place / "model.safetensors", {"format": "pt"})


def sharded(place: Path, home: Home, draw: Draw) -> None:
    """Shards with an index that points elsewhere, or is no index."""
    weights = place / "model.safetensors"
    names = list(load_file(weights))
    shutil.copy(weights, home.outside / "x.safetensors")
    weights.rename(place / "shard.safetensors")
    where = draw.choice(
        (
            "shard.safetensors", "../../outside/x.safetensors", str(home.outside / "x.safetensors"), "x.bin", "", ".",
            "..", "/dev/zero", "no.safetensors", "a\0.safetensors", "\x1b.safetensors", "a" * 5000 + ".safetensors", 5,
            None, ["shard.safetensors"], "link.safetensors",
        )
    )  # fmt: skip
    if where == "link.safetensors":
        (place / where).symlink_to(draw.choice((home.decoy, home.outside / "x.safetensors", "/dev/zero")))
    index: Any = {"metadata": {"total_size": 10**18}, "weight_map": dict.fromkeys(names, where)}
    index = draw.choice((index, index, index, [], {"weight_map": []}, {"weight_map": {}}, 5))
    (place / "model.safetensors.index.json").write_text(json.dumps(index))


def tokenizers(place: Path, home: Home, draw: Draw) -> None:
    """Tokenizers whose patterns fail, whose normalisers explode, whose ids are beyond every table."""
    path = place / "tokenizer.json"
    said = json.loads(path.read_text())
    pattern = draw.choice(
        ("(a+)+$b", "(", "", "(?<=a+)b", "((a{999}){999}){999}", "(l+)+$x", "\\p{Nope}", "(?:a|b)*c|d*")
    )
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    replace = {"type": "Replace", "pattern": draw.choice(({"String": "a"}, {"Regex": pattern})), "content": "aa" * 9}
    token = {"id": draw.choice((10**9, 0, 2**32 - 1)), "content": draw.choice(("film", "", "\x1b", "a" * 9999))}
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized", "special"), False)
    single = [{"SpecialToken": {"id": "X", "type_id": 0}}, {"Sequence": {"id": draw.choice("AB"), "type_id": 0}}]
    ids = draw.choice(([10**9], [], [0] * 100_000, [1, 2]))
    known = draw.choice(({}, {"X": {"id": "X", "ids": ids, "tokens": ["X"] * len(ids)}}))
    words = {"I": draw.choice((0, 10**9)), "film": 5, "[UNK]": draw.choice((1, 2**32 - 1))}
    changes: list[dict[str, Any]] = [
        {"pre_tokenizer": split},
        {"pre_tokenizer": draw.choice(({"type": "FixedLength", "length": 0}, {"type": "X"}, None))},
        {"normalizer": {"type": "Sequence", "normalizers": [replace] * draw.choice((1, 2, 50))}},
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": draw.choice(("AAAAAA==", "/////w==", "x"))}},
        {"added_tokens": [token | flags]},
        {"post_processor": {"type": "TemplateProcessing", "single": single, "pair": single, "special_tokens": known}},
        {"post_processor": None},
        {"model": {"type": "WordLevel", "vocab": words, "unk_token": draw.choice(("[UNK]", "no"))}},
        {
            "model": {
                "type": "Unigram",
                "vocab": [["I", 0.0]] * draw.choice((0, 1, 9)),
                "unk_id": draw.choice((0, None)),
            }
        },
        {"model": {"type": "BPE", "vocab": {"I": 0}, "merges": draw.choice(([], [["I", "x"]])), "dropout": 0.5}},
        {"decoder": {"type": "Replace", "pattern": {"Regex": pattern}, "content": "x"}},
        {"truncation": {"direction": "Right", "max_length": 0, "strategy": "LongestFirst", "stride": 9}},
        {"version": 5},
    ]
    path.write_text(json.dumps(said | draw.choice(changes)))


def beside(place: Path, home: Home, draw: Draw) -> None:
    """Files beside the model that other readers would follow."""
    (place / "adapter_config.json").write_text('{"base_model_name_or_path": "../../outside", "peft_type": "LORA"}')
    (place / "generation_config.json").write_text(draw.choice(("{", '{"custom_generate": "evil"}', "[]")))
    (place / "tokenizer_config.json").write_text('{"auto_map": {"AutoTokenizer": ["evil.T", null]}}')
    (place / "1_Pooling").mkdir()
    pooling = draw.choice(
        ('{"pooling_mode": "evil"}', "[]", "{", '{"pooling_mode_mean_tokens": true}', '{"pooling_mode": 5}')
    )
    (place / "1_Pooling" / "config.json").write_text(pooling)
    parts = (
        '[{"type": "x.Transformer", "path": "../../outside"}]',
        "5",
        '[{"type": "evil.Dense"}]',
        '[{"path": 5}]',
        "{}",
    )
    (place / "modules.json").write_text(draw.choice(parts))
    if draw.random() < 0.3:
        (place / "config.json").unlink()


# In the order in which they are applied: what makes files unreadable comes last.
SPOILS: dict[str, Spoil] = {
    each.__name__.replace("_", " "): each
    for each in (
        choosing, sizes, anything, tokenizers, swapped, headers, sharded, beside, truncated, raw_config, linked
    )
}  # fmt: skip
