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

`[[sweep]]`, `[[learning]]`, `[[review]]`, `[[attention_map]]`, `[[chat]]` and `[[trained]]` are grids of cells; a table
that comes once may be written with single brackets. A map of one's own is "package.module:factory", which needs
`trust_code`.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from importlib.resources.abc import Traversable
from itertools import product
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationInfo, field_validator, model_validator

from oneword.checks import shown
from oneword.errors import OnewordError, RangeError, UnknownNameError, did_you_mean
from oneword.experiments.cell import Cell, TextCell, whole
from oneword.experiments.cells import KINDS
from oneword.experiments.cells.sensitivity import SensitivityCell
from oneword.experiments.own_maps import OwnMap, resolved
from oneword.maps.registry import MAPS
from oneword.validation import FileModel, read_model, read_toml

TABLES = {"sweep": "sensitivity"} | {kind: kind for kind in ("learning", "review", "attention_map", "chat", "trained")}
Tables = tuple[dict[str, Any], ...]  # their keys are those of the cells, which `grid` checks


class SpecFile(FileModel):
    """What a file may say."""

    title: str = ""
    description: str = ""
    sweep: Tables = ()
    learning: Tables = ()
    review: Tables = ()
    attention_map: Tables = ()
    chat: Tables = ()
    trained: Tables = ()

    @field_validator(*TABLES, mode="before")
    @classmethod
    def _one_or_several(cls, value: object, info: ValidationInfo) -> Tables:
        tables = value if isinstance(value, list) else [value]
        if not all(isinstance(table, dict) for table in tables):
            name = info.field_name
            raise ValueError(f"expected {name} as a table, got {shown(value)}: write [{name}] above its keys")
        return tuple(tables)

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if not any(getattr(self, name) for name in TABLES):
            known = ", ".join(f"[{name}]" for name in TABLES)
            raise ValueError(f"expected at least one table out of {known}, got none: add one")
        return self


@dataclass(frozen=True)
class Spec:
    """An experiment: what it is called, what it is for, and its cells."""

    title: str
    description: str
    cells: tuple[Cell, ...]


def load_spec(
    source: str | os.PathLike[str] | Traversable, override: Mapping[str, Any] | None = None, *, trust_code: bool = False
) -> Spec:
    """Read a file.

    | argument | meaning |
    |---|---|
    | `source` | the TOML file |
    | `override` | keys (seed, trials, encoder …) to replace in every table that has a use for them |
    | `trust_code` | whether maps such as "package.module:factory" may be imported; modules beside the file are found |

    Raises FileFormatError if the file cannot be read, UnknownNameError and RangeError for what it must not say.
    """
    file = Path(source) if isinstance(source, str | os.PathLike) else source
    said = read_model(SpecFile, read_toml(file), file.name)
    if trust_code and isinstance(file, Path) and (folder := str(file.resolve().parent)) not in sys.path:
        sys.path.insert(0, folder)
    cells: dict[str, Cell] = {}
    for name, kind in TABLES.items():
        for place, table in enumerate(getattr(said, name), 1):
            try:
                made = grid(kind, _overridden(kind, table, dict(override or {})), trust_code=trust_code)
            except OnewordError as error:
                raise type(error)(f"{file.name}: [{name}] {place}: {error}") from None
            cells |= {cell.key: cell for cell in made}
    return Spec(said.title or Path(file.name).stem, said.description, tuple(cells.values()))


def _overridden(kind: str, table: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """Where words are synthetic an encoder has no use."""
    from_corpus = kind in ("attention_map", "trained") or "corpus" in str(table.get("words_from", "gaussian"))
    useful = set(keys(kind)) - (set() if from_corpus else {"encoder", "corpus"})
    return {**table, **{name: value for name, value in override.items() if name in useful}}


# From a few lists to many cells: the product of everything that was given as a list. A key that only some cells of the
# grid can have (depth, k, encoder …) goes to those, and is refused if there are none.

# What a person writes, and the field of a cell it is.
_NAMES = {"maps": "map", "depth": "depths", "trials": "trial"}
_WHOLE_LISTS = (
    "depths",
    "sentences",
    "trainings",
    "objectives",
    "frontier",
    "words",
    "answers",
)  # one value of a cell, not one cell each
MOST_CELLS = 100_000  # of one grid
TRIALS = {"sensitivity": 10}  # as many as the paper; one of any other kind


def keys(kind: str) -> list[str]:
    """What can be given for a grid of cells of this kind."""
    return list(_written(kind))


def _written(kind: str) -> dict[str, Any]:
    """The fields of a cell, by the names that a person writes; `own` follows from `maps`."""
    names = {field: name for name, field in _NAMES.items()}
    return {names.get(field.name, field.name): field for field in fields(KINDS[kind]) if field.name != "own"}


def grid(kind: str, given: Mapping[str, Any], *, trust_code: bool = False) -> list[Cell]:
    """All cells of a kind, without repetitions, in the order of the lists.

    `trust_code` says whether maps such as "package.module:factory" may be imported.
    """
    known = keys(kind)
    for name in given:
        if name not in known:
            raise UnknownNameError(f"expected keys out of {', '.join(known)}, got {name!r}{did_you_mean(name, known)}")
    if "maps" in given and "maps" in known:
        given = {**given, "maps": resolved(given["maps"], trust_code=trust_code)}
    values = {_NAMES.get(name, name): _values(name, value) for name, value in given.items()}
    if issubclass(KINDS[kind], TextCell):
        values.setdefault("trial", list(range(TRIALS.get(kind, 1))))
    for name, field in _written(kind).items():
        if field.default is MISSING and field.name not in values:
            raise RangeError(f"expected a value or a list of {name}, got none")
    many = math.prod(map(len, values.values()))
    if many > MOST_CELLS:
        raise RangeError(f"expected at most {MOST_CELLS:,} cells in a grid, got {many:.3g}: give shorter lists")
    cells: dict[str, Cell] = {}
    used: set[str] = set()
    for choice in product(*values.values()):
        spec = _applicable(kind, dict(zip(values, choice, strict=True)))
        used |= set(spec)
        cell = KINDS[kind](**spec)
        cells.setdefault(cell.key, cell)
    for name in given:
        if _NAMES.get(name, name) not in used:
            raise RangeError(f"expected {name} where a map or words need it, got {shown(given[name])}: leave it out")
    return list(cells.values())


def _values(name: str, value: Any) -> list[Any]:
    """The values that a key runs through."""
    if name == "trials":
        return list(range(whole("trials", value, 1, MOST_CELLS)))
    value = value.tolist() if hasattr(value, "tolist") else value  # an array
    if _NAMES.get(name, name) in _WHOLE_LISTS:
        return [tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else (value,)]
    if isinstance(value, Sequence) and not isinstance(value, str):
        if not value:
            raise RangeError(f"expected at least one value of {name}, got none")
        return list(value)
    return [value]


def _applicable(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Without what this cell of the grid cannot have."""
    if not issubclass(KINDS[kind], TextCell):
        return spec
    leave_out: set[str] = set()
    if isinstance(own := spec["map"], OwnMap):
        spec = {**spec, "map": own.name, "own": own}
    known = MAPS.get(spec["map"])
    if known is None or not known.has_blocks:
        leave_out |= {"k", "activation"}
    if known is None or not known.has_depth:
        leave_out |= {"depths"}
    if spec.get("words_from", SensitivityCell.words_from) != "corpus":
        leave_out |= {"encoder", "corpus", "real_words"}
    return {name: value for name, value in spec.items() if name not in leave_out}
