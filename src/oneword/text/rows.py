"""Which rows of a table can be used: those with a text in valid Unicode and, where labels are wanted, a label."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Int8

from oneword.checks import shortened, shown
from oneword.errors import FileFormatError, TextError, UnknownNameError, did_you_mean
from oneword.text.skipped import Skipped
from oneword.text.tables import Table

NO_TEXT = "no text"  # missing, or a number or a list in its place
EMPTY_TEXT = "empty text"
BAD_UNICODE = "invalid Unicode"
NO_LABEL = "no label"
UNKNOWN_LABEL = "unknown label"

Labels = Int8[np.ndarray, " texts"]

_LINE_BREAK = re.compile(r"<br\s*/?>")
_WORDS = {"pos": 1, "positive": 1, "true": 1, "neg": -1, "negative": -1, "false": 0}
_MISSING = ("", "none", "nan", "<na>")  # as CSV, JSON, numpy and pandas write it


class Content(NamedTuple):
    """What a corpus is made of: texts, labels +1 and −1 (None: it has none), and what was left out."""

    texts: tuple[str, ...]
    labels: Labels | None
    skipped: Skipped


@dataclass(frozen=True)
class Columns:
    """The columns to read. One called `label` may be missing, as labels are optional; any other must be there."""

    text: str = "text"
    label: str | None = "label"

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise UnknownNameError(f"expected text= the name of a column, got {shown(self.text)}: give it as a string")
        if not (self.label is None or isinstance(self.label, str)):
            raise UnknownNameError(
                f"expected label= the name of a column or None, got {shown(self.label)}: give it as a string"
            )
        if self.text == self.label:
            raise UnknownNameError(
                f"expected text= and label= as two columns, got {self.text!r} for both: name another, or label=None"
            )

    @property
    def wanted(self) -> set[str]:
        return {self.text} if self.label is None else {self.text, self.label}

    def check(self, names: Sequence[str], name: str) -> None:
        """Refuse a column that the source does not have, or has twice."""
        optional = () if self.label == "label" else (("label", self.label),)
        for argument, column in (("text", self.text), *optional):
            if column is not None and column not in names:
                hint = did_you_mean(column, names)
                found = ", ".join(names) or "no column at all"
                raise UnknownNameError(
                    f"expected a column {column!r} in {name}, got {found}: name another with {argument}={hint}"
                )
        for column in self.wanted:
            if names.count(column) > 1:
                raise FileFormatError(f"expected one column {column!r} in {name}, got several: rename all but one")


def usable(table: Table, columns: Columns, name: str) -> Content:
    """The texts and labels that can be used; without any, an error with the reasons."""
    if table.names or table.places:  # JSON lines none of which could be read have no columns to miss
        columns.check(table.names, name)
    texts = table.columns.get(columns.text, ())
    words = None
    if columns.label in table.names:
        words = [_word(label) for label in table.columns[str(columns.label)]]
    signs = _signs(words or (), name)
    kept: list[int] = []
    skipped: defaultdict[str, list[int]] = defaultdict(list)
    for row, place in enumerate(table.places):
        reason = _text_trouble(texts[row]) or (None if words is None else _label_trouble(words[row], signs))
        if reason is None:
            kept.append(row)
        else:
            skipped[reason].append(place)
    total = len(table.places) + sum(map(len, table.lost.values()))
    report = Skipped.at({**table.lost, **skipped}, rows=total, unit=table.unit)
    if not kept:
        raise TextError(_nothing_left(report, name))
    labels = None if words is None else np.array([signs[words[row]] for row in kept], dtype=np.int8)
    return Content(tuple(_without_breaks(texts[row]) for row in kept), labels, report)


def _nothing_left(report: Skipped, name: str) -> str:
    if not report.rows:
        return f"expected at least one text, got none in {name}: give a file with some rows"
    remedy = "mend the file"
    if NO_LABEL in report or UNKNOWN_LABEL in report:
        remedy = "write labels as pos and neg, 1 and 0 or 1 and -1, or leave them out with label=None"
    return f"expected at least one row of {name} that can be used, got none of {report.rows:,} ({report.why}): {remedy}"


# Texts --------------------------------------------------------------------------------------------------------------


def _without_breaks(text: str) -> str:
    """Spaces for the line breaks of HTML."""
    return _LINE_BREAK.sub(" ", text)


def _text_trouble(text: object) -> str | None:
    if not isinstance(text, str):
        return NO_TEXT
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair: JSON can write it, no tokenizer can read it
        return BAD_UNICODE
    return None if _without_breaks(text).strip() else EMPTY_TEXT


# Labels -------------------------------------------------------------------------------------------------------------


def _word(label: object) -> str:
    return str(label).strip().lower()


def _label_trouble(word: str, signs: Mapping[str, int]) -> str | None:
    if word in signs:
        return None
    return NO_LABEL if word in _MISSING else UNKNOWN_LABEL


def _signs(words: Iterable[str], name: str) -> dict[str, int]:
    """What the words of a column mean, +1 or −1; those that are missing here mean neither.

    A 0 is a −1, unless there are −1s as well: then it is a third class. A number besides these makes the column a
    scale, on which a 1 may be the worst: refused, because to skip the other rows would turn its meaning round.
    """
    values = {word: _value(word) for word in set(words) - set(_MISSING)}
    scale = sorted(word for word, value in values.items() if value is not None and value not in (-1, 0, 1))
    if scale:
        raise FileFormatError(
            f"expected two labels, pos and neg, 1 and 0 or 1 and -1, got {shortened(', '.join(scale))!r} in {name}: "
            "name another column with label=, or label=None for none"
        )
    third = -1 in values.values()
    return {word: int(value) or -1 for word, value in values.items() if value is not None and (value or not third)}


def _value(word: str) -> float | None:
    """The number that a label means; None if it means none."""
    if word in _WORDS:
        return _WORDS[word]
    try:
        return float(word)
    except ValueError:
        return None
