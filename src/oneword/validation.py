"""Check files that people write with pydantic, and report errors in one line.

class Limits(FileModel):
    auc: dict[str, float]

read_model(Limits, read_toml(path, "thresholds"), path.name)
"""

from __future__ import annotations

import json
import re
import tomllib
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from oneword.checks import one_line, shortened, shown
from oneword.errors import FileFormatError, OnewordError, RangeError, UnknownNameError, did_you_mean
from oneword.files import read_named

_LARGEST = 10_000_000  # bytes of a file that people write


_LONG_KEY = re.compile(r"(?<![\w-])(?:[\w-]++\s*+\.\s*+){64}")  # takes a parser of TOML very long


class FileModel(BaseModel):
    """Base class of file contents: no unknown keys, no conversions (the text "1" is not a number), immutable.

    A validator raises ValueError("expected …, got …: what to do"), or an OnewordError if its type matters.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Model = TypeVar("Model", bound=BaseModel)


def read_toml(file: Path | Traversable, what: str = "a TOML file") -> dict[str, Any]:
    """Read a TOML file. `what` describes the expected file in error messages.

    Raises FileFormatError if the file cannot be read, or is not TOML in UTF-8.
    """
    try:
        content = read_named(file, _LARGEST) if isinstance(file, Path) else file.read_bytes()
        text = content.decode()
        if _LONG_KEY.search(text):
            raise ValueError("a key of many parts")
        return tomllib.loads(text)
    except OSError as error:
        raise FileFormatError(f"expected {what}, got {file} ({error.strerror}): check its name") from None
    except RecursionError:
        raise FileFormatError(f"expected {what}, got {file.name} (brackets inside brackets): correct it") from None
    except ValueError as error:  # not UTF-8, or not TOML
        reason = shortened(one_line(str(error)), 200)
        raise FileFormatError(f"expected {what}, got {file.name} ({reason}): correct it") from None


def read_model(cls: type[Model], data: object, where: str) -> Model:
    """Validate `data`, the content of a file, and return it as `cls`. `where` is the name of the file.

    Raises UnknownNameError for a key that `cls` does not have, RangeError for a value that is not allowed; the
    message is one line that begins with `where`.
    """
    try:
        return cls.model_validate(data)
    except OnewordError as error:  # raised by a validator
        raise type(error)(f"{where}: {error}") from None
    except ValidationError as invalid:
        errors = invalid.errors(include_url=False)
        unknown = [error for error in errors if error["type"] == "extra_forbidden"]
        kind = UnknownNameError if unknown else RangeError  # a misspelled key is the reason why another is missing
        place, message = _said(cls, (unknown or errors)[0])
        raise kind(": ".join(filter(None, (where, place, message)))) from None


def read_schema(package: str) -> dict[str, Any]:
    """The JSON Schema of the results of a package, which it ships as schema.json."""
    found: dict[str, Any] = json.loads((files(package) / "schema.json").read_text(encoding="utf-8"))
    return found


def _said(cls: type[BaseModel], error: Any) -> tuple[str, str]:
    """The table that has an error ("" for the whole file), and the message."""
    location: tuple[str | int, ...] = error["loc"]
    place, rest = _tables(location)
    name = _name(rest)
    got = shown(error["input"])
    if error["type"] == "extra_forbidden":
        known = _known(cls, location[:-1])
        return place, f"expected {', '.join(known)}, got {shown(name)}{did_you_mean(rest[-1], known)}"
    if error["type"] == "missing":
        return place, f"expected {name}, got none: add it"
    if error["type"] == "value_error":  # of a validator, which says all itself
        return place, str(error["ctx"]["error"])
    wanted = re.sub(r"^\w+ should ", "to ", error["msg"])
    return place, f"expected {shortened(name) or 'the content'} {wanted}, got {got}: correct it"


def _tables(location: tuple[str | int, ...]) -> tuple[str, tuple[str | int, ...]]:
    """("prompt", 1, "text") is "text" in the second table [[prompt]]."""
    if len(location) > 2 and isinstance(location[1], int):
        return f"[[{location[0]}]] {location[1] + 1}", location[2:]
    return "", location


def _name(location: tuple[str | int, ...]) -> str:
    parts = [f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in location if part != "[key]"]
    return "".join(parts).removeprefix(".")


def _known(cls: type[BaseModel], location: tuple[str | int, ...]) -> list[str]:
    """The keys of the table at this location."""
    for part in location:
        if isinstance(part, str) and part in cls.model_fields:
            cls = _inner(cls.model_fields[part].annotation) or cls
    return [field.alias or name for name, field in cls.model_fields.items()]


def _inner(annotation: Any) -> type[BaseModel] | None:
    """The model in an annotation such as tuple[Model, ...]."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_inner, get_args(annotation))), None)
