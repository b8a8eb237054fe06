"""Maps of one's own in experiments: an object, a factory, or the place of one ("package.module:factory").

The key of a cell holds a fingerprint of such a map: a hash of its code as it is loaded (functions, classes and what
they refer to, without line numbers and comments) and of its parameters. After an edit the cells are therefore done
again, and a run that goes on never returns results of an earlier version. Code of the standard library, of torch,
numpy, scipy and of this package counts by its name alone.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import secrets
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from oneword.checks import described, shown
from oneword.errors import OnewordError, RangeError, UnknownNameError
from oneword.maps import registry
from oneword.maps.base import FeatureMap

Factory = Callable[[int, int, int], FeatureMap]  # (n, d, seed) → φ
MapLike = str | FeatureMap | Factory
SESSION = "session-"  # begins the fingerprint of a map that cannot be hashed: it is measured anew every time

_BY_NAME = {"oneword", "torch", "numpy", "scipy", *sys.stdlib_module_names} - {"__main__"}
_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(...), torch.dtype, torch.device, np.generic)
_NOT_HASHED = {
    "__dict__", "__weakref__", "__doc__", "__module__", "__abstractmethods__", "_abc_impl", "__annotations__",
    "__firstlineno__", "__static_attributes__", "__slotnames__", "__annotate_func__", "__annotations_cache__",
}  # fmt: skip


@dataclass(frozen=True)
class OwnMap:
    """A map that is not in the registry.

    | field | meaning |
    |---|---|
    | `name` | what the column `map` of a table says |
    | `fingerprint` | a hash of its code and parameters |
    | `made_from` | a FeatureMap, or a factory (n, d, seed) → FeatureMap; None if read back from a file of results |
    """

    name: str
    fingerprint: str
    made_from: FeatureMap | Factory | None = field(default=None, compare=False, repr=False)

    def draw(self, n: int, d: int, seed: int) -> FeatureMap:
        """The map for texts of n words of dimension d; a map that was given as an object is the same for all."""
        if isinstance(self.made_from, FeatureMap):
            return self.made_from
        assert self.made_from is not None
        phi = self.made_from(n, d, seed)
        if not isinstance(phi, FeatureMap):
            raise RangeError(f"expected a FeatureMap from the factory {self.name}, got {shown(phi)}: return one")
        return phi

    def check_unchanged(self) -> None:
        """Raise RangeError if the code in this process is not that of the process which made this OwnMap."""
        importable = inspect.getmodule(self.made_from) is not None and _module_of(self.made_from) != "__main__"
        if importable and not self.fingerprint.startswith(SESSION) and fingerprint(self.made_from) != self.fingerprint:
            wanted = f"the code of {self.name} as it was loaded when the run was started"
            raise RangeError(f"expected {wanted}, got another version: start Python anew")


def resolved(maps: object, *, trust_code: bool = False) -> list[str | OwnMap]:
    """The maps of a sweep: names of the registry stay names, everything else becomes an OwnMap.

    `maps` is one map or a list of maps, or a mapping from names to maps. Raises RangeError for a place in a module
    without `trust_code`, and for two different maps of one name; UnknownNameError for a place where nothing is.
    """
    if isinstance(maps, Mapping):
        named = [(str(name), one) for name, one in maps.items()]
    else:
        several = isinstance(maps, Sequence | np.ndarray) and not isinstance(maps, str)
        named = [("", one) for one in (list(maps) if several else [maps])]  # type: ignore[call-overload]
    if not named:
        raise RangeError("expected at least one map, got none")
    out = [_resolved(name, one, trust_code) for name, one in named]
    own = [one for one in out if isinstance(one, OwnMap)]
    for one in own:
        if any(other.name == one.name and other != one for other in own):
            remedy = 'name them, as in maps={"first": …, "second": …}'
            raise RangeError(f"expected maps of different names, got two that are called {one.name!r}: {remedy}")
    return out


def _resolved(name: str, one: object, trust_code: bool) -> str | OwnMap:
    if isinstance(one, OwnMap):
        return one
    if isinstance(one, str):
        if ":" not in one:
            if name and name != one:
                raise RangeError(f"expected maps of the registry under their own names, got {name!r} for {one!r}")
            return one
        name, one = name or one.partition(":")[2], _loaded(one, trust_code)
    if not callable(one):
        raise RangeError(f"expected a name, a FeatureMap or a factory (n, d, seed) as a map, got {shown(one)}")
    if not isinstance(one, FeatureMap):
        try:
            inspect.signature(one).bind(2, 2, 0)
        except (TypeError, ValueError):
            remedy = "give a function of X as ModuleFeatures(function)"
            raise RangeError(f"expected a factory (n, d, seed) → FeatureMap, got {shown(one)}: {remedy}") from None
    name = name or str(getattr(one, "__name__", type(one).__name__))
    if name in registry.MAPS:
        raise RangeError(f"expected a name that no map of the registry has, got {name!r}: choose another")
    return OwnMap(name, fingerprint(one), one)


def _loaded(place: str, trust_code: bool) -> Any:
    if not trust_code:
        raise RangeError(f"expected trust_code = True to run the code of {place!r}, got False: set it if you trust it")
    try:
        return registry.load(place)
    except OnewordError:
        raise
    except Exception as error:  # whatever the import of somebody's module may raise
        none = f"none ({described(error)}): correct the name or the module"
        raise UnknownNameError(f"expected a factory at {place!r}, got {none}") from error


def fingerprint(made_from: object) -> str:
    """A hash of the code and the parameters of a map; random where something in it has no stable form."""
    try:
        digest = _Digest(_top(made_from))
        digest.add(made_from)
        return digest.hexdigest()
    except TypeError:
        return SESSION + secrets.token_hex(8)


def _module_of(value: object) -> str:
    return str(getattr(value, "__module__", None) or type(value).__module__)


def _top(value: object) -> str:
    """The top-level package that a value is defined in."""
    if isinstance(value, ModuleType):
        return value.__name__.partition(".")[0]
    return _module_of(value).partition(".")[0]


class _Digest:
    """Feeds values and code to a hash; what has been fed before counts by its place."""

    def __init__(self, home: str) -> None:
        self.hash = hashlib.sha256()
        self.home = home
        self.seen: dict[int, tuple[int, object]] = {}  # the object too: an id is free again when it is gone

    def hexdigest(self) -> str:
        return self.hash.hexdigest()[:16]

    def add(self, value: object) -> None:
        if isinstance(value, _PLAIN):
            self._say(type(value).__name__, repr(value))
        elif id(value) in self.seen:
            self._say("seen", self.seen[id(value)][0])
        else:
            self.seen[id(value)] = len(self.seen), value
            self._add(value)

    def _add(self, value: object) -> None:
        match value:
            case Tensor():
                self._say("tensor", value.dtype, tuple(value.shape))
                self.hash.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
            case np.ndarray() if not value.dtype.hasobject:
                self._say("array", value.dtype, value.shape)
                self.hash.update(np.ascontiguousarray(value).tobytes())
            case list() | tuple():
                self._all("list", value)
            case dict():
                self._all("dict", (part for item in value.items() for part in item))
            case set() | frozenset():
                self._all("set", sorted(value, key=repr))
            case functools.partial():
                self._all("partial", (value.func, value.args, value.keywords))
            case MethodType():
                self._all("method", (value.__func__, value.__self__))
            case staticmethod() | classmethod():
                self._all(type(value).__name__, (value.__func__,))
            case property():
                self._all("property", (value.fget, value.fset))
            case functools.cached_property():
                self._all("property", (value.func,))
            case CodeType():
                self._say("code", value.co_code, value.co_names, value.co_varnames, value.co_freevars, value.co_flags)
                self._all("constants", value.co_consts)
            case _ if not isinstance(value, ModuleType | FunctionType | BuiltinFunctionType | type):
                self._object(value)
            case _ if not self._hashed(value) or isinstance(value, BuiltinFunctionType):
                self._say("name", _module_of(value), getattr(value, "__qualname__", getattr(value, "__name__", "")))
            case FunctionType():
                self._function(value)
            case ModuleType():
                own = (part for part in vars(value).items() if _module_of(part[1]) == value.__name__)
                self._all("module", (part for item in sorted(own, key=lambda item: item[0]) for part in item))
            case type():
                parts = {name: part for name, part in vars(value).items() if name not in _NOT_HASHED}
                self._all("class", (value.__qualname__, value.__bases__, parts))

    def _function(self, function: FunctionType) -> None:
        closure = [cell.cell_contents for cell in function.__closure__ or ()]
        self._all("function", (function.__code__, function.__defaults__, function.__kwdefaults__, closure))
        for name in sorted(_names(function.__code__)):
            if name in function.__globals__:
                self._all("global", (name, function.__globals__[name]))

    def _object(self, value: object) -> None:
        if not hasattr(value, "__dict__"):
            raise TypeError(f"no stable form of {type(value).__name__}")
        self._all("object", (type(value), vars(value)))

    def _hashed(self, value: object) -> bool:
        """Whether the code of the value counts, and not its name alone: that of the map's own package always does."""
        top = _top(value)
        if top == self.home and top != "oneword":
            return True
        module = sys.modules.get(top)
        file = str(getattr(module, "__file__", None) or "")
        return top not in _BY_NAME and "site-packages" not in file and "dist-packages" not in file

    def _all(self, kind: str, parts: Iterable[object]) -> None:
        self._say(kind, "(")
        for part in parts:
            self.add(part)
        self._say(")")

    def _say(self, *words: object) -> None:
        self.hash.update(("\x1f".join(map(str, words)) + "\x1e").encode())


def _names(code: CodeType) -> set[str]:
    """The names that code looks up outside itself, also from functions inside it."""
    inner = (const for const in code.co_consts if isinstance(const, CodeType))
    return set(code.co_names).union(*(_names(each) for each in inner))
