"""`oneword compare`: two texts side by side, and prompts that differ in one word."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oneword.cli.common import (
    OUTPUT,
    HtmlFile,
    JsonFile,
    Outputs,
    Quiet,
    command_line,
    like_of,
    overall,
    write_table,
)
from oneword.errors import RangeError
from oneword.files import write_whole
from oneword.maps import registry

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

INPUT = "What is compared"
FileOption = Path | None


def compare(
    first: Annotated[str | None, typer.Argument(metavar="TEXT", help="The first text, in quotes.")] = None,
    second: Annotated[str | None, typer.Argument(metavar="TEXT", help="The second text.")] = None,
    model: Annotated[
        str,
        typer.Option(help="minilm (embedded), the folder of a model, or a hub name.", rich_help_panel=INPUT),
    ] = "minilm",
    named_map: Annotated[
        str | None,
        typer.Option(
            "--map",
            help="Instead of a model, attention with random weights: attention, attention-relu, …",
            rich_help_panel=INPUT,
        ),
    ] = None,
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
    html: HtmlFile = None,
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
) -> None:
    """Two texts side by side under a model: attention maps, which word and layer moved, and how far.

    Words are aligned, and the change of each is measured after every layer. Of a causal model (GPT-2, Llama, …) the
    next tokens are compared, too; --prompts asks whether one word of an instruction flips the answer.

    [bold]Examples[/bold]

    oneword compare "I love her much" "I love her smile" --html love.html

    oneword compare "This is a good film" "This is not a good film" --layer 6 --out results

    oneword compare "I love her much" "I love her smile" --map attention

    oneword compare --model path/to/a/chat/model --prompts examples/prompts.toml
    """
    from oneword.text.sources import expect_hub

    if (first is None) != (second is None) or (first is None and prompts is None):
        raise RangeError(
            "expected two texts, each in quotes, or --prompts FILE, got fewer: for example oneword compare "
            '"I love her much" "I love her smile"'
        )
    if top < 1:
        raise RangeError(f"expected --top of at least 1, got {top}")
    if named_map is None:
        expect_hub(model)  # torch takes longer to load than a hub to answer
    elif prompts is not None:
        raise RangeError("expected --prompts with a model, got it with --map: leave one out")
    else:
        registry.find(named_map)
    outputs = Outputs(html, json_file, out=out, quiet=quiet)
    from oneword.comparison.answers import answer_prompts, read_prompts
    from oneword.comparison.result import as_dict
    from oneword.comparison.verb import compare as side_by_side
    from oneword.comparison.verb import describe_model
    from oneword.maps.transformer import TransformerFeatures

    asked = () if prompts is None else read_prompts(prompts)
    like = like_of(dtype, device)
    tables: dict[str, pd.DataFrame] = {}
    weights: dict[str, np.ndarray] = {}
    texts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    by: str | TransformerFeatures
    by = named_map or TransformerFeatures.load(model, revision=revision, dtype=like.dtype, device=like.device)
    about = {} if isinstance(by, str) else describe_model(by)
    if first is not None and second is not None:
        found = side_by_side(first, second, by, top=top)
        tables, texts, about, notes = found.tables(layer, head), found.given, found.about, found.notes
        weights = dict(zip(("a", "b"), found.weights, strict=True))
    if asked and isinstance(by, TransformerFeatures):
        with overall(outputs.silent) as progress:
            replies = answer_prompts(by, asked, top=top, progress=progress)
        tables |= {"flips": replies.flips, "replies": replies.answers}
    if not outputs.silent:
        from rich.console import Console

        from oneword.report.comparison import CompareView

        Console(highlight=False).print(CompareView(tables, about, notes, layer, head))
    if html is not None:
        from oneword.report.comparison_page import render

        render(texts, tables, about, notes, html, layer=layer, head=head, command=command_line())
    outputs.write_json({"command": command_line(), **as_dict(texts, tables, about, notes)})
    folder = outputs.folder()
    if folder is not None:
        _write(texts, tables, weights, folder, layer, head)
        if not outputs.silent:
            typer.echo(f"written to {folder}: figures (*.pdf, *.svg, *.png) and tables (*.parquet)")


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

    from oneword.report.comparison_page import draw_all

    for name, table in tables.items():
        write_table(table, folder / f"{name}.parquet")
    if weights:
        write_whole(folder / "attention.safetensors", save(weights))
    draw_all(texts, tables, folder, layer=layer, head=head)
