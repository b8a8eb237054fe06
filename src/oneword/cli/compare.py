"""`oneword compare`: two texts side by side, and prompts that differ in one word."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oneword.cli.common import (
    Debug,
    JsonFile,
    Quiet,
    check_ending,
    dump,
    like_of,
    overall,
    writable_folder,
    write_table,
)
from oneword.errors import RangeError
from oneword.files import write_whole

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

FORMAT = "oneword.comparison/1"
INPUT, OUTPUT = "What is compared", "Output"
FileOption = Path | None


def compare(
    first: Annotated[str | None, typer.Argument(metavar="TEXT", help="The first text, in quotes.")] = None,
    second: Annotated[str | None, typer.Argument(metavar="TEXT", help="The second text.")] = None,
    model: Annotated[
        str,
        typer.Option(help="minilm (embedded), the folder of a model, or a hub name.", rich_help_panel=INPUT),
    ] = "minilm",
    revision: Annotated[str | None, typer.Option(help="Of a hub name: which version.", rich_help_panel=INPUT)] = None,
    layer: Annotated[int, typer.Option(help="Whose attention is shown, counted from 1.", rich_help_panel=INPUT)] = 1,
    head: Annotated[
        int | None, typer.Option(help="This head alone, counted from 0; the mean by default.", rich_help_panel=INPUT)
    ] = None,
    prompts: Annotated[
        FileOption,
        typer.Option(
            "--prompts",
            metavar="FILE",
            help="Prompts that differ in one word (TOML), for a causal model; with or without two texts.",
            rich_help_panel=INPUT,
        ),
    ] = None,
    dtype: Annotated[str, typer.Option(help="float32 or float64.", rich_help_panel=INPUT)] = "float32",
    device: Annotated[str, typer.Option(help="cpu, cuda, …", rich_help_panel=INPUT)] = "cpu",
    top: Annotated[int, typer.Option(help="Next tokens shown, of a causal model.", rich_help_panel=OUTPUT)] = 5,
    html: Annotated[
        FileOption, typer.Option("--html", metavar="FILE", help="A page to read and send.", rich_help_panel=OUTPUT)
    ] = None,
    json_file: JsonFile = None,
    out: Annotated[
        FileOption,
        typer.Option(
            metavar="DIR",
            help="Write figures (PDF, SVG, PNG), tables (Parquet) and the attention between tokens (safetensors) here.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Two texts side by side under a model: attention maps, which word and layer moved, and how far.

    Words are aligned, and the change of each is measured after every layer. Of a causal model (GPT-2, Llama, …) the
    next tokens are compared, too; --prompts asks whether one word of an instruction flips the answer.

    [bold]Examples[/bold]

    oneword compare "I love her much" "I love her smile" --html love.html

    oneword compare "This is a good film" "This is not a good film" --layer 6 --out results

    oneword compare --model path/to/a/chat/model --prompts examples/prompts.toml
    """
    from oneword.text.sources import expect_hub

    expect_hub(model)  # torch takes longer to load than a hub to answer
    if (first is None) != (second is None) or (first is None and prompts is None):
        raise RangeError(
            "expected two texts, each in quotes, or --prompts FILE, got fewer: for example oneword compare "
            '"I love her much" "I love her smile"'
        )
    if top < 1:
        raise RangeError(f"expected --top of at least 1, got {top}")
    if html is not None:
        from oneword.report.compare.page import check_installed

        check_ending("--html", html, ".html")
        check_installed()
    from oneword.comparison.comparison import compare as side_by_side
    from oneword.comparison.comparison import describe_model
    from oneword.comparison.prompts import ask, read_prompts
    from oneword.maps.transformer import TransformerFeatures

    asked = () if prompts is None else read_prompts(prompts)
    like = like_of(dtype, device)
    phi = TransformerFeatures.load(model, revision=revision, dtype=like.dtype, device=like.device)
    silent = quiet or json_file == "-"
    tables: dict[str, pd.DataFrame] = {}
    weights: dict[str, np.ndarray] = {}
    texts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    about = describe_model(phi)
    if first is not None and second is not None:
        found = side_by_side(phi, first, second, top=top)
        tables, texts, about, notes = found.tables(layer, head), (first, second), found.about, found.notes
        weights = dict(zip(("a", "b"), found.weights, strict=True))
    if asked:
        with overall(silent) as report:
            replies = ask(phi, asked, top=top, report=report)
        tables |= {"flips": replies.flips, "replies": replies.answers}
    command = shlex.join(["oneword", *sys.argv[1:]])
    if not silent:
        from rich.console import Console

        from oneword.report.compare.terminal import CompareView

        Console(highlight=False).print(CompareView(tables, about, notes, layer, head))
    if html is not None:
        from oneword.report.compare.page import render

        render(texts, tables, about, notes, html, layer=layer, head=head, command=command)
    if json_file is not None:
        dump(_to_json(texts, tables, about, notes, command), json_file)
    if out is not None:
        _write(texts, tables, weights, writable_folder(out), layer, head)
        if not silent:
            typer.echo(f"written to {out}: figures (*.pdf, *.svg, *.png) and tables (*.parquet)")


def _to_json(
    texts: tuple[str, ...],
    tables: dict[str, pd.DataFrame],
    about: dict[str, Any],
    notes: tuple[str, ...],
    command: str,
) -> dict[str, Any]:
    """Everything, ready for JSON; each table opens with pandas.DataFrame."""
    from oneword.report.table import to_records

    return {
        "format": FORMAT,
        "command": command,
        "about": about,
        "notes": list(notes),
        "texts": list(texts),
        **{name: to_records(table) for name, table in tables.items()},
    }


def _write(
    texts: tuple[str, ...],
    tables: dict[str, pd.DataFrame],
    weights: dict[str, np.ndarray],
    folder: Path,
    layer: int,
    head: int | None,
) -> None:
    """Tables, figures, and the attention of every layer and head between tokens."""
    from safetensors.numpy import save

    from oneword.report.compare.figures import draw_all

    for name, table in tables.items():
        write_table(table, folder / f"{name}.parquet")
    if weights:
        write_whole(folder / "attention.safetensors", save(weights))
    draw_all(texts, tables, folder, layer=layer, head=head)
