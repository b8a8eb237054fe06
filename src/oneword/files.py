"""Files that are whole or not there."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from oneword.errors import FileFormatError


def write_whole(path: Path, content: bytes) -> None:
    """All of the file or none of it: written beside, then renamed. The umask decides who may read it."""
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
    """The same for a plain file, with the system's own error: FileNotFoundError if somebody removed what it wrote."""
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
