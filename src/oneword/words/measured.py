"""What measurements add up to: rows of the table of words, and the table made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import pandas as pd

from oneword.report.words.table import RANKED, Subject, WordTable, words_frame
from oneword.result import Sensitivity
from oneword.words.windows import Window

Rows = list[dict[str, Any]]


@dataclass(eq=False)
class Measured:
    """Rows of every table, one measurement after the other."""

    words: Rows = field(default_factory=list)
    replacements: Rows = field(default_factory=list)
    layers: Rows = field(default_factory=list)
    heads: Rows = field(default_factory=list)
    joint: Rows = field(default_factory=list)
    subjects: list[Subject] = field(default_factory=list)
    results: list[tuple[str, Sensitivity]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __add__(self, more: Measured) -> Measured:
        return Measured(*(getattr(self, each.name) + getattr(more, each.name) for each in fields(self)))

    def table(self, texts: Sequence[str], notes: Sequence[str], about: Mapping[str, Any]) -> WordTable:
        """All of it as one table; of a subject that was measured often, the first facts."""
        subjects: dict[tuple[int, str], Subject] = {}
        for each in self.subjects:
            subjects.setdefault((each.text, each.by), each)
        return WordTable(
            tuple(texts),
            words_frame(self.words),
            pd.DataFrame(self.replacements, columns=RANKED),
            pd.DataFrame(self.layers),
            pd.DataFrame(self.heads),
            pd.DataFrame(self.joint),
            tuple(sorted(subjects.values(), key=lambda subject: subject.text)),
            tuple(dict.fromkeys([*notes, *self.notes])),
            dict(about),
            dict(self.results),
        )


@dataclass(frozen=True, eq=False)
class Origin:
    """What one measurement is of, as its rows say it: words of a window, a subject, the seed of its weights."""

    window: Window
    by: str
    seed: int | None = None

    def row(self, i: int, found: Sensitivity | None, sup: Mapping[Any, Any]) -> dict[str, Any]:
        """Word i with its line of `found.per_word`, if it has one yet."""
        context = self.window.context
        start, end = context.spans[i] or (None, None)
        return self._word(i) | {
            "start": start,
            "end": end,
            "tokens": len(context.rows[i]),
            "n": context.n,
            "value": sup.get("value"),
            "upper": sup.get("upper"),
            "upper_kind": None if found is None or found.upper is None else found.upper_kind,
            "random": sup.get("baseline"),
        }

    def ranks(self, i: int, best: Iterable[tuple[str, float, float]]) -> Rows:
        """The real words that change most in the place of word i, each with its value and its distance."""
        names = ("rank", "replacement", "value", "distance")
        return [self._word(i) | dict(zip(names, (rank, *each), strict=True)) for rank, each in enumerate(best, 1)]

    def joint(self, found: Sensitivity) -> dict[str, Any]:
        """Several words changed at once."""
        known = {name: getattr(found, name) for name in ("word", "value", "upper", "baseline")}
        return {"text": self.window.text, "by": self.by, "seed": self.seed, "positions": list(found.positions)} | known

    def _word(self, i: int) -> dict[str, Any]:
        window = self.window
        word = {"position": i, "index": window.indices[i], "word": window.context.words[i]}
        return {"text": window.text, "window": window.number, **word, "by": self.by, "seed": self.seed}
