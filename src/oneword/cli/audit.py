"""`oneword audit`: does an encoder notice words that change the meaning, and overlook those that do not?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from oneword.cli.common import (
    OUTPUT,
    HtmlFile,
    JsonFile,
    Outputs,
    Quiet,
    TableFile,
    check_ending,
    command_line,
    like_of,
    overall,
)
from oneword.errors import RangeError, UnknownNameError
from oneword.maps.outputs import OUTPUTS, explained, listed

INPUT, EDITS, LIMITS = "What is audited", "Edits and numbers", "Thresholds"
FileOption = Path | None


def audit(
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="M",
            help="minilm (embedded), a folder or a hub name; repeat to compare.",
            rich_help_panel=INPUT,
        ),
    ] = None,
    reinit: Annotated[
        bool,
        typer.Option(
            "--reinit",
            help="Beside each model its twin with weights drawn anew; it is not judged.",
            rich_help_panel=INPUT,
        ),
    ] = False,
    file: Annotated[
        FileOption,
        typer.Option(
            "--file",
            metavar="F",
            help="Texts, one a line, or CSV, TSV, JSONL, Parquet; default: reviews.",
            rich_help_panel=INPUT,
        ),
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="The column of that file that holds the texts.", rich_help_panel=INPUT)
    ] = None,
    pairs: Annotated[
        FileOption,
        typer.Option(
            "--pairs",
            metavar="F",
            help="Edits of your own: columns text, edited, kind (signal or noise), type.",
            rich_help_panel=INPUT,
        ),
    ] = None,
    output: Annotated[
        str,
        typer.Option(help=f"The vector of a text: {explained(lambda each: each.pooled)}.", rich_help_panel=INPUT),
    ] = "pooled",
    layer: Annotated[
        int | None, typer.Option(help="Of this layer; the last by default.", rich_help_panel=INPUT)
    ] = None,
    dtype: Annotated[str, typer.Option(help="float32 or float64.", rich_help_panel=INPUT)] = "float32",
    device: Annotated[str, typer.Option(help="cpu, cuda, …", rich_help_panel=INPUT)] = "cpu",
    texts: Annotated[
        int, typer.Option(help="How many texts at most, drawn with the seed.", rich_help_panel=EDITS)
    ] = 30,
    lengths: Annotated[
        str, typer.Option(help="Tokens to which texts are cut, at borders of words.", rich_help_panel=EDITS)
    ] = "16,32,64,128",
    edit: Annotated[
        list[str] | None,
        typer.Option(
            "--edit",
            metavar="TYPE",
            help="Only this type of edit, such as negation or 'stop word'; repeat.",
            rich_help_panel=EDITS,
        ),
    ] = None,
    share: Annotated[
        float, typer.Option(help="Share of texts in which a signal is to be heard.", rich_help_panel=EDITS)
    ] = 0.95,
    setting: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="each=2: edits of each type, text and length. noise_quantile=0.9: a signal is heard above this "
            "quantile of the text's own noise edits. resamples=9999: of the bootstrap. examples=10: worst ones kept.",
            rich_help_panel=EDITS,
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Of the texts, the places of edits and the twin.", rich_help_panel=EDITS)
    ] = 0,
    threshold: Annotated[
        list[str] | None,
        typer.Option(
            "--threshold",
            metavar="T",
            help="A limit such as auc.negation=0.7 or chunk.negation=64, or a TOML file of them; repeat.",
            rich_help_panel=LIMITS,
        ),
    ] = None,
    certain: Annotated[
        bool, typer.Option("--certain", help="The whole interval must meet a threshold.", rich_help_panel=LIMITS)
    ] = False,
    fail_deaf: Annotated[
        bool,
        typer.Option(
            help="Fail a signal that is not heard: AUC surely below 0.5, or no change in most texts.",
            rich_help_panel=LIMITS,
        ),
    ] = True,
    html: HtmlFile = None,
    junit: Annotated[
        FileOption,
        typer.Option(
            "--junit", metavar="FILE", help="JUnit XML for CI, a test case a threshold.", rich_help_panel=OUTPUT
        ),
    ] = None,
    json_file: JsonFile = None,
    table: TableFile = None,
    quiet: Quiet = False,
) -> None:
    """Signal against noise: what changes the meaning should move an encoder more than what does not.

    Texts are cut to several lengths and edited in one word. Signal: a "not", a number, a name, an opposite. Noise: a
    synonym, a stop word, a typo, a comma. AUC says how often signal moves the vector more than noise of the same
    length, and the chunk advisor up to which length a "not" is heard above the noise.

    Exit code 1 if a threshold is missed or a signal is not heard at all (--no-fail-deaf: only thresholds).

    [bold]Examples[/bold]

    oneword audit

    oneword audit --model minilm --reinit --html audit.html

    oneword audit --model ./my-encoder --file texts.txt --threshold auc.negation=0.7 --junit audit.xml

    oneword audit --model ./my-encoder --pairs pairs.csv --threshold limits.toml --certain --json -
    """  # fmt: skip
    from oneword.auditing.encoders import NAMED
    from oneword.text.sources import expect_hub

    names = model or ["minilm"]
    for name in names:
        if name not in NAMED:
            expect_hub(name)  # torch takes longer to load than a hub to answer
    outputs = Outputs(html, json_file, table, quiet=quiet)
    if junit is not None:
        check_ending("--junit", junit, ".xml")
    from oneword.auditing.measurement import Settings
    from oneword.auditing.pairs import Pairs
    from oneword.auditing.thresholds import Thresholds
    from oneword.auditing.verb import audit as run
    from oneword.validation import read_model

    judged = ["certain=true"] * certain + ["fail_deaf=false"] * (not fail_deaf)
    wanted = Thresholds.parse([*(threshold or ()), *judged])
    numbers = {"lengths": _lengths(lengths), "most_texts": texts, "edits": edit, "share": share, "seed": seed}
    settings = read_model(Settings, {**numbers, **dict(map(_setting, setting or ()))}, "audit")
    own = None if pairs is None else Pairs.read(pairs)
    given = _texts(file, column)
    like = like_of(dtype, device)
    models, twins = _models(names, reinit, seed, output=output, layer=layer, dtype=like.dtype, device=device)
    with overall(outputs.silent) as progress:
        found = run(
            models, given, pairs=own, references=twins, thresholds=wanted, progress=progress, **settings.model_dump()
        )
    if not outputs.silent:
        from rich.console import Console

        Console(highlight=False).print(found)
    if html is not None:
        found.save_html(html, command=command_line())
    if junit is not None:
        found.save_junit(junit)
    outputs.write_table(found.edits)
    outputs.write_json({"command": command_line(), **found.to_dict()})
    if not found.passed:
        raise typer.Exit(1)


def _lengths(given: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in given.split(","))
    except ValueError:
        raise RangeError(f"expected --lengths as whole numbers, for example 16,32,64, got {given!r}") from None


def _setting(given: str) -> tuple[str, float]:
    name, _, value = given.partition("=")
    if name not in ("each", "noise_quantile", "resamples", "examples"):
        raise UnknownNameError(f"expected --set each=, noise_quantile=, resamples= or examples=, got {given!r}")
    try:
        return name, float(value) if name == "noise_quantile" else int(value)
    except ValueError:
        raise RangeError(f"expected a number in --set {given}, got {value!r}") from None


def _texts(file: Path | None, column: str | None) -> list[str] | None:
    """Those of the file; None without one."""
    from oneword.cli.texts import texts_of

    if file is not None:
        return texts_of(None, file, column, None)
    if column is not None:
        raise RangeError("expected --column with --file, got no file: name one")
    return None


def _models(names: list[str], reinit: bool, seed: int, *, output: str, **options: Any) -> tuple[list[Any], list[Any]]:
    """The models, and their twins if wanted."""
    from oneword.auditing.encoders import load_encoder

    if not (output in OUTPUTS and OUTPUTS[output].pooled):
        raise UnknownNameError(f"expected --output {listed(lambda each: each.pooled)}, got {output!r}")
    options["output"] = output
    loaded = [load_encoder(name, **options) for name in names]
    return loaded, [load_encoder(name, random_init=seed, **options) for name in names] if reinit else []
