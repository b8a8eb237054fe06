"""Files that are whole or not there."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from oneword.errors import FileFormatError


def write_whole(path: Path, content: bytes) -> None:
    """All of the file or none of it: written beside, then renamed."""
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            try:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())  # the name must not outlive the content, whatever happens to the machine
                os.chmod(file.name, 0o644)
                os.replace(file.name, path)
            except BaseException:  # Ctrl-C leaves nothing behind either
                os.unlink(file.name)
                raise
    except OSError as error:
        raise FileFormatError(
            f"expected a place that can be written, got {path} ({error.strerror}): choose another"
        ) from None
