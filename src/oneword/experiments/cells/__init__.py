"""The kinds of cells, in one registry."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from oneword.errors import FileFormatError, UnknownNameError, did_you_mean
from oneword.experiments.cell import Cell, choice
from oneword.experiments.cells.chat import ChatCell
from oneword.experiments.cells.learning import LearningCell
from oneword.experiments.cells.sensitivity import ReviewCell, SensitivityCell
from oneword.experiments.cells.trained import AttentionMapCell, TrainedCell
from oneword.experiments.own_maps import OwnMap

KINDS: dict[str, type[Cell]] = {
    kind.kind: kind for kind in (SensitivityCell, LearningCell, ReviewCell, AttentionMapCell, ChatCell, TrainedCell)
}


def from_dict(spec: Mapping[str, Any]) -> Cell:
    """The cell that `to_dict` described."""
    given = dict(spec)
    kind = KINDS[choice("kind", given.pop("kind", None), KINDS)]
    known = [field.name for field in fields(kind)]
    for name in given:
        if name not in known:
            raise UnknownNameError(f"expected fields of a {kind.kind} cell, got {name!r}{did_you_mean(name, known)}")
    if isinstance(given.get("own"), str):
        given["own"] = OwnMap(given["map"], given["own"])
    try:
        return kind(**given)
    except TypeError as error:  # a field without a default is missing
        raise FileFormatError(f"expected a whole {kind.kind} cell, got one that is incomplete ({error})") from None
