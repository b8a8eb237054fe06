"""GGUF files: checked before any library reads them, then converted once into the folder of a model.

A GGUF file is a table of values (settings, vocabulary, chat template), a table of tensors, and their bytes. Every
count, length and offset in it is a claim, so all of them are checked against the file first: a reader that believed
them could take any amount of memory. transformers then unpacks the weights, which the cache keeps as safetensors under
the hash of the file.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import io
import json
import math
import mmap
import re
import struct
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from oneword.checks import described, one_line, printable, shortened, shown
from oneword.errors import FileFormatError
from oneword.memory import check_memory
from oneword.text import cache
from oneword.text.sources import TRANSFORMERS, Package
from oneword.text.tensors import check_regular

FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_WIDTHS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of numbers, by their type
_STRING, _ARRAY = 8, 9
_MOST = {"values": 1 << 16, "tensors": 1 << 16, "entries of a list": 1 << 22, "letters": 1 << 24}
_MOST_NUMBERS = 1 << 40  # of a tensor
_TENSOR_NAME = re.compile(rb"[\w.-]{1,128}")
_GGUF = Package("gguf", "gguf", "gguf")
_ACCELERATE = Package("accelerate", "accelerate", "gguf")


@dataclass
class _Cursor:
    """Reads a file from its beginning, and nothing outside of it."""

    content: mmap.mmap
    name: str
    at: int = 0

    def take(self, count: int, what: str) -> bytes:
        if count > len(self.content) - self.at:
            raise self.wrong(f"a file that ends within {what}")
        found = self.content[self.at : self.at + count]
        self.at += count
        return found

    def number(self, kind: str, what: str) -> int:
        (value,) = struct.unpack(f"<{kind}", self.take(struct.calcsize(kind), what))
        return int(value)

    def count(self, what: str) -> int:
        found = self.number("Q", what)
        if found > _MOST[what]:
            raise self.wrong(f"{found:,} {what}, of which there may be {_MOST[what]:,}")
        return found

    def string(self, what: str) -> bytes:
        return self.take(self.count("letters"), what)

    def value(self, kind: int, key: str) -> object:
        """A number or a string; of a list only how long it is."""
        if kind in _WIDTHS:
            return self.take(_WIDTHS[kind], key)
        if kind == _STRING:
            return self.string(key)
        if kind != _ARRAY:
            raise self.wrong(f"a value of type {kind} as {shown(key)}")
        inner, length = self.number("I", key), self.count("entries of a list")
        if inner in _WIDTHS:
            self.take(length * _WIDTHS[inner], key)
        elif inner == _STRING:
            for _ in range(length):
                self.string(key)
        else:
            raise self.wrong(f"a list of type {inner} as {shown(key)}")
        return length

    def wrong(self, got: str) -> FileFormatError:
        remedy = "download it again, or choose another file"
        return FileFormatError(f"expected a GGUF file of a model, got {got} in {self.name}: {remedy}")


@dataclass(frozen=True)
class Checked:
    """What a GGUF file says of itself, as far as it was checked."""

    architecture: str
    numbers: int  # in all tensors
    quantisations: Counter[str] = field(default_factory=Counter)


def is_gguf(path: Path) -> bool:
    """Whether a path is named as a GGUF file."""
    return path.suffix.lower() == ".gguf" and not path.is_dir()


def check(path: Path) -> Checked:
    """Raise FileFormatError unless all that a GGUF file claims lies inside of it, and its tensors can be unpacked."""
    check_regular(path)
    name = shortened(printable(path.name))
    with path.open("rb") as file:
        if path.stat().st_size < 24:
            raise FileFormatError(f"expected a GGUF file of a model, got {path.stat().st_size} bytes in {name}")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _checked(_Cursor(content, name))


def _checked(cursor: _Cursor) -> Checked:
    if cursor.take(4, "its first bytes") != _MAGIC:
        raise cursor.wrong("other first bytes")
    version = cursor.number("I", "its version")
    if version not in _VERSIONS:
        raise cursor.wrong(f"version {version}, where {' and '.join(map(str, _VERSIONS))} are known,")
    tensors, values = cursor.count("tensors"), cursor.count("values")
    said: dict[bytes, object] = {}
    for _ in range(values):
        key = cursor.string("the name of a value")
        if key in said:
            raise cursor.wrong(f"two values named {shown(key.decode(errors='replace'))}")
        said[key] = cursor.value(cursor.number("I", "a type"), key.decode(errors="replace"))
    architecture = said.get(b"general.architecture")
    if not isinstance(architecture, bytes) or not _TENSOR_NAME.fullmatch(architecture):
        raise cursor.wrong("no general.architecture")
    places = [_tensor(cursor) for _ in range(tensors)]
    twice = [name for name, count in Counter(name for name, *_ in places).items() if count > 1]
    if twice or not places:
        raise cursor.wrong(f"two tensors named {shown(twice[0])}" if twice else "no tensor")
    step = said.get(b"general.alignment")
    alignment = int.from_bytes(step, "little") if isinstance(step, bytes) and len(step) == 4 else 32
    if not 1 <= alignment <= 1 << 16:
        raise cursor.wrong(f"an alignment of {alignment}")
    begin = -(-cursor.at // alignment) * alignment
    found: Counter[str] = Counter()
    for name, numbers, kind, offset in places:
        title, size = _stored_size(cursor, name, numbers, kind)
        if begin + offset + size > len(cursor.content):
            raise cursor.wrong(f"a file that ends before the tensor {shown(name)}")
        found[title] += 1
    return Checked(architecture.decode(), sum(numbers for _, numbers, *_ in places), found)


def _tensor(cursor: _Cursor) -> tuple[str, int, int, int]:
    """Name, how many numbers it has, their type and where they are."""
    name = cursor.string("the name of a tensor")
    if not _TENSOR_NAME.fullmatch(name):
        raise cursor.wrong(f"a tensor named {shown(name.decode(errors='replace'))}")
    axes = cursor.number("I", "a tensor")
    if not 1 <= axes <= 4:
        raise cursor.wrong(f"{axes} axes of the tensor {shown(name.decode())}")
    shape = [cursor.number("Q", "a shape") for _ in range(axes)]
    if not 1 <= math.prod(shape) <= _MOST_NUMBERS:
        raise cursor.wrong(f"shape {tuple(shape)} of the tensor {shown(name.decode())}")
    return name.decode(), math.prod(shape), cursor.number("I", "a type"), cursor.number("Q", "an offset")


def _stored_size(cursor: _Cursor, name: str, numbers: int, kind: int) -> tuple[str, int]:
    """What a type is called, and how many bytes so many numbers of it take."""
    library = _GGUF.imported()
    try:
        quantisation = library.GGMLQuantizationType(kind)
        block, size = library.GGML_QUANT_SIZES[quantisation]
    except (ValueError, KeyError):
        raise cursor.wrong(f"the unknown quantisation {kind} of the tensor {shown(name)}") from None
    return str(quantisation.name), -(-numbers // block) * size


# Conversion -----------------------------------------------------------------------------------------------------------


def converted(path: Path) -> tuple[Path, str]:
    """The folder of the model that a GGUF file holds, and a version for it: made on first use, then from the cache."""
    check_regular(path)
    about = path.stat()
    version = _digest(path, about.st_mtime_ns, about.st_size)
    return cache.kept_folder(f"gguf-{version[:32]}", FILES, lambda into: _convert(path, into)), f"sha256:{version[:16]}"


@lru_cache(maxsize=16)
def _digest(path: Path, modified: int, size: int) -> str:
    return cache.file_digest(path)


def _convert(path: Path, into: Path) -> None:
    checked = check(path)
    check_memory(checked.numbers * 8, f"the weights in {shown(path.name)}")
    for needed in (TRANSFORMERS, _GGUF, _ACCELERATE):
        needed.folder()
    with _readable(path), tempfile.TemporaryDirectory(prefix="oneword-") as alone:
        (Path(alone) / "model.gguf").symlink_to(path.resolve())  # so that no other file of its folder is seen
        model, tokenizer = _read(alone)
        weights = {name: weight.detach().contiguous() for name, weight in model.state_dict().items()}
        packed = [name for name, weight in weights.items() if not weight.is_floating_point()]
        if packed:
            raise ValueError(f"{packed[0]} stays packed")
        config = json.loads(model.config.to_json_string(use_diff=False))
        tied = getattr(model.config, "tie_word_embeddings", False)
        template = getattr(tokenizer, "chat_template", None)
        words = tokenizer.backend_tokenizer.to_str()
    for key in ("quantization_config", "_name_or_path"):
        config.pop(key, None)
    config |= {"architectures": [type(model).__name__], "dtype": "float32"}
    if tied:  # the same numbers as the embeddings
        weights.pop("lm_head.weight", None)
    about = {"chat_template": template, "bos_token": tokenizer.bos_token, "eos_token": tokenizer.eos_token}
    save_file(weights, into / "model.safetensors", metadata={"format": "pt"})
    (into / "config.json").write_text(json.dumps(config, indent=1))
    (into / "tokenizer.json").write_text(words)
    (into / "tokenizer_config.json").write_text(json.dumps(about, indent=1))


def _read(folder: str) -> tuple[Any, Any]:
    """Model and tokenizer as transformers reads them; nothing is fetched, and no code of a model's own is run."""
    transformers = TRANSFORMERS.imported()
    how = {"gguf_file": "model.gguf", "local_files_only": True, "trust_remote_code": False}
    # One bar is not told to be quiet by this: it goes to standard error whatever happens.
    with quietly(transformers), redirect_stderr(io.StringIO()):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **how)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **how)
    return model, tokenizer


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Whatever a library raises at a file that looked well."""
    try:
        yield
    except (OSError, MemoryError):
        raise
    except Exception as error:
        got = shortened(printable(one_line(described(error))), 200)
        raise FileFormatError(
            f"expected a GGUF file that transformers can read, got {shown(path.name)} ({got}): choose another"
        ) from None


@contextmanager
def quietly(transformers: Any) -> Iterator[None]:
    """Without notices and bars of transformers, for which the caller has better ones."""
    logging = transformers.logging
    before, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        if bars:
            logging.enable_progress_bar()
