"""The result of an audit: its tables, files, and how it is displayed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from oneword.auditing.thresholds import junit
from oneword.files import write_whole
from oneword.report.table import to_records
from oneword.validation import read_schema

if TYPE_CHECKING:
    from rich.console import RenderableType

FORMAT = "oneword.audit/2"
TABLES = ("edits", "types", "against", "lengths", "noise", "chunks", "worst", "verdicts")


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """The result of `ow.audit`: tidy tables with a column `model`.

    | table | one row is |
    |---|---|
    | `edits` | an edit: text, length (0: whole), where, was, became, change ‖v'−v‖/‖v‖, cosine, visible, times_noise |
    | `types` | a type of edit: typical change, cosine, AUC against the noise, exponent of decay, with intervals |
    | `against` | a signal type and a noise type: AUC |
    | `lengths` | a type and length: quartiles of the change, share of texts that hear it |
    | `noise` | a length: quartiles of the change by all noise edits that move the vector |
    | `chunks` | a signal type: the longest chunk in which it is heard |
    | `worst` | an example: signals hardly noticed, noise that moves the vector most |
    | `verdicts` | a threshold: wanted, got, low, high, passed, why |

    `texts` are the texts that were edited, `notes` say what was left out, `about` holds models, settings and versions.

        >>> import oneword as ow
        >>> texts = ["It was a good film, and she is great.", "He was bad, but I would really like it."]
        >>> found = ow.audit(lambda texts: [[1, len(text)] for text in texts], texts, lengths=[8], edits=["negation"])
        >>> found.edits[["was", "became"]].drop_duplicates().to_dict("records")[0]
        {'was': '', 'became': 'not '}
        >>> found.to_dict()["format"]
        'oneword.audit/2'
    """

    texts: tuple[str, ...]
    edits: pd.DataFrame
    types: pd.DataFrame
    against: pd.DataFrame
    lengths: pd.DataFrame
    noise: pd.DataFrame
    chunks: pd.DataFrame
    worst: pd.DataFrame
    verdicts: pd.DataFrame
    notes: tuple[str, ...]
    about: dict[str, Any]

    @property
    def passed(self) -> bool:
        """Whether every threshold is met and every signal is heard."""
        return bool(self.verdicts["passed"].all())

    @property
    def tables(self) -> dict[str, pd.DataFrame]:
        """All tables by their names."""
        return {name: getattr(self, name) for name in TABLES}

    def to_pandas(self) -> pd.DataFrame:
        """A copy of `edits`: one row per edit and model."""
        return self.edits.copy()

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON; each table is a list of rows, which pandas.DataFrame accepts."""
        return {
            "format": FORMAT,
            "passed": self.passed,
            "about": self.about,
            "notes": list(self.notes),
            "texts": list(self.texts),
            **{name: to_records(table) for name, table in self.tables.items()},
        }

    @staticmethod
    def schema() -> dict[str, Any]:
        """The JSON Schema of `to_dict` and of the JSON that the command writes."""
        return read_schema("oneword.auditing")

    def save_html(self, path: str | os.PathLike[str], *, command: str = "") -> Path:
        """Write a page that needs no network and no script; `command` is shown as the command that made it.

        Raises MissingExtraError without the extra `page`, FileFormatError if `path` cannot be written.
        """
        from oneword.report.auditing_page import render

        return render(self.tables, self.about, self.notes, Path(path), command=command)

    def save_junit(self, path: str | os.PathLike[str]) -> Path:
        """Write the verdicts as JUnit XML, one test case per threshold, for a CI server."""
        write_whole(Path(path), junit(self.verdicts, self.about["seconds"]))
        return Path(path)

    def __repr__(self) -> str:
        missed = int((~self.verdicts["passed"].astype(bool)).sum())
        models = ", ".join(dict.fromkeys(self.types["model"]))
        return f"Audit({models}: {len(self.edits)} edits of {len(self.texts)} texts, {missed} verdicts missed)"

    def __rich__(self) -> RenderableType:
        from oneword.report.auditing import AuditView

        return AuditView(self.tables, self.about, self.notes)

    def _repr_html_(self) -> str:
        from oneword.report.auditing import notebook

        return notebook(self.tables, self.about)
