"""The kinds of cells, in one registry; `run_cell` does the work of any of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import pandas as pd
import pyarrow as pa

from oneword.errors import FileFormatError, UnknownNameError, did_you_mean
from oneword.experiments.cell import Cell, choice
from oneword.experiments.cells.attention_map import AttentionMapCell
from oneword.experiments.cells.learning import LearningCell
from oneword.experiments.cells.review import ReviewCell
from oneword.experiments.cells.sensitivity import SensitivityCell
from oneword.experiments.cells.trained import TrainedCell
from oneword.experiments.table import table_of, to_pandas
from oneword.experiments.threads import one_thread

__all__ = [
    "KINDS",
    "AttentionMapCell",
    "Cell",
    "LearningCell",
    "ReviewCell",
    "SensitivityCell",
    "TrainedCell",
    "do_cell",
    "from_dict",
    "run_cell",
]

KINDS: dict[str, type[Cell]] = {
    kind.kind: kind for kind in (SensitivityCell, LearningCell, ReviewCell, AttentionMapCell, TrainedCell)
}


def from_dict(spec: Mapping[str, Any]) -> Cell:
    """The cell that `to_dict` described."""
    given = dict(spec)
    kind = KINDS[choice("kind", given.pop("kind", None), KINDS)]
    known = [field.name for field in fields(kind)]
    for name in given:
        if name not in known:
            raise UnknownNameError(f"expected fields of a {kind.kind} cell, got {name!r}{did_you_mean(name, known)}")
    try:
        return kind(**given)
    except TypeError as error:  # a field without a default is missing
        raise FileFormatError(f"expected a whole {kind.kind} cell, got one that is incomplete ({error})") from None


def do_cell(cell: Cell) -> pa.Table:
    """The rows of a cell: a pure function of its spec, on one thread."""
    with one_thread():
        rows = cell.rows()
    return table_of([{"kind": cell.kind, "key": cell.key, "row": row, **values} for row, values in enumerate(rows)])


def run_cell(cell: Cell) -> pd.DataFrame:
    """The same as a data frame."""
    return to_pandas(do_cell(cell))
