"""What measurements add up to: rows of the table of words, and the table made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from oneword.report.words.table import RANKED, Subject, WordTable, words_frame
from oneword.result import Sensitivity

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
    results: dict[str, Sensitivity] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def __add__(self, more: Measured) -> Measured:
        known = {(subject.text, subject.by) for subject in self.subjects}
        return Measured(
            self.words + more.words,
            self.replacements + more.replacements,
            self.layers + more.layers,
            self.heads + more.heads,
            self.joint + more.joint,
            self.subjects + [each for each in more.subjects if (each.text, each.by) not in known],
            self.results | more.results,
            self.notes + more.notes,
        )

    def table(self, texts: Sequence[str], notes: Sequence[str], about: Mapping[str, Any]) -> WordTable:
        """All of it as one table."""
        return WordTable(
            tuple(texts),
            words_frame(self.words),
            pd.DataFrame(self.replacements, columns=RANKED),
            pd.DataFrame(self.layers),
            pd.DataFrame(self.heads),
            pd.DataFrame(self.joint),
            tuple(sorted(self.subjects, key=lambda subject: subject.text)),
            tuple(dict.fromkeys([*notes, *self.notes])),
            dict(about),
            self.results,
        )


def joint_row(found: Sensitivity, text: int, by: str, seed: int | None) -> dict[str, Any]:
    """Several words changed at once."""
    return {
        "text": text,
        "by": by,
        "seed": seed,
        "positions": list(found.positions),
        "word": found.word,
        "value": found.value,
        "upper": found.upper,
        "baseline": found.baseline,
    }
