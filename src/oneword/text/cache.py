"""Arrays on disk, addressed by what they were made from: written whole or not at all, verified when read.

The folder is $ONEWORD_CACHE, or `oneword` in the cache folder of the user, which platformdirs finds. It can be removed
at any time. It holds at most $ONEWORD_CACHE_LIMIT (2 GB): the entries that were not used for longest go first.

Processes share it without a lock. An entry appears by a rename and a file that is open outlives its name, so that
nobody reads half of one; two that make the same entry write the same arrays; one that vanishes is made again.
The folder may be a link, an entry may not: what is no regular file is replaced, and what a link points to not touched.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from platformdirs import user_cache_path

from oneword.checks import first_line
from oneword.errors import FileFormatError, RangeError
from oneword.files import read_regular, replace_whole, unfinished

if TYPE_CHECKING:
    import numpy as np

    Arrays = Mapping[str, np.ndarray]

LIMIT = 2_000_000_000  # bytes
_ENDING = ".oneword.safetensors"  # nothing else is ever counted or removed, whatever the folder holds besides
_ABANDONED = 600.0  # seconds without a byte after which nobody is writing any more
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]+)?)\s*([kmgt]?)(i?)b?", re.IGNORECASE | re.ASCII)


class Usage(NamedTuple):
    """How many files, and their bytes."""

    files: int
    bytes: int


def folder() -> Path:
    """Where the cache is; the folder may not exist yet."""
    chosen = os.environ.get("ONEWORD_CACHE")
    return Path(chosen).expanduser() if chosen else user_cache_path("oneword", appauthor=False)


def limit() -> int:
    """The bytes that the cache may hold: $ONEWORD_CACHE_LIMIT, such as 500MB, 1.5 GB, 2GiB or a number of bytes."""
    chosen = os.environ.get("ONEWORD_CACHE_LIMIT", "").strip()
    if not chosen:
        return LIMIT
    size = _SIZE.fullmatch(chosen)
    if size is None:
        raise RangeError(f"expected a size such as 500MB or 2GB in ONEWORD_CACHE_LIMIT, got {chosen!r}: set it to one")
    number, unit, binary = size.groups()
    return int(float(number) * (1024 if binary else 1000) ** " kmgt".index(unit.lower() or " "))


def usage() -> Usage:
    """What the cache holds."""
    return _total(_sizes(_entries()))


def clear() -> Usage:
    """Remove everything; returns what was removed."""
    return _removed([*_entries(), *unfinished(folder(), _ENDING)])


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
    most = limit()  # refused before anything is made
    path = folder() / f"{name}{_ENDING}"
    try:
        arrays = _read(path)
    except FileNotFoundError:
        pass
    except FileFormatError as error:
        warnings.warn(f"{error}: it is made again", stacklevel=2)
    else:
        with suppress(OSError):  # it was removed meanwhile, or belongs to somebody else
            os.utime(path, follow_symlinks=False)
        return arrays
    arrays = make()
    try:
        _write(path, arrays)
    except OSError as error:
        remedy = "set ONEWORD_CACHE to a folder that can be written"
        warnings.warn(f"nothing is cached ({error.strerror}): {remedy}", stacklevel=2)
    else:
        _make_room(most, kept=path)
    return arrays


def _write(path: Path, arrays: Arrays) -> None:
    from safetensors.numpy import save

    content = save(dict(arrays), metadata={"sha256": _checksum(arrays)})
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):  # somebody emptied the cache meanwhile: so it stays empty
        replace_whole(path, content)


def _make_room(most: int, *, kept: Path) -> None:
    """Remove what nobody finishes, then the entries that were not used for longest; never the one just written."""
    now = time.time()
    writing = _sizes(unfinished(folder(), _ENDING))
    _removed(path for path, about in writing.items() if now - about.st_mtime > _ABANDONED)
    found = _sizes(_entries())
    excess = _total(found).bytes - most
    for path in sorted(found, key=lambda path: (found[path].st_mtime_ns, path.name)):
        if excess <= 0:
            return
        if path != kept:
            _removed([path])
            excess -= found[path].st_size


def _entries() -> Iterable[Path]:
    return folder().glob(f"[!.]*{_ENDING}")


def _sizes(paths: Iterable[Path]) -> dict[Path, os.stat_result]:
    """What the system knows of those that are still there, of a link itself; folders are not ours."""
    found = {}
    for path in paths:
        with suppress(OSError):
            found[path] = path.lstat()
    return {path: about for path, about in found.items() if not stat.S_ISDIR(about.st_mode)}


def _total(found: Mapping[Path, os.stat_result]) -> Usage:
    return Usage(len(found), sum(about.st_size for about in found.values()))


def _removed(paths: Iterable[Path]) -> Usage:
    """Remove these files, and say what went. Another process may remove the same ones."""
    gone = {}
    for path, about in _sizes(paths).items():
        with suppress(OSError):
            path.unlink()
            gone[path] = about
    return _total(gone)


def _read(path: Path) -> Arrays:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        content = read_regular(path, links=False)
        arrays = load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        stored = header.get("__metadata__", {}).get("sha256")
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(path) from None
    except (OSError, ValueError, KeyError, MemoryError, SafetensorError) as error:
        reason = error.strerror if isinstance(error, OSError) else first_line(error)
        raise FileFormatError(f"expected a file of the cache, got {path.name} ({reason})") from None
    if stored != _checksum(arrays):
        raise FileFormatError(f"expected {path.name} in the cache as it was stored, got another checksum")
    return arrays


def _checksum(arrays: Arrays) -> str:
    parts: list[str | bytes] = []
    for name in sorted(arrays):
        array = arrays[name]
        parts += [name, str(array.dtype), str(array.shape), array.tobytes()]
    return digest(*parts)
