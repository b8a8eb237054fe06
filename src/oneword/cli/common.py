"""What the commands share: a progress bar with the time left, JSON to a file or the terminal, folders to write to."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oneword.errors import FileFormatError, RangeError, UnknownNameError
from oneword.files import write_whole

if TYPE_CHECKING:
    import torch
    from rich.progress import Progress

    from oneword.sup.task import Report

Seed = Annotated[int, typer.Option(help="Of the texts, the maps' weights and the search.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No tables and no progress.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the whole traceback of an error.")]
JsonFile = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write all results to one file; - is standard output.")
]


@contextmanager
def watched(silent: bool) -> Iterator[Progress | None]:
    """A bar with the time left on standard error, gone when the work is done; None where nobody watches."""
    if silent or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),  # titles are people's own, brackets included
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield bar


@contextmanager
def stages(name: str, silent: bool) -> Iterator[Report]:
    """The progress of one measurement, stage after stage."""
    with watched(silent) as bar:
        if bar is None:
            yield lambda stage, done: None
            return
        task = bar.add_task(name, total=1.0)
        stage_now = ""

        def report(stage: str, done: float) -> None:
            nonlocal stage_now
            if stage != stage_now:  # each stage has its own clock
                bar.reset(task, description=f"{name}: {stage}")
                stage_now = stage
            bar.update(task, completed=done)

        yield report


@contextmanager
def overall(silent: bool) -> Iterator[Report]:
    """The progress of many measurements as one bar, which says what it is at."""
    with watched(silent) as bar:
        if bar is None:
            yield lambda stage, done: None
            return
        task = bar.add_task("reading", total=1.0)
        yield lambda stage, done: bar.update(task, description=stage, completed=done)


def writable_folder(folder: Path) -> Path:
    """The folder, made if it is not there."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RangeError(f"expected --out to name a folder that can be made, got {folder} ({error.strerror})") from None
    return folder


def dump(data: Any, target: str) -> None:
    text = json.dumps(data, indent=1, allow_nan=False)
    if target == "-":
        typer.echo(text)
        return
    try:
        write_whole(Path(target), text.encode() + b"\n")
    except FileFormatError as error:
        raise FileFormatError(f"--json: {error}") from None


def like_of(dtype: str, device: str) -> torch.Tensor:
    """An empty tensor of that precision on that device."""
    import torch

    if dtype not in ("float64", "float32"):
        raise UnknownNameError(f"expected --dtype float64 or float32, got {dtype!r}")
    try:
        return torch.empty(0, dtype=torch.float64 if dtype == "float64" else torch.float32, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UnknownNameError(f"expected --device to name a device that is here, got {device!r} ({reason})") from None
