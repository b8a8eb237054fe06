"""`oneword compare`: two texts side by side."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from oneword.checks import printable
from oneword.cli import common
from oneword.cli.common import command_line, output_option
from oneword.errors import RangeError
from oneword.files import write_whole
from oneword.maps import registry

_input = partial(typer.Option, rich_help_panel="What is compared")


def compare(
    first: Annotated[str | None, typer.Argument(metavar="TEXT", help="The first text, in quotes.")] = None,
    second: Annotated[str | None, typer.Argument(metavar="TEXT", help="The second text.")] = None,
    model: Annotated[str, _input(help="minilm (embedded), the folder of a model, or a hub name.")] = "minilm",
    named_map: Annotated[
        str | None,
        _input("--map", help="Instead of a model, attention with random weights: attention, attention-relu, …"),
    ] = None,
    revision: Annotated[str | None, _input(help="Of a hub name: which version.")] = None,
    layer: Annotated[int, _input(help="Whose attention is shown, counted from 1.")] = 1,
    head: Annotated[int | None, _input(help="This head alone, counted from 0; the mean by default.")] = None,
    dtype: Annotated[str | None, _input(help=common.DTYPES)] = None,
    device: Annotated[str, _input(help="cpu, cuda, …")] = "cpu",
    top: Annotated[int, output_option(help="Next tokens shown, of a causal model.")] = 5,
    html: common.HtmlFile = None,
    json_file: common.JsonFile = None,
    out: Annotated[
        Path | None,
        output_option(
            metavar="DIR",
            help="Write figures (PDF, SVG, PNG), tables (Parquet) and the attention between tokens (safetensors) here.",
        ),
    ] = None,
    quiet: common.Quiet = False,
) -> None:
    """Two texts side by side under a model: attention maps, which word and layer moved, and how far.

    Words are aligned, and the change of each is measured after every layer. Of a causal model (GPT-2, Llama, …) the
    next tokens are compared, too; oneword chat compares whole answers.

    [bold]Examples[/bold]

    oneword compare "I love her much" "I love her smile" --html love.html

    oneword compare "This is a good film" "This is not a good film" --layer 6 --out results

    oneword compare "I love her much" "I love her smile" --map attention
    """
    from oneword.text.sources import expect_hub

    if first is None or second is None:
        raise RangeError(
            "expected two texts, each in quotes, got fewer: for example oneword compare "
            '"I love her much" "I love her smile"'
        )
    if top < 1:
        raise RangeError(f"expected --top of at least 1, got {top}")
    if named_map is None:
        expect_hub(model)  # torch takes longer to load than a hub to answer
    else:
        registry.find(named_map)
    outputs = common.Outputs(html, json_file, out=out, quiet=quiet)
    from oneword.comparison.result import check_head
    from oneword.comparison.verb import compare as side_by_side
    from oneword.maps.transformer import TransformerFeatures
    from oneword.report.comparison import CompareView

    like = common.like_of(dtype or ("float32" if named_map is None else "float64"), device, model=named_map is None)
    by: str | TransformerFeatures
    by = named_map or TransformerFeatures.load(model, revision=revision, dtype=like.dtype, device=like.device)
    check_head(layer, head, *((1, 1) if isinstance(by, str) else (by.layers, by.heads)))
    found = side_by_side(first, second, by, top=top, dtype=like.dtype)
    tables = found.tables(layer, head)
    outputs.show(CompareView(tables, found.about, found.notes, layer, head))
    if html is not None:
        found.save_html(html, layer=layer, head=head, command=command_line())
    outputs.write_json({"command": command_line(), **found.to_dict(layer, head)})
    folder = outputs.folder()
    if folder is None:
        return
    from safetensors.numpy import save

    from oneword.report.comparison_page import draw_all

    for name, table in tables.items():
        common.write_table(table, folder / f"{name}.parquet")
    weights = dict(zip(("a", "b"), found.weights, strict=True))  # of every layer and head, between tokens
    write_whole(folder / "attention.safetensors", save(weights))
    draw_all(found.given, tables, folder, layer=layer, head=head)
    if not outputs.silent:
        typer.echo(f"written to {printable(str(folder))}: figures (*.pdf, *.svg, *.png) and tables (*.parquet)")
