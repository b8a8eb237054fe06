"""Arrays on disk, addressed by what they were made from: written whole or not at all, verified when read.

The folder is $ONEWORD_CACHE, or `oneword` in the user's cache folder. It can be removed at any time.
"""

from __future__ import annotations

import hashlib
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from oneword.errors import FileFormatError
from oneword.files import write_whole

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray]


def folder() -> Path:
    """Where the cache lives; it may not exist yet."""
    chosen = os.environ.get("ONEWORD_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "oneword"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "oneword"


def usage() -> tuple[int, int]:
    """How many files the cache holds, and their bytes."""
    sizes = [path.stat().st_size for path in folder().glob("*.safetensors")]
    return len(sizes), sum(sizes)


def digest(*parts: str | bytes) -> str:
    """sha256 of the parts; each is preceded by its length, so that no two lists of parts look alike."""
    total = hashlib.sha256()
    for part in parts:
        content = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        total.update(len(content).to_bytes(8, "little"))
        total.update(content)
    return total.hexdigest()


def remembered(name: str, make: Callable[[], Arrays]) -> Arrays:
    """The arrays stored under `name`; made and stored if there are none, or if what is there is not what was stored."""
    path = folder() / f"{name}.safetensors"
    if path.exists():
        try:
            return _read(path)
        except FileFormatError as error:
            warnings.warn(f"{error}: it is made again", stacklevel=2)
    arrays = make()
    try:
        _write(path, arrays)
    except (OSError, FileFormatError) as error:
        reason = str(error).splitlines()[0]
        warnings.warn(f"nothing is cached ({reason}): set ONEWORD_CACHE to a folder that can be written", stacklevel=2)
    return arrays


def _write(path: Path, arrays: Arrays) -> None:
    from safetensors.numpy import save

    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, save(dict(arrays), metadata={"sha256": _checksum(arrays)}))


def _read(path: Path) -> Arrays:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="np") as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a mapping)
            stored = (file.metadata() or {}).get("sha256")
    except (OSError, ValueError, SafetensorError) as error:
        reason = str(error).splitlines()[0]
        raise FileFormatError(
            f"expected a file of the cache, got {path.name}, which cannot be read ({reason})"
        ) from None
    if stored != _checksum(arrays):
        raise FileFormatError(f"expected {path.name} in the cache as it was stored, got another checksum")
    return arrays


def _checksum(arrays: Arrays) -> str:
    parts: list[str | bytes] = []
    for name in sorted(arrays):
        array = arrays[name]
        parts += [name, str(array.dtype), str(array.shape), array.tobytes()]
    return digest(*parts)
