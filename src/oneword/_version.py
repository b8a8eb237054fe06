"""The version of oneword, and those of the packages that results depend on."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version

__version__ = "0.1.0"


def installed(package: str) -> str | None:
    """The version of an installed package; None if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def versions(*packages: str) -> dict[str, str]:
    """The versions of oneword, of these packages, which must be installed, and of Python: what a result records."""
    return {"oneword": __version__, **{name: _of(name) for name in packages}, "python": platform.python_version()}


@cache
def _of(package: str) -> str:
    """Read once: parsing the metadata of four packages takes as long as measuring a short text."""
    return version(package)
