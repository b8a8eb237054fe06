"""Atomic file writes that never follow a link, and reads that never wait at a pipe.

A folder that a person names may be a link, or lie behind one. A file that is written replaces whatever has its name,
a link included; what the link points to is not touched. The names of open descriptors, such as /dev/stdout or the
/dev/fd/63 of a shell's `>(…)`, mean these descriptors.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from oneword.errors import FileFormatError

_STANDARD = {"/dev/stdin": 0, "/dev/stdout": 1, "/dev/stderr": 2}
_DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/([0-9]{1,9})")
# A pipe opens at once, whoever is at its other end; a terminal does not become that of this process.
_AT_ONCE = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def read_regular(path: str | os.PathLike[str], most: int | None = None, *, links: bool = True) -> bytes:
    """The content of a regular file of at most `most` bytes. `links` says whether the name may be a link to it.

    Raises OSError, at once, for anything else: IsADirectoryError for a folder, FileNotFoundError for nothing. Its
    `strerror` names what is there: "a pipe, not a file".
    """
    handle = _handle(path, os.O_RDONLY | (0 if links else os.O_NOFOLLOW))
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise _no_file(about.st_mode)
        if most is not None and about.st_size > most:
            raise _too_large(most)
        return _content(handle, most)
    finally:
        os.close(handle)


def read_named(path: str | os.PathLike[str], most: int) -> bytes:
    """The same for a file that a person names, which may also be an open descriptor such as /dev/stdin."""
    descriptor = _descriptor(path)
    if descriptor is None:
        return read_regular(path, most)
    return _content(descriptor, most)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that a person names, atomically: beside it first, then renamed. The umask decides who may read it.

    An open descriptor, a pipe that somebody reads, and a device such as /dev/null are written directly. Raises
    FileFormatError if the place cannot be written.
    """
    try:
        descriptor = _descriptor(path)
        if descriptor is not None:
            _write_into(os.dup(descriptor), content)
        elif _is_stream(path):
            _write_into(_handle(path, os.O_WRONLY | os.O_NOFOLLOW), content)
        else:
            replace_whole(path, content)
    except (OSError, ValueError) as error:
        raise _cannot_write(path, error) from None


def write_own(path: Path, content: bytes) -> None:
    """The same for a file that we name, in a folder of a person's. Whatever has its name is replaced but for a folder.

    Raises FileFormatError if the place cannot be written.
    """
    try:
        replace_whole(path, content)
    except (OSError, ValueError) as error:
        raise _cannot_write(path, error) from None


def replace_whole(path: Path, content: bytes) -> None:
    """`write_own`, with errors as the system has them: OSError, FileNotFoundError if the new file was removed."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with beside.open("xb") as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # the name must not outlive the content, whatever happens to the machine
            os.replace(beside, path)
        except BaseException:  # Ctrl-C leaves nothing behind either
            with suppress(OSError):
                beside.unlink()
            raise


def make_folder(path: Path) -> Path:
    """A folder that we name, made with those above it if it is not there. It is never a link to another one.

    Raises FileFormatError if it cannot be made, or if it is a link.
    """
    expected = f"expected a folder that can be made and written, got {path}"
    if path.is_symlink():
        raise FileFormatError(f"{expected} (a link): remove it")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise FileFormatError(f"{expected} ({_reason(error)}): choose another") from None
    return path


def unfinished(folder: Path, ending: str) -> Iterator[Path]:
    """Files with this ending that are being written, or were when their process was killed."""
    return folder.glob(f".*{ending}.{'[0-9a-f]' * 16}")


def _cannot_write(path: Path, error: OSError | ValueError) -> FileFormatError:
    remedy = "make room" if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT) else "choose another"
    return FileFormatError(f"expected a place that can be written, got {path} ({_reason(error)}): {remedy}")


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _descriptor(path: str | os.PathLike[str]) -> int | None:
    """The open descriptor that a name such as /dev/stdout means; None if it means none."""
    name = os.path.abspath(path)
    found = _DESCRIPTOR.fullmatch(name)
    return int(found[1]) if found else _STANDARD.get(name)


def _is_stream(path: Path) -> bool:
    """Whether this is a pipe or a device that takes bytes one after the other; a link is neither."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return False
    if stat.S_ISDIR(mode):
        raise _no_file(mode)
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def _handle(path: str | os.PathLike[str], flags: int) -> int:
    """The open file, at once. Raises OSError alone, in words where the system's own are unclear."""
    try:
        return os.open(path, flags | _AT_ONCE)
    except ValueError as error:  # a zero byte, or what cannot be a name
        raise OSError(errno.EINVAL, str(error)) from None
    except OSError as error:
        if flags & os.O_NOFOLLOW and error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "a link, not a file") from None
        if error.errno == errno.ENXIO:
            got = "a pipe that nobody reads" if flags & os.O_WRONLY else "a socket, not a file"
            raise OSError(errno.ENXIO, got) from None
        raise


def _content(handle: int, most: int | None) -> bytes:
    with os.fdopen(handle, "rb", closefd=False) as file:
        content = file.read(-1 if most is None else most + 1)
    if most is not None and len(content) > most:
        raise _too_large(most)
    return content


def _too_large(most: int) -> OSError:
    return OSError(errno.EFBIG, f"larger than {most:,} bytes")


def _no_file(mode: int) -> OSError:
    if stat.S_ISDIR(mode):
        return IsADirectoryError(errno.EISDIR, "a folder, not a file")
    kind = "pipe" if stat.S_ISFIFO(mode) else "socket" if stat.S_ISSOCK(mode) else "device"
    return OSError(errno.EINVAL, f"a {kind}, not a file")


def _write_into(handle: int, content: bytes) -> None:
    with os.fdopen(handle, "wb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.set_blocking(handle, True)  # a reader may be slower than this
        file.write(content)
