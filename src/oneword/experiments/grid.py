"""From a few lists to many cells: the product of everything that was given as a list.

A key that only some cells of the grid can have (depth, k, encoder …) goes to those, and is refused if there are none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, fields
from itertools import product
from typing import Any

from oneword.errors import RangeError, UnknownNameError, did_you_mean
from oneword.experiments.cell import Cell, TextCell, whole
from oneword.experiments.cells import KINDS
from oneword.experiments.cells.sensitivity import SensitivityCell
from oneword.maps.registry import MAPS

# What a person writes, and the field of a cell it is.
_NAMES = {"maps": "map", "depth": "depths", "trials": "trial"}
_WHOLE_LISTS = ("depths", "sentences", "trainings", "objectives", "frontier")  # one value of a cell, not one cell each
TRIALS = {"sensitivity": 10}  # as many as the paper; one of any other kind


def keys(kind: str) -> list[str]:
    """What can be given for a grid of cells of this kind."""
    written = {field: name for name, field in _NAMES.items()}
    return [written.get(field.name, field.name) for field in fields(KINDS[kind])]


def grid(kind: str, given: Mapping[str, Any]) -> list[Cell]:
    """All cells of a kind, without repetitions, in the order of the lists."""
    known = keys(kind)
    for name in given:
        if name not in known:
            raise UnknownNameError(f"expected keys out of {', '.join(known)}, got {name!r}{did_you_mean(name, known)}")
    values = {_NAMES.get(name, name): _values(name, value) for name, value in given.items()}
    if issubclass(KINDS[kind], TextCell):
        values.setdefault("trial", list(range(TRIALS.get(kind, 1))))
    for name, field in zip(known, fields(KINDS[kind]), strict=True):
        if field.default is MISSING and field.name not in values:
            raise RangeError(f"expected a value or a list of {name}, got none")
    cells: dict[str, Cell] = {}
    used: set[str] = set()
    for choice in product(*values.values()):
        spec = _applicable(kind, dict(zip(values, choice, strict=True)))
        used |= set(spec)
        cell = KINDS[kind](**spec)
        cells.setdefault(cell.key, cell)
    for name in given:
        if _NAMES.get(name, name) not in used:
            raise RangeError(f"expected {name} where a map or words need it, got {given[name]!r}: leave it out")
    return list(cells.values())


def _values(name: str, value: Any) -> list[Any]:
    """The values that a key runs through."""
    if name == "trials":
        return list(range(whole("trials", value, 1)))
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
    known = MAPS.get(spec["map"])
    if known is None or not known.has_blocks:
        leave_out |= {"k", "activation"}
    if known is None or not known.has_depth:
        leave_out |= {"depths"}
    if spec.get("words_from", SensitivityCell.words_from) != "corpus":
        leave_out |= {"encoder", "corpus", "real_words"}
    return {name: value for name, value in spec.items() if name not in leave_out}
