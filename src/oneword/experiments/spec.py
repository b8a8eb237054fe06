"""Experiments as TOML files: a title, and tables of grids.

    title = "Random features"

    [[sweep]]
    maps = ["rf", "drf"]
    n = [50, 100, 150]
    d = 192
    depth = [2, 4, 8]
    words_from = "corpus"
    trials = 10

    [[learning]]
    …

`[[sweep]]`, `[[learning]]`, `[[review]]`, `[[attention_map]]` and `[[trained]]` are grids of cells; a table that comes
once may be written with single brackets.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

from oneword.errors import FileFormatError, OnewordError, RangeError, UnknownNameError, did_you_mean
from oneword.experiments.cell import Cell
from oneword.experiments.grid import grid, keys

TABLES = {"sweep": "sensitivity"} | {kind: kind for kind in ("learning", "review", "attention_map", "trained")}
_TEXTS = ("title", "description")


@dataclass(frozen=True)
class Spec:
    """An experiment: what it is called, what it is for, and its cells."""

    title: str
    description: str
    cells: tuple[Cell, ...]


def load_spec(source: str | os.PathLike[str] | Traversable, override: Mapping[str, Any] | None = None) -> Spec:
    """Read a file. `override` replaces keys (seed, trials, encoder …) in every table that has a use for them."""
    file = Path(source) if isinstance(source, str | os.PathLike) else source
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileFormatError(f"expected a TOML file, got {file} ({error.strerror})") from None
    except ValueError as error:  # not UTF-8, or not TOML
        raise FileFormatError(f"expected a TOML file, got {file.name} ({error})") from None
    try:
        return _spec(content, dict(override or {}), default_title=Path(file.name).stem)
    except OnewordError as error:
        raise type(error)(f"{file.name}: {error}") from None


def _spec(content: Mapping[str, Any], override: Mapping[str, Any], default_title: str) -> Spec:
    known = [*_TEXTS, *TABLES]
    for name in content:
        if name not in known:
            raise UnknownNameError(f"expected {', '.join(known)}, got {name!r}{did_you_mean(name, known)}")
    for name in _TEXTS:
        if not isinstance(content.get(name, ""), str):
            raise RangeError(f"expected {name} as a text, got {content[name]!r}")
    cells: dict[str, Cell] = {}
    for name, kind in TABLES.items():
        for place, table in enumerate(_tables(name, content.get(name, [])), 1):
            try:
                made = grid(kind, _overridden(kind, table, override))
            except OnewordError as error:
                raise type(error)(f"[{name}] {place}: {error}") from None
            cells |= {cell.key: cell for cell in made}
    if not cells:
        raise RangeError(f"expected at least one table out of {', '.join(f'[{name}]' for name in TABLES)}, got none")
    return Spec(content.get("title", default_title), content.get("description", ""), tuple(cells.values()))


def _tables(name: str, value: object) -> list[dict[str, Any]]:
    tables: list[Any] = value if isinstance(value, list) else [value]
    if not all(isinstance(table, dict) for table in tables):
        raise RangeError(f"expected {name} as a table, got {value!r}: write [{name}] above its keys")
    return tables


def _overridden(kind: str, table: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """Where words are synthetic an encoder has no use."""
    from_corpus = kind in ("attention_map", "trained") or "corpus" in str(table.get("words_from", "gaussian"))
    use = {
        name: value
        for name, value in override.items()
        if name in keys(kind) and (from_corpus or name not in ("encoder", "corpus"))
    }
    return {**table, **use}
