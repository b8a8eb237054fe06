"""The result of prompts that differ in one word: its tables, files, and how it is displayed."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from oneword.report.table import to_records
from oneword.validation import read_schema

if TYPE_CHECKING:
    from rich.console import RenderableType

FORMAT = "oneword.chat/1"


@dataclass(frozen=True, eq=False, repr=False)
class Chat:
    """The result of `ow.chat.ask`: prompts, each with two words, under one model.

    Side a is the prompt with the first word, side b the same with the second. `tables` are, by name:

    | table | one row is | columns |
    |---|---|---|
    | `prompts` | a prompt | for each side: word, sent, answer, log_odds, …; flips; common: tokens that both greedy answers begin with |
    | `answers` | a side and a given answer | set 1 or 2, tokens, log_likelihood, per_token |
    | `steps` | a token of the first greedy answer | p_a, p_b: its probability; js: Jensen–Shannon divergence of the next token |
    | `attention` | a side, layer and head | weight: attention to the changed word, mean over the tokens of the answer |
    | `samples` | a side and a sampled answer | answer, ended |

    `about` names the model and the settings.
    """  # noqa: E501 (a table has one line a row)

    tables: dict[str, pd.DataFrame]
    about: dict[str, Any]
    notes: tuple[str, ...]

    @property
    def flips(self) -> pd.DataFrame:
        """One row per prompt: its words, the log-odds before and after, whether it flips, and both answers."""
        names = ["prompt", "word_a", "word_b", "log_odds_a", "log_odds_b", "flips", "answer_a", "answer_b"]
        return self.tables["prompts"][names].copy()

    def to_pandas(self) -> pd.DataFrame:
        """A copy of the table `prompts`."""
        return self.tables["prompts"].copy()

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON; each table is a list of rows, which pandas.DataFrame accepts."""
        rows = {name: to_records(table) for name, table in self.tables.items()}
        return {"format": FORMAT, "about": self.about, "notes": list(self.notes), **rows}

    @staticmethod
    def schema() -> dict[str, Any]:
        """The JSON Schema of `to_dict` and of the JSON that the command writes."""
        return read_schema("oneword.chat")

    def save_html(self, path: str | os.PathLike[str], *, command: str = "") -> Path:
        """Write a page that needs no network and no script; `command` is shown as the command that made it.

        Raises MissingExtraError without the extra `page`, FileFormatError if `path` cannot be written.
        """
        from oneword.report.chat_page import render

        return render(self.tables, self.about, self.notes, Path(path), command=command)

    def __repr__(self) -> str:
        lines = self.tables["prompts"]
        return f"Chat({len(lines)} prompts, {self.about['model']}: {int((lines['flips'] == True).sum())} flip)"  # noqa: E712

    def __rich__(self) -> RenderableType:
        from oneword.report.chat import ChatView

        return ChatView(self.tables, self.about, self.notes)

    def _repr_html_(self) -> str:
        from oneword.report.chat import notebook

        return notebook(self.tables, self.about)
