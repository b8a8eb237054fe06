"""What the commands share: options and outputs."""

from __future__ import annotations

import io
import json
import os
import shlex
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oneword.checks import MODEL_PRECISIONS, PRECISIONS, check_precision
from oneword.errors import FileFormatError, RangeError
from oneword.files import write_whole

if TYPE_CHECKING:
    import pandas as pd
    import torch
    from rich.console import RenderableType

output_option = partial(typer.Option, rich_help_panel="Output")
Seed = Annotated[int, typer.Option(help="Of the texts, the maps' weights and the search.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No tables and no progress.")]
JsonFile = Annotated[
    str | None, output_option("--json", metavar="FILE", help="All results as JSON; - is standard output.")
]
HtmlFile = Annotated[Path | None, output_option("--html", metavar="FILE", help="A page to read and send.")]
TableFile = Annotated[Path | None, output_option("--table", metavar="FILE", help="The table as .csv or .parquet.")]
OutFolder = Annotated[
    Path | None, output_option("--out", metavar="DIR", help="Results and figures (PDF, PNG) in this folder.")
]
DTYPES = " or ".join(PRECISIONS) + "; of trained models alone, also " + " or ".join(MODEL_PRECISIONS[:2]) + "."
DType = Annotated[str | None, typer.Option("--dtype", help=DTYPES)]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda, …; certificates are computed on the CPU.")]


@dataclass(frozen=True)
class Outputs:
    """Where the results of a command go; checked before the work begins."""

    html: Path | None = None
    json: str | None = None
    table: Path | None = None
    out: Path | None = None
    quiet: bool = False

    def __post_init__(self) -> None:
        if self.html is not None:
            check_place("--html", self.html, ".html")
            from oneword.report.templating import check_installed

            check_installed()
        if self.table is not None:
            check_place("--table", self.table, ".csv", ".parquet")
        if self.json not in (None, "-"):
            check_place("--json", Path(str(self.json)))
        if self.out is not None:
            check_folder("--out", self.out)

    @property
    def silent(self) -> bool:
        """Whether nothing but JSON may be printed."""
        return self.quiet or self.json == "-"

    def show(self, result: RenderableType) -> None:
        """Print the result, unless nothing may be printed."""
        if not self.silent:
            from rich.console import Console

            Console(highlight=False).print(result)

    def write_json(self, data: Any) -> None:
        if self.json is not None:
            dump(data, self.json)

    def write_table(self, table: pd.DataFrame) -> None:
        if self.table is not None:
            write_table(table, self.table)

    def folder(self) -> Path | None:
        """The folder of `--out`, made if it is not there."""
        return None if self.out is None else writable_folder(self.out)


def check_place(option: str, path: Path, *endings: str) -> None:
    """Refuse before the work what could not be written after it."""
    if endings and path.suffix.lower() not in endings:
        raise FileFormatError(f"expected {option} with a name that ends in {' or '.join(endings)}, got {path.name}")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise FileFormatError(f"expected {option} in a folder that is there, got {path}: make the folder first")
    if path.is_dir():
        raise FileFormatError(f"expected {option} to name a file, got the folder {path}: add a name")
    written = folder if path.is_file() or not path.exists() else path  # files are replaced, pipes and devices are not
    if not os.access(written, os.W_OK):
        raise FileFormatError(f"expected {option} in a place that can be written, got {path}: choose another")


def check_folder(option: str, folder: Path) -> None:
    """The same for a folder, which need not be there yet."""
    above = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise FileFormatError(f"expected {option} to name a folder that can be made and written, got {folder}")


def write_table(table: pd.DataFrame, path: Path) -> None:
    """The table as CSV or Parquet, as the ending of the name says."""
    if path.suffix.lower() == ".parquet":
        content = io.BytesIO()
        table.to_parquet(content, index=False)
        write_whole(path, content.getvalue())
    else:
        from oneword.report.table import to_csv

        write_whole(path, to_csv(table).encode())


def command_line() -> str:
    """The command as it was typed."""
    return shlex.join(["oneword", *sys.argv[1:]])


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


def like_of(dtype: str, device: str, *, model: bool = True) -> torch.Tensor:
    """An empty tensor of that precision on that device; `model`: whether only trained models get it."""
    import torch

    from oneword.devices import check_device

    named = getattr(torch, dtype, None)
    check_precision(named if str(named) == f"torch.{dtype}" else dtype, model=model)
    return torch.empty(0, dtype=named, device=check_device(device))
