"""The folder of a model: its configuration, tokenizer and tensors, read without running any code of its own.

Only safetensors are read, never a pickle. Weights may be one file or several shards. `locate` finds the folder of a
model by its name: the embedded one, a folder on this machine, or a hub.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer
from torch import Tensor

from oneword.checks import first_line, shown
from oneword.errors import FileFormatError, RangeError
from oneword.text import cache, sources
from oneword.text.sources import EMBEDDED_ENCODER, MINILM

FILES = ("config.json", "tokenizer.json", "*.safetensors")
POOLING = "1_Pooling/config.json"  # … and there how it makes one vector of a text
_MODULES = "modules.json"  # sentence-transformers says there which subfolder holds the model
# Checkpoints made before LayerNorm was part of torch, bert-base-uncased among them, use the names of the formula.
_OLD_NAMES = {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"}
_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
_NAMES = ("minilm", EMBEDDED_ENCODER.lower())
_REMEDY = "give the folder of a model on this machine, or 'minilm'"


@dataclass(frozen=True)
class ModelFolder:
    """A folder with config.json, tokenizer.json and *.safetensors."""

    path: Path

    @classmethod
    def at(cls, path: Path) -> ModelFolder:
        """The folder itself, or where a sentence-transformers folder keeps its model."""
        if (path / "config.json").exists() or not (path / _MODULES).exists():
            return cls(path)
        try:
            modules = read_json(path / _MODULES)
            inner = next(str(part["path"]) for part in modules if str(part["type"]).endswith("Transformer"))
        except (KeyError, TypeError, StopIteration) as error:
            raise unreadable(path / _MODULES, error) from None
        if not (path / inner).resolve().is_relative_to(path.resolve()):
            raise FileFormatError(f"expected a model inside of {path.name}, got the path {inner!r} in {_MODULES}")
        return cls(path / inner)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def stamp(self) -> tuple[tuple[int, int], ...]:
        """What tells that the files changed."""
        said = [path for path in (self.path / POOLING, self.path / _MODULES) if path.is_file()]
        return tuple((path.stat().st_mtime_ns, path.stat().st_size) for path in [*self._files, *said])

    @property
    def fingerprint(self) -> str:
        """A version for a folder that has none: what is in its files."""
        return "sha256:" + cache.digest(*map(file_digest, self._files))[:16]

    def check_files(self) -> None:
        """Refuse a folder in which something is missing, and say what to do."""
        missing = [pattern for pattern in FILES if not any(self.path.glob(pattern))]
        pickled = [path.name for suffix in ("bin", "pt", "ckpt") for path in sorted(self.path.glob(f"*.{suffix}"))]
        if "*.safetensors" in missing and pickled:
            got = f"{pickled[0]}, a pickle, which is never read"
            remedy = "convert it with save_pretrained(…, safe_serialization=True)"
            raise FileFormatError(f"expected weights as *.safetensors in {self.name}, got {got}: {remedy}")
        if missing:
            remedy = "save the model and its fast tokenizer there with save_pretrained(…)"
            got = f"no {', no '.join(missing)}: {remedy}"
            raise FileFormatError(f"expected {', '.join(FILES)} in {self.name}, got {got}")

    @cached_property
    def config(self) -> Mapping[str, Any]:
        config = read_json(self.path / "config.json")
        if not isinstance(config, dict):
            raise FileFormatError(f"expected a table in config.json of {self.name}, got {type(config).__name__}")
        return config

    def setting(self, key: str, default: float | None = None) -> float:
        """A number of the configuration."""
        value = self.config.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise FileFormatError(f"expected a number as {key} in config.json of {self.name}, got {value!r}")
        return value

    def size(self, key: str) -> int:
        """A whole number of at least 1 of the configuration."""
        value = self.setting(key)
        if value < 1 or value != int(value):
            wanted = f"a whole number of at least 1 as {key}"
            raise FileFormatError(f"expected {wanted} in config.json of {self.name}, got {value!r}")
        return int(value)

    def tokenizer(self) -> Tokenizer:
        """As published, but it neither truncates nor pads."""
        try:
            tokenizer = Tokenizer.from_file(str(self.path / "tokenizer.json"))
        except Exception as error:  # the library raises Exception itself
            raise unreadable(self.path / "tokenizer.json", error) from None
        return unlimited(tokenizer)

    def tensor(self, name: str, prefixes: Iterable[str]) -> Tensor:
        """One tensor as it is stored, under the first of the names it may have that is there."""
        spellings = [name, *(name.replace(new, old) for new, old in _OLD_NAMES.items())]
        names = [prefix + spelling for prefix in prefixes for spelling in spellings]
        found = next((each for each in names if each in self._places), None)
        if found is None:
            kind = self.config.get("model_type")
            raise FileFormatError(f"expected a {kind} model with {name}, got no such tensor in {self.name}")
        with safe_open(self._places[found], framework="pt") as file:
            tensor: Tensor = file.get_tensor(found)
        if tensor.dtype not in _DTYPES:
            remedy = "take weights not quantised"
            raise FileFormatError(f"expected {name} in floating point, got {tensor.dtype} in {self.name}: {remedy}")
        return tensor

    @cached_property
    def _places(self) -> dict[str, Path]:
        """In which file each tensor is."""
        places: dict[str, Path] = {}
        for path in sorted(self.path.glob("*.safetensors")):
            try:
                with safe_open(path, framework="pt") as file:
                    places |= dict.fromkeys(file.keys(), path)
            except (OSError, SafetensorError) as error:
                raise unreadable(path, error) from None
        return places

    @property
    def _files(self) -> list[Path]:
        return [path for pattern in FILES for path in sorted(self.path.glob(pattern))]


def file_digest(path: Path) -> str:
    """sha256 of a file, which may be larger than the memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def unlimited(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer itself, so changed that it neither truncates nor pads."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def read_json(path: Path) -> Any:
    """The content of a JSON file. Raises FileFormatError if it cannot be read."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None


def unreadable(path: Path, error: Exception) -> FileFormatError:
    """What a reader raised, in one line."""
    return FileFormatError(
        f"expected a readable {path.name} in {path.parent.name}, got {type(error).__name__}: {first_line(error)}"
    )


@dataclass(frozen=True)
class Located:
    """A model's folder, its name in results, and its version; None where only its files can tell."""

    folder: ModelFolder
    name: str
    revision: str | None


def locate(name: object, revision: str | None, kinds: str) -> Located | Path:
    """The model of this name, or the file, if it names one. `kinds` are what it could have been, for the message."""
    if not isinstance(name, str | Path):
        raise FileFormatError(f"expected {kinds}, or a hub name, got {shown(name)}: give one as a string")
    name, path = str(name), sources.on_disk(name)
    embedded = name.lower() in _NAMES
    if revision is not None and (embedded or path is not None):
        raise RangeError(f"expected revision= with a hub name only, got it with {name!r}: leave it out")
    if embedded:
        return Located(ModelFolder(MINILM.folder() / "model"), EMBEDDED_ENCODER, f"{MINILM.name} {MINILM.version}")
    if path is not None:
        return Located(ModelFolder.at(path), path.name, None) if path.is_dir() else path
    sources.check_hub_name(name, kinds)
    folder = ModelFolder(sources.download(name, revision, FILES, _REMEDY, (POOLING,)))
    return Located(folder, name, folder.name)  # the hub names the folder by the commit
