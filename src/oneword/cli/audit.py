"""`oneword audit`: does an encoder notice words that change the meaning, and overlook those that do not?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from oneword.checks import MODEL_PRECISIONS
from oneword.cli import common
from oneword.cli.common import check_place, command_line
from oneword.cli.texts import texts_of
from oneword.cli.watch import watched
from oneword.errors import RangeError, UnknownNameError
from oneword.maps.outputs import OUTPUTS, explained, listed

_input = partial(typer.Option, rich_help_panel="What is audited")
_edits = partial(typer.Option, rich_help_panel="Edits and numbers")
_limits = partial(typer.Option, rich_help_panel="Thresholds")
_File = Path | None
_Several = list[str] | None


def audit(
    model: Annotated[
        _Several, _input("--model", metavar="M", help="minilm (embedded), a folder or a hub name; repeat to compare.")
    ] = None,
    reinit: Annotated[
        bool, _input("--reinit", help="Beside each model its twin with weights drawn anew; it is not judged.")
    ] = False,
    file: Annotated[
        _File, _input(metavar="F", help="Texts, one a line, or CSV, TSV, JSONL, Parquet; default: reviews.")
    ] = None,
    column: Annotated[str | None, _input(help="The column of that file that holds the texts.")] = None,
    pairs: Annotated[
        _File, _input(metavar="F", help="Edits of your own: columns text, edited, kind (signal or noise), type.")
    ] = None,
    output: Annotated[str, _input(help=f"The vector of a text: {explained(lambda each: each.pooled)}.")] = "pooled",
    layer: Annotated[int | None, _input(help="Of this layer; the last by default.")] = None,
    dtype: Annotated[str, _input(help=f"{', '.join(MODEL_PRECISIONS)}.")] = "float32",
    device: Annotated[str, _input(help="cpu, cuda, …")] = "cpu",
    texts: Annotated[int, _edits(help="How many texts at most, drawn with the seed.")] = 30,
    lengths: Annotated[str, _edits(help="Tokens to which texts are cut, at borders of words.")] = "16,32,64,128",
    edit: Annotated[
        _Several, _edits(metavar="TYPE", help="Only this type of edit, such as negation or 'stop word'; repeat.")
    ] = None,
    share: Annotated[float, _edits(help="Share of texts in which a signal is to be heard.")] = 0.95,
    setting: Annotated[
        _Several,
        _edits(
            "--set",
            metavar="NAME=VALUE",
            help="each=2: edits of each type, text and length. noise_quantile=0.9: a signal is heard above this "
            "quantile of the text's own noise edits. resamples=9999: of the bootstrap. examples=10: worst ones kept.",
        ),
    ] = None,
    seed: Annotated[int, _edits(help="Of the texts, the places of edits and the twin.")] = 0,
    threshold: Annotated[
        _Several,
        _limits(
            metavar="T", help="A limit such as auc.negation=0.7 or chunk.negation=64, or a TOML file of them; repeat."
        ),
    ] = None,
    certain: Annotated[bool, _limits("--certain", help="The whole interval must meet a threshold.")] = False,
    fail_deaf: Annotated[
        bool, _limits(help="Fail a signal that is not heard: AUC surely below 0.5, or no change in most texts.")
    ] = True,
    html: common.HtmlFile = None,
    junit: Annotated[
        _File, common.output_option(metavar="FILE", help="JUnit XML for CI, a test case a threshold.")
    ] = None,
    json_file: common.JsonFile = None,
    table: common.TableFile = None,
    quiet: common.Quiet = False,
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
    outputs = common.Outputs(html, json_file, table, quiet=quiet)
    if junit is not None:
        check_place("--junit", junit, ".xml")
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
    given = None if file is None and column is None else texts_of(None, file, column, None)
    like = common.like_of(dtype, device)
    models, twins = _models(names, reinit, seed, output=output, layer=layer, dtype=like.dtype, device=device)
    with watched(quiet) as progress:
        found = run(
            models, given, pairs=own, references=twins, thresholds=wanted, progress=progress, **settings.model_dump()
        )
    outputs.show(found)
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


def _models(names: list[str], reinit: bool, seed: int, *, output: str, **options: Any) -> tuple[list[Any], list[Any]]:
    """The models, and their twins if wanted."""
    from oneword.auditing.encoders import load_encoder

    if not (output in OUTPUTS and OUTPUTS[output].pooled):
        raise UnknownNameError(f"expected --output {listed(lambda each: each.pooled)}, got {output!r}")
    options["output"] = output
    loaded = [load_encoder(name, **options) for name in names]
    return loaded, [load_encoder(name, random_init=seed, **options) for name in names] if reinit else []
