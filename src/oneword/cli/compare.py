"""`oneword compare`: two texts side by side, and prompts that differ in one word."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oneword.checks import printable
from oneword.cli import common
from oneword.cli.common import command_line, output_option
from oneword.cli.watch import watched
from oneword.errors import RangeError
from oneword.files import write_whole
from oneword.maps import registry

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

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
    prompts: Annotated[
        Path | None,
        _input(
            metavar="FILE",
            help="Prompts that differ in one word (TOML), for a causal model; with or without two texts.",
        ),
    ] = None,
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
    outputs = common.Outputs(html, json_file, out=out, quiet=quiet)
    from oneword.comparison.answers import answer_prompts, read_prompts
    from oneword.comparison.result import as_dict, check_head
    from oneword.comparison.verb import compare as side_by_side
    from oneword.comparison.verb import describe_model
    from oneword.maps.transformer import TransformerFeatures
    from oneword.report.comparison import CompareView

    asked = () if prompts is None else read_prompts(prompts)
    like = common.like_of(dtype or ("float32" if named_map is None else "float64"), device, model=named_map is None)
    tables: dict[str, pd.DataFrame] = {}
    weights: dict[str, np.ndarray] = {}
    texts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    by: str | TransformerFeatures
    by = named_map or TransformerFeatures.load(model, revision=revision, dtype=like.dtype, device=like.device)
    about = {} if isinstance(by, str) else describe_model(by)
    check_head(layer, head, *((1, 1) if isinstance(by, str) else (by.layers, by.heads)))
    if first is not None and second is not None:
        found = side_by_side(first, second, by, top=top, dtype=like.dtype)
        tables, texts, about, notes = found.tables(layer, head), found.given, found.about, found.notes
        weights = dict(zip(("a", "b"), found.weights, strict=True))
    if asked and isinstance(by, TransformerFeatures):
        with watched(quiet) as progress:
            replies = answer_prompts(by, asked, top=top, progress=progress)
        tables |= {"flips": replies.flips, "replies": replies.answers}
    outputs.show(CompareView(tables, about, notes, layer, head))
    if html is not None:
        from oneword.report.comparison_page import render

        render(texts, tables, about, notes, html, layer=layer, head=head, command=command_line())
    outputs.write_json({"command": command_line(), **as_dict(texts, tables, about, notes)})
    folder = outputs.folder()
    if folder is None:
        return
    from safetensors.numpy import save

    from oneword.report.comparison_page import draw_all

    for name, table in tables.items():
        common.write_table(table, folder / f"{name}.parquet")
    if weights:  # attention of every layer and head between tokens
        write_whole(folder / "attention.safetensors", save(weights))
    draw_all(texts, tables, folder, layer=layer, head=head)
    if not outputs.silent:
        typer.echo(f"written to {printable(str(folder))}: figures (*.pdf, *.svg, *.png) and tables (*.parquet)")
