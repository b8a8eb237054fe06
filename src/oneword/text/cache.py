"""Arrays and models on disk, addressed by what they were made from: written whole or not at all, verified when read.

The folder is $ONEWORD_CACHE, or `oneword` in the cache folder of the user, which platformdirs finds. It can be removed
at any time. It holds at most $ONEWORD_CACHE_LIMIT (2 GB): the entries that were not used for longest go first.

An entry is a file of arrays, or the folder of a model. Processes share the cache without a lock. An entry appears by a
rename and a file that is open outlives its name, so that nobody reads half of one; two that make the same entry write
the same content; one that vanishes is made again. The folder may be a link, an entry may not: what is no regular file
is replaced, and what a link points to not touched.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import stat
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
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
# Nothing else is ever counted or removed, whatever the folder holds besides.
_ENDING = ".oneword.safetensors"
_FOLDER_ENDING = ".oneword.model"
_SUMS = "oneword.json"  # in the folder of a model: the sha256 of its files
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
    return _total(_sizes(_entries()).values())


def clear() -> Usage:
    """Remove everything; returns what was removed."""
    return _removed([*_entries(), *_being_written()])


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


def kept_folder(name: str, files: Iterable[str], make: Callable[[Path], None]) -> Path:
    """The folder of that name with these files, names relative to it; `make` writes them into an empty one if need be.

    Raises FileFormatError if there is no folder yet and the cache cannot be written.
    """
    most = limit()
    path = folder() / f"{name}{_FOLDER_ENDING}"
    try:
        _verify(path, sorted(files))
    except FileNotFoundError:
        pass
    except FileFormatError as error:
        warnings.warn(f"{error}: it is made again", stacklevel=2)
        _removed([path])
    else:
        with suppress(OSError):
            os.utime(path, follow_symlinks=False)
        return path
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        beside.mkdir(parents=True)
        make(beside)
        sums = {each: file_digest(beside / each) for each in sorted(files)}
        (beside / _SUMS).write_text(json.dumps(sums, indent=1))
        try:
            os.rename(beside, path)
        except OSError:
            if not path.is_dir():  # else another process was quicker: its folder is as good
                raise
    except OSError as error:
        got = f"{folder()} ({error.strerror})"
        remedy = "make room, or set ONEWORD_CACHE to another folder"
        raise FileFormatError(f"expected a cache that can be written, got {got}: {remedy}") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    _make_room(most, kept=path)
    return path


def file_digest(path: Path) -> str:
    """sha256 of a file, which may be larger than the memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def _sound(path: Path, stamp: tuple[tuple[int, int], ...]) -> bool:
    """Whether the files of a folder are those that were written; `stamp` changes when they do."""
    sums = json.loads(read_regular(path / _SUMS, 1 << 20, links=False))
    return all(file_digest(path / name) == said for name, said in sums.items())


def _verify(path: Path, files: Sequence[str]) -> None:
    """Raise FileNotFoundError if there is no such folder, FileFormatError if it is not what was written."""
    wrong = f"expected {path.name} in the cache as it was stored, got"
    try:
        about = [path.lstat(), *((path / name).lstat() for name in (*files, _SUMS))]
    except (FileNotFoundError, NotADirectoryError):
        if not path.is_dir():
            raise FileNotFoundError(path) from None
        raise FileFormatError(f"{wrong} it without some of its files") from None
    if not stat.S_ISDIR(about[0].st_mode) or not all(stat.S_ISREG(each.st_mode) for each in about[1:]):
        raise FileFormatError(f"{wrong} a link, a pipe or a device in it")
    try:
        if not _sound(path, tuple((each.st_mtime_ns, each.st_size) for each in about[1:])):
            raise FileFormatError(f"{wrong} another checksum")
        if sorted(json.loads((path / _SUMS).read_text())) != sorted(files):
            raise FileFormatError(f"{wrong} other files")
    except (OSError, ValueError, AttributeError) as error:
        raise FileFormatError(f"{wrong} {first_line(error)}") from None


def _write(path: Path, arrays: Arrays) -> None:
    from safetensors.numpy import save

    content = save(dict(arrays), metadata={"sha256": _checksum(arrays)})
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileNotFoundError):  # somebody emptied the cache meanwhile: so it stays empty
        replace_whole(path, content)


def _make_room(most: int, *, kept: Path) -> None:
    """Remove what nobody finishes, then the entries that were not used for longest; never the one just written."""
    now = time.time()
    _removed(path for path, size in _sizes(_being_written()).items() if now - size.used > _ABANDONED)
    found = _sizes(_entries())
    excess = _total(found.values()).bytes - most
    for path in sorted(found, key=lambda path: (found[path].used, path.name)):
        if excess <= 0:
            return
        if path != kept:
            _removed([path])
            excess -= found[path].bytes


class _Size(NamedTuple):
    files: int
    bytes: int
    used: float  # when it was last written or read


def _entries() -> list[Path]:
    return [path for ending in (_ENDING, _FOLDER_ENDING) for path in folder().glob(f"[!.]*{ending}")]


def _being_written() -> list[Path]:
    return [path for ending in (_ENDING, _FOLDER_ENDING) for path in unfinished(folder(), ending)]


def _sizes(paths: Iterable[Path]) -> dict[Path, _Size]:
    """What the system knows of those that are still there, of a link itself; folders of other names are not ours."""
    found = {}
    for path in paths:
        with suppress(OSError):
            about = path.lstat()
            inside = [about]
            if stat.S_ISDIR(about.st_mode):
                if _FOLDER_ENDING not in path.name:
                    continue
                inside = [each for file in path.rglob("*") if not stat.S_ISDIR((each := file.lstat()).st_mode)]
            used = max([about.st_mtime, *(each.st_mtime for each in inside)])
            found[path] = _Size(len(inside), sum(each.st_size for each in inside), used)
    return found


def _total(sizes: Iterable[_Size]) -> Usage:
    sizes = list(sizes)
    return Usage(sum(size.files for size in sizes), sum(size.bytes for size in sizes))


def _removed(paths: Iterable[Path]) -> Usage:
    """Remove these files and folders, and say what went. Another process may remove the same ones."""
    gone = []
    for path, size in _sizes(paths).items():
        with suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
            gone.append(size)
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
