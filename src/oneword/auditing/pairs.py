"""Edits of your own: a table with the columns text, edited, kind (signal or noise) and, optionally, type."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import field_validator

from oneword.auditing.edits import NOISE, RULES, SIGNAL, Edit, Kind, difference
from oneword.checks import shortened, shown
from oneword.errors import FileFormatError, UnknownNameError, did_you_mean
from oneword.files import read_named
from oneword.text.tables import MOST_BYTES, SUFFIXES, Skipped, Table, parsed
from oneword.validation import FileModel, read_model

NEEDED = ("text", "edited", "kind")
OWN = {SIGNAL: "own signal", NOISE: "own noise"}  # types of pairs that name none
NO_TEXT, SAME = "text or edited is empty", "text and edited are the same"


class PairRow(FileModel):
    """One row of the table."""

    text: str
    edited: str
    kind: Kind
    type: str = ""

    @field_validator("kind", mode="before")
    @classmethod
    def _signal_or_noise(cls, value: object) -> str:
        kind = str(value).strip().lower()
        if kind not in OWN:
            raise UnknownNameError(f"expected kind signal or noise, got {shown(value)}{did_you_mean(kind, OWN)}")
        return kind

    @field_validator("type", mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> str:
        return str(value or "").strip()

    @property
    def edit(self) -> Edit:
        where = difference(self.text, self.edited)[0]
        return Edit(self.type or OWN[self.kind], self.kind, self.text, self.edited, where)


@dataclass(frozen=True)
class Pairs:
    """The pairs of a file, and the rows that could not be used."""

    name: str
    edits: tuple[Edit, ...]
    skipped: Skipped

    @classmethod
    def read(cls, path: Path) -> Pairs:
        """Read a table. Rows without a change are skipped and counted.

        Raises FileFormatError for a file that cannot be read or a type that is both signal and noise, UnknownNameError
        for another kind.
        """
        suffix = path.suffix.lower()
        if suffix not in SUFFIXES or suffix == ".txt":
            raise FileFormatError(f"expected pairs as .csv, .tsv, .jsonl or .parquet, got {path.name}: convert it")
        try:
            content = read_named(path, MOST_BYTES)
        except OSError as error:
            raise FileFormatError(f"expected a file of pairs, got {path} ({error.strerror}): check its name") from None
        table = parsed(content, suffix, {*NEEDED, "type"}, path.name)
        _check_columns(table, path.name)
        return cls(path.name, *_usable(table, path.name))

    @classmethod
    def of(cls, given: Pairs | Sequence[Edit] | str | os.PathLike[str] | None) -> Pairs:
        """Pairs as they are, the name of a table, a list of edits, or None: no pairs."""
        if isinstance(given, Pairs):
            return given
        if isinstance(given, str | os.PathLike):
            return cls.read(Path(given))
        edits = tuple(given) if isinstance(given, Iterable) else () if given is None else (given,)
        wrong = [edit for edit in edits if not isinstance(edit, Edit)]
        if wrong:
            raise FileFormatError(f"expected pairs= a file of pairs or a list of Edit, got {shown(wrong[0])}: give one")
        return cls("pairs", edits, Skipped.at({}, rows=len(edits), unit="row"))

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(edit.text for edit in self.edits))


def _check_columns(table: Table, name: str) -> None:
    missing = [column for column in NEEDED if column not in table.names]
    if missing:
        hints = "".join(did_you_mean(column, table.names) for column in missing[:1])
        raise FileFormatError(
            f"expected columns {', '.join(NEEDED)} in {name}, got no {', no '.join(missing)} among "
            f"{shortened(', '.join(table.names), 200) or 'no columns'}: rename them{hints}"
        )
    twice = [column for column in (*NEEDED, "type") if table.names.count(column) > 1]
    if twice:
        raise FileFormatError(f"expected one column {twice[0]!r} in {name}, got several: rename all but one")


def _usable(table: Table, name: str) -> tuple[tuple[Edit, ...], Skipped]:
    kinds: dict[str, Kind] = {rule.type: rule.kind for rule in RULES}
    found: list[Edit] = []
    lost: defaultdict[str, list[int]] = defaultdict(list)
    for row, place in enumerate(table.places):
        line = {column: values[row] for column, values in table.columns.items()}
        where = f"{table.unit} {place} of {name}"
        trouble = _trouble(line["text"], line["edited"])
        if trouble is not None:
            lost[trouble].append(place)
            continue
        edit = read_model(PairRow, line, where).edit
        if kinds.setdefault(edit.type, edit.kind) != edit.kind:
            raise FileFormatError(
                f"expected type {shown(edit.type)} as {kinds[edit.type]} everywhere, got {edit.kind} in {where}: "
                "rename it"
            )
        found.append(edit)
    skipped = Skipped.at({**table.lost, **lost}, rows=len(table.places) + sum(map(len, table.lost.values())),
                         unit=table.unit)  # fmt: skip
    if not found:
        why = f"none of {skipped.rows:,} ({skipped.why})" if skipped else "an empty table"
        raise FileFormatError(f"expected at least one pair in {name}, got {why}: give a text and what it became")
    return tuple(found), skipped


def _trouble(text: Any, edited: Any) -> str | None:
    if not all(isinstance(each, str) and each.strip() for each in (text, edited)):
        return NO_TEXT
    return SAME if text == edited else None
