"""`oneword audit`: does an encoder notice words that change the meaning, and overlook those that do not?"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oneword.cli.common import Debug, JsonFile, Quiet, check_ending, dump, like_of, overall, write_table
from oneword.errors import RangeError, UnknownNameError
from oneword.files import write_whole
from oneword.maps.outputs import OUTPUTS, explained, listed

if TYPE_CHECKING:
    import pandas as pd

    from oneword.auditing.audit import Audit
    from oneword.auditing.model import EncoderModel

FORMAT = "oneword.auditing/1"
TABLES = ("types", "against", "lengths", "chunks", "worst", "verdicts")
INPUT, EDITS, LIMITS, OUTPUT = "What is audited", "Edits and numbers", "Thresholds", "Output"
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
    texts: Annotated[
        int, typer.Option(help="How many texts at most, drawn with the seed.", rich_help_panel=EDITS)
    ] = 60,
    lengths: Annotated[
        str, typer.Option(help="Tokens to which texts are cut, at borders of words.", rich_help_panel=EDITS)
    ] = "16,32,64,128,256",
    edit: Annotated[
        list[str] | None,
        typer.Option(
            "--edit",
            metavar="TYPE",
            help="Only this rule: negation, number, name, antonym, synonym, "
            "'stop word', typo, punctuation, case; repeat.",
            rich_help_panel=EDITS,
        ),
    ] = None,
    each: Annotated[int, typer.Option(help="Edits of each type, text and length.", rich_help_panel=EDITS)] = 1,
    share: Annotated[
        float, typer.Option(help="Share of texts in which a signal is to be heard.", rich_help_panel=EDITS)
    ] = 0.95,
    noise_quantile: Annotated[
        float,
        typer.Option(
            help="Heard: above this quantile of the text's own noise edits; 0.5 is the typical one.",
            rich_help_panel=EDITS,
        ),
    ] = 0.5,
    seed: Annotated[
        int, typer.Option(help="Of the texts, the places of edits and the twin.", rich_help_panel=EDITS)
    ] = 0,
    thresholds: Annotated[
        FileOption,
        typer.Option(
            "--thresholds", metavar="TOML", help="Tables auc, floor, ceiling, chunk of types.", rich_help_panel=LIMITS
        ),
    ] = None,
    threshold: Annotated[
        list[str] | None,
        typer.Option(
            "--threshold",
            metavar="T",
            help="For example auc.negation=0.7 or chunk.negation=64; repeat.",
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
    dtype: Annotated[str, typer.Option(help="float32 or float64.", rich_help_panel=EDITS)] = "float32",
    device: Annotated[str, typer.Option(help="cpu, cuda, …", rich_help_panel=EDITS)] = "cpu",
    html: Annotated[
        FileOption, typer.Option("--html", metavar="FILE", help="A page to read and send.", rich_help_panel=OUTPUT)
    ] = None,
    junit: Annotated[
        FileOption,
        typer.Option(
            "--junit", metavar="FILE", help="JUnit XML for CI, a test case a threshold.", rich_help_panel=OUTPUT
        ),
    ] = None,
    json_file: JsonFile = None,
    csv: Annotated[
        FileOption, typer.Option("--csv", metavar="FILE", help="One line an edit and model.", rich_help_panel=OUTPUT)
    ] = None,
    parquet: Annotated[
        FileOption, typer.Option("--parquet", metavar="FILE", help="The same as Parquet.", rich_help_panel=OUTPUT)
    ] = None,
    quiet: Quiet = False,
    debug: Debug = False,
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

    oneword audit --model ./my-encoder --pairs pairs.csv --thresholds limits.toml --certain --json -
    """  # fmt: skip
    from oneword.text.sources import expect_hub

    names = model or ["minilm"]
    for name in names:
        expect_hub(name)  # torch takes longer to load than a hub to answer
    endings = {"--html": (html, ".html"), "--junit": (junit, ".xml"), "--csv": (csv, ".csv"),
               "--parquet": (parquet, ".parquet")}  # fmt: skip
    for option, (path, ending) in endings.items():
        if path is not None:
            check_ending(option, path, ending)
    if html is not None:
        from oneword.report.audit.page import check_installed

        check_installed()
    from oneword.auditing.audit import audit as ask
    from oneword.auditing.pairs import Pairs
    from oneword.auditing.question import Question
    from oneword.auditing.thresholds import Thresholds

    question = Question(
        lengths=_lengths(lengths), texts=texts, types=tuple(edit) if edit else None, each=each, share=share,
        quantile=noise_quantile, seed=seed,
    )  # fmt: skip
    wanted = Thresholds.read(thresholds, threshold or (), certain=certain, deaf=fail_deaf)
    like = like_of(dtype, device)
    own = None if pairs is None else Pairs.read(pairs)
    given = _texts(file, column, own is not None)
    loaded, twins = _models(names, reinit, seed, output=output, layer=layer, dtype=like.dtype, device=device)
    silent = quiet or json_file == "-"
    with overall(silent) as report:
        found = ask(loaded, given, question, report, pairs=() if own is None else own.edits, beside=twins,
                    thresholds=wanted)  # fmt: skip
    command = shlex.join(["oneword", *sys.argv[1:]])
    notes = [*found.notes, *([f"{own.name}: {own.skipped}"] if own is not None and own.skipped else [])]
    tables = {name: getattr(found, name) for name in ("edits", *TABLES)}
    if not silent:
        from rich.console import Console

        from oneword.report.audit.terminal import AuditView

        Console(highlight=False).print(AuditView(tables, found.about, notes))
    if html is not None:
        from oneword.report.audit.page import render

        render(tables, found.about, notes, html, command=command)
    if junit is not None:
        from oneword.auditing.junit import junit as as_junit

        write_whole(junit, as_junit(found.verdicts, found.about["seconds"]))
    for path in (csv, parquet):
        if path is not None:
            write_table(found.edits, path)
    if json_file is not None:
        dump(_to_json(found, tables, notes, command), json_file)
    if not found.passed:
        raise typer.Exit(1)


def _lengths(given: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in given.split(","))
    except ValueError:
        raise RangeError(f"expected --lengths as whole numbers, for example 16,32,64, got {given!r}") from None


def _texts(file: Path | None, column: str | None, have_pairs: bool) -> list[str]:
    """Those of the file; without one those of the pairs, which the audit knows; without either the reviews."""
    from oneword.cli.texts import texts_of

    if file is not None:
        return texts_of(None, file, column, False, None)
    if column is not None:
        raise RangeError("expected --column with --file, got no file: name one")
    if have_pairs:
        return []
    from oneword.text.corpora import Corpus

    return list(Corpus.load().texts)


def _models(
    names: list[str], reinit: bool, seed: int, *, output: str, **options: Any
) -> tuple[list[EncoderModel], list[EncoderModel]]:
    """The models, and their twins if wanted."""
    from oneword.auditing.model import EncoderModel

    if not (output in OUTPUTS and OUTPUTS[output].pooled):
        raise UnknownNameError(f"expected --output {listed(lambda each: each.pooled)}, got {output!r}")
    options["output"] = output
    loaded = [EncoderModel.load(name, **options) for name in names]
    return loaded, [EncoderModel.load(name, random_init=seed, **options) for name in names] if reinit else []


def _to_json(found: Audit, tables: dict[str, pd.DataFrame], notes: list[str], command: str) -> dict[str, Any]:
    """Everything, ready for JSON; each table opens with pandas.DataFrame."""
    from oneword.report.table import to_records

    return {
        "format": FORMAT,
        "command": command,
        "passed": found.passed,
        "about": found.about,
        "notes": notes,
        "texts": list(found.texts),
        **{name: to_records(table) for name, table in tables.items()},
    }
