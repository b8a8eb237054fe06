"""The folder of a model: its configuration, tokenizer and tensors, read without running any code of its own.

Only safetensors are read, never a pickle: tensors.py says from which files, settings.py what is taken from config.json,
tokenizer_files.py how tokenizer.json is tried out. `locate` finds the folder of a model by its name: the embedded one,
a folder on this machine, or a hub.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from oneword.checks import printable, shortened, shown
from oneword.errors import FileFormatError, RangeError
from oneword.files import read_regular
from oneword.text import cache, sources, tokenizer_files
from oneword.text.settings import checked_settings, read_json, unreadable
from oneword.text.sources import EMBEDDED_ENCODER, MINILM
from oneword.text.tensors import INDEX, StoredTensors, check_regular

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
            inside = (path / inner).resolve().is_relative_to(path.resolve())
        except (KeyError, TypeError, ValueError, OSError, StopIteration) as error:
            raise unreadable(path / _MODULES, error) from None
        if not inside:
            got = f"the path {shown(inner)} in {_MODULES}"
            raise FileFormatError(f"expected a model inside of {shown(path.name)}, got {got}: keep it in one folder")
        return cls(path / inner)

    @property
    def name(self) -> str:
        """For messages."""
        return shortened(printable(self.path.name))

    @property
    def stamp(self) -> tuple[tuple[int, int], ...]:
        """What tells that the files changed."""
        more = [path for path in (self.path / POOLING, self.path / _MODULES, self.path / INDEX) if path.is_file()]
        files = [*self._files, *more]
        for path in files:
            check_regular(path)
        return tuple((path.stat().st_mtime_ns, path.stat().st_size) for path in files)

    @property
    def fingerprint(self) -> str:
        """A version for a folder that has none: what is in its files."""
        try:
            return "sha256:" + cache.digest(*map(file_digest, self._files))[:16]
        except OSError as error:
            raise unreadable(self.path / "files", error) from None

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
            got = f"{type(config).__name__}: save the model again with save_pretrained(…)"
            raise FileFormatError(f"expected a table in config.json of {self.name}, got {got}")
        return config

    def settings(self, known: Callable[[str], bool]) -> dict[str, Any]:
        """The configuration that may be passed on to a model that knows these settings: see settings.py."""
        return checked_settings(self.config, self.tensors.largest, self.name, known)

    @cached_property
    def tensors(self) -> StoredTensors:
        return StoredTensors(self.path)

    def setting(self, key: str, default: float | None = None) -> float:
        """A number of the configuration."""
        value = self.config.get(key)
        if value is None and default is not None:
            return default
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise FileFormatError(f"expected a number as {key} in config.json of {self.name}, got {shown(value)}")
        return value

    def size(self, key: str) -> int:
        """A whole number of at least 1 of the configuration."""
        value = self.setting(key)
        if value < 1 or value != int(value):
            wanted = f"a whole number of at least 1 as {key}"
            raise FileFormatError(f"expected {wanted} in config.json of {self.name}, got {shown(value)}")
        return int(value)

    def tokenizer(self) -> Tokenizer:
        """As published, but it neither truncates nor pads; it was tried on a few texts."""
        path = self.path / "tokenizer.json"
        try:
            return tokenizer_files.parsed_tokenizer(read_regular(path, tokenizer_files.MOST_BYTES))
        except Exception as error:  # the library raises Exception itself
            raise unreadable(path, error) from None

    def tensor(self, name: str, prefixes: Iterable[str]) -> Tensor:
        """One tensor as it is stored, under the first of the names it may have that is there."""
        spellings = [name, *(name.replace(new, old) for new, old in _OLD_NAMES.items())]
        names = [prefix + spelling for prefix in prefixes for spelling in spellings]
        found = next((each for each in names if each in self.tensors.places), None)
        if found is None:
            kind = shortened(printable(str(self.config.get("model_type"))))
            got = f"no such tensor in {self.name}: save the whole model with save_pretrained(…)"
            raise FileFormatError(f"expected a {kind} model with {name}, got {got}")
        tensor = self.tensors.read(found)
        if tensor.dtype not in _DTYPES:
            remedy = "take weights not quantised"
            raise FileFormatError(f"expected {name} in floating point, got {tensor.dtype} in {self.name}: {remedy}")
        return tensor

    @property
    def _files(self) -> list[Path]:
        return [path for pattern in FILES for path in sorted(self.path.glob(pattern))]


def file_digest(path: Path) -> str:
    """sha256 of a file, which may be larger than the memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
        raise RangeError(f"expected revision= with a hub name only, got it with {shown(name)}: leave it out")
    if embedded:
        return Located(ModelFolder(MINILM.folder() / "model"), EMBEDDED_ENCODER, f"{MINILM.name} {MINILM.version}")
    if path is not None:
        return Located(ModelFolder.at(path), path.name, None) if path.is_dir() else path
    sources.check_hub_name(name, kinds)
    folder = ModelFolder(sources.download(name, revision, FILES, _REMEDY, (POOLING, INDEX)))
    return Located(folder, name, folder.name)  # the hub names the folder by the commit
