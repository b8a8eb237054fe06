"""What becomes of a survey: the terminal, a page, tables, results in a folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from oneword.cli.common import writable_folder
from oneword.errors import RangeError

if TYPE_CHECKING:
    from oneword.result import Sensitivity
    from oneword.survey.survey import Survey

FORMAT = "oneword.words/1"


def show(found: Survey, top: int) -> None:
    """Sentence and table, in colour where the terminal has any; NO_COLOR is respected."""
    from rich.console import Console

    from oneword.report.words.terminal import WordsView

    Console(highlight=False).print(
        WordsView(found.texts, found.words, found.replacements, found.about, found.notes, top)
    )


def write_page(found: Survey, path: Path, command: str, top: int) -> None:
    from oneword.report.words.page import render

    render(found.texts, found.words, found.replacements, found.about, found.notes, path, command=command, top=top)


def to_json(found: Survey, command: str) -> dict[str, Any]:
    """Everything, ready for JSON; `words` and `replacements` open with pandas.DataFrame."""
    from oneword.report.table import to_records

    return {
        "format": FORMAT,
        "command": command,
        "about": found.about,
        "notes": list(found.notes),
        "texts": list(found.texts),
        "words": to_records(found.words),
        "replacements": to_records(found.replacements),
    }


def write_results(results: Mapping[str, Sensitivity], folder: Path, silent: bool) -> None:
    """Results and figures, one of each a map; names say more where there are more."""
    writable_folder(folder)
    for name, result in results.items():
        result.save(folder / f"{name}.json")
        figure = result.plot()
        try:
            for suffix in ("pdf", "png"):
                figure.savefig(folder / f"{name}.{suffix}")
        except OSError as error:
            raise RangeError(
                f"expected --out to name a folder that can be written, got {folder} ({error.strerror})"
            ) from None
    if not silent:
        typer.echo(f"written to {folder}: results (*.json with *.safetensors) and figures (*.pdf, *.png)")
