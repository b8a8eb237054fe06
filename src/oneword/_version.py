"""The version of oneword, and those of the packages that results depend on."""

from __future__ import annotations

import platform
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
    return {"oneword": __version__, **{name: version(name) for name in packages}, "python": platform.python_version()}
