"""Functions that numba compiles, and the folder where it keeps them.

Numba reads compiled functions back by unpickling them, so whoever can write to that folder can run code. It is
`kernels` in the cache of the user, never a folder beside the package; it has to belong to the user, and nobody else may
write to it. $NUMBA_CACHE_DIR, which is numba's own, names another one.
"""

from __future__ import annotations

import os
import stat
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numba

from oneword.text.cache import folder

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(fastmath: frozenset[str] = frozenset()) -> Callable[[Function], Function]:
    """A function compiled by numba, kept on disk. Without a safe folder it is compiled anew in every process.

    Divisions are those of numpy, and other threads go on meanwhile. `fastmath` lists liberties with floating point.
    """

    def decorate(function: Function) -> Function:
        config: Any = numba.config
        chosen = config.CACHE_DIR
        kept = chosen or _own_folder(folder() / "kernels")
        config.CACHE_DIR = kept or ""  # numba reads it here and now; functions of other packages have their own place
        try:
            # Without liberties of its own, a function takes over those of its caller; an empty set would forbid that.
            own: dict[str, Any] = {"fastmath": set(fastmath)} if fastmath else {}
            made: Any = numba.njit(cache=bool(kept), error_model="numpy", nogil=True, **own)(function)
        finally:
            config.CACHE_DIR = chosen
        return made  # called as the function is

    return decorate


@cache
def _own_folder(path: Path) -> str | None:
    """The folder, made if need be; None, with a warning, if it is not the user's alone."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = path.lstat()
        if not stat.S_ISDIR(about.st_mode):
            reason = "it is a link: remove it"
        elif about.st_uid != os.geteuid():
            reason = "it belongs to somebody else: remove it, or set ONEWORD_CACHE to another folder"
        elif about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            reason = "others may write to it: remove it, and it is made again"
        else:
            tempfile.TemporaryFile(dir=path).close()
            return str(path)
    except OSError as error:
        reason = f"{error.strerror}: set ONEWORD_CACHE to a folder that can be written"
    warnings.warn(f"compiled functions are not kept in {path}, because {reason}", stacklevel=2)
    return None
