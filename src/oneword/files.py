"""Atomic file writes."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from oneword.errors import FileFormatError


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically: beside it first, then renamed. The umask decides who may read it.

    A pipe or a device is written directly. Raises FileFormatError if the place cannot be written.
    """
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(content)  # a pipe or a device such as /dev/null, which must not be replaced by a file
        else:
            replace_whole(path, content)
    except OSError as error:
        raise FileFormatError(
            f"expected a place that can be written, got {path} ({error.strerror}): choose another"
        ) from None


def replace_whole(path: Path, content: bytes) -> None:
    """The same for a plain file. Raises OSError as the system does; FileNotFoundError if the new file was removed."""
    target = path.resolve()  # behind a link, the file that it points to
    beside = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    with beside.open("xb") as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # the name must not outlive the content, whatever happens to the machine
            os.replace(beside, target)
        except BaseException:  # Ctrl-C leaves nothing behind either
            beside.unlink(missing_ok=True)
            raise


def unfinished(folder: Path, ending: str) -> Iterator[Path]:
    """Files with this ending that are being written, or were when their process was killed."""
    return folder.glob(f".*{ending}.{'[0-9a-f]' * 16}")
