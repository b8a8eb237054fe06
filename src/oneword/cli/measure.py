"""`oneword measure`: every word of a text, for each map."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oneword.cli.common import Debug, JsonFile, Quiet, Seed, check_ending, dump, like_of, overall, write_table
from oneword.errors import RangeError
from oneword.maps.outputs import listed
from oneword.maps.registry import DEFAULT, each_once
from oneword.maps.registry import names as map_names

if TYPE_CHECKING:
    from oneword.sets.constraints import Constraint
    from oneword.sets.vocabulary import Replacements
    from oneword.text.encoders import Encoder

INPUT, MODELS, NUMBERS, OUTPUT = "What is measured", "Trained models", "Numbers and effort", "Output"
FileOption = Path | None


def measure(
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="The text itself, in quotes; - reads standard input, one text a line."),
    ] = None,
    file: Annotated[
        FileOption,
        typer.Option(
            "--file",
            metavar="F",
            help="A text file, one text a line, or CSV, TSV, JSONL, Parquet.",
            rich_help_panel=INPUT,
        ),
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="The column of that file that holds the texts.", rich_help_panel=INPUT)
    ] = None,
    whole: Annotated[
        bool, typer.Option("--whole", help="The text file is one text, lines and all.", rich_help_panel=INPUT)
    ] = False,
    limit: Annotated[int | None, typer.Option(help="At most this many texts.", rich_help_panel=INPUT)] = None,
    encoder: Annotated[
        str,
        typer.Option(
            help="What makes words vectors: layer 0 of minilm (embedded), a folder, a hub name; a .txt or .npz table.",
            rich_help_panel=INPUT,
        ),
    ] = "minilm",
    dimension: Annotated[
        int | None,
        typer.Option(
            "-d", "--dimension", help="Keep the first coordinates only; all by default.", rich_help_panel=INPUT
        ),
    ] = None,
    gaussian: Annotated[
        str | None,
        typer.Option(
            "--gaussian",
            metavar="N,D",
            help="A synthetic text: N Gaussian words of dimension D.",
            rich_help_panel=INPUT,
        ),
    ] = None,
    cosine: Annotated[
        float, typer.Option(help="Average cosine between two words of that text.", rich_help_panel=INPUT)
    ] = 0.07,
    maps: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="MAP", help=f"Repeat for several: {map_names()}. Default: three of them."),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="M",
            help="Trained models instead of maps: minilm (embedded), a folder, a hub name. Repeat for several.",
            rich_help_panel=MODELS,
        ),
    ] = None,
    layer: Annotated[
        int | None, typer.Option(help="0 (embeddings) … L; the last by default.", rich_help_panel=MODELS)
    ] = None,
    output: Annotated[str, typer.Option(help=f"{listed()}.", rich_help_panel=MODELS)] = "pooled",
    head: Annotated[int | None, typer.Option(help="Of attention: this head alone.", rich_help_panel=MODELS)] = None,
    module: Annotated[
        str | None,
        typer.Option(help="A part by its name instead, as encoder.layer.3.attention.", rich_help_panel=MODELS),
    ] = None,
    per_layer: Annotated[
        bool,
        typer.Option("--per-layer", help="Search every layer, not only the one asked for.", rich_help_panel=MODELS),
    ] = False,
    reinit: Annotated[
        bool, typer.Option("--reinit", help="Beside each model, its twin with random weights.", rich_help_panel=MODELS)
    ] = False,
    real_words: Annotated[
        int, typer.Option("--real-words", help="Random real words tried at each word.", rich_help_panel=MODELS)
    ] = 1,
    words: Annotated[int, typer.Option(help="How many words change at once (more than one: chosen greedily).")] = 1,
    position: Annotated[
        list[int] | None,
        typer.Option(
            "--position", metavar="I", help="Only this word may change, by its # in the table; repeat for several."
        ),
    ] = None,
    special: Annotated[bool, typer.Option("--special", help="[CLS] and [SEP] may change, too.")] = False,
    per_token: Annotated[bool, typer.Option("--per-token", help="Every token is a word of its own.")] = False,
    sphere: Annotated[
        bool,
        typer.Option("--sphere", help="New words lie on the sphere of norm √d, as real words do, not in the ball."),
    ] = False,
    radius: Annotated[
        float | None,
        typer.Option(help="Largest ‖Δ‖, in units of √d (1 is the paper's ball); of the word's own norm with --model."),
    ] = None,
    letters: Annotated[bool, typer.Option("--letters", help="Real words of letters only.")] = False,
    among: Annotated[
        FileOption, typer.Option("--among", metavar="FILE", help="Real words from this list only, one a line.")
    ] = None,
    no_words: Annotated[bool, typer.Option("--no-words", help="No real words: S_ball alone.")] = False,
    seeds: Annotated[
        int | None,
        typer.Option(help="Draws of the weights; 3 for short texts, 1 for long ones.", rich_help_panel=NUMBERS),
    ] = None,
    seed: Seed = 0,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="One start a position, the closed-form certificate.", rich_help_panel=NUMBERS),
    ] = False,
    thorough: Annotated[
        bool,
        typer.Option("--thorough", help="The full search, refined certificates, all of rf.", rich_help_panel=NUMBERS),
    ] = False,
    target: Annotated[
        float | None,
        typer.Option(help="Refine certificates until upper/value is at most this (1.2) …", rich_help_panel=NUMBERS),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(help="… or this many seconds have passed, for each map.", rich_help_panel=NUMBERS),
    ] = None,
    window: Annotated[
        int, typer.Option(help="Longer texts go in windows of this many tokens.", rich_help_panel=NUMBERS)
    ] = 250,
    most: Annotated[int, typer.Option(help="Refuse more tokens than this in all.", rich_help_panel=NUMBERS)] = 25_000,
    dtype: Annotated[
        str | None,
        typer.Option(help="float32, or float64 (the default with --gaussian and --words).", rich_help_panel=NUMBERS),
    ] = None,
    device: Annotated[
        str, typer.Option(help="cpu, cuda, …; certificates are computed on the CPU.", rich_help_panel=NUMBERS)
    ] = "cpu",
    top: Annotated[int, typer.Option(help="Replacements shown for each word.", rich_help_panel=OUTPUT)] = 1,
    html: Annotated[
        FileOption, typer.Option("--html", metavar="FILE", help="A page to read and send.", rich_help_panel=OUTPUT)
    ] = None,
    json_file: JsonFile = None,
    csv: Annotated[
        FileOption, typer.Option("--csv", metavar="FILE", help="One line a word, map and seed.", rich_help_panel=OUTPUT)
    ] = None,
    parquet: Annotated[
        FileOption, typer.Option("--parquet", metavar="FILE", help="The same as Parquet.", rich_help_panel=OUTPUT)
    ] = None,
    out: Annotated[
        FileOption,
        typer.Option(metavar="DIR", help="Write results (JSON) and figures (PDF, PNG) here.", rich_help_panel=OUTPUT),
    ] = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """How far each word of a text can move what a layer makes of it, in colour, with the word that does it.

    S_ball is the sup over ALL vectors within the ball: ≥ is attained by a change that was found, ≤ is certified.
    S_word is the best real word of the vocabulary, all of them tried (long texts and rf: some), and "random" their
    mean. Real words mostly lie outside the ball, and do far less than its worst vector.

    [bold]Examples[/bold]

    oneword measure "I love her much"

    oneword measure "This is not a good film" --top 5 --html not.html

    oneword measure --file reviews.csv --column review --limit 20 --map attention --csv words.csv

    oneword measure --gaussian 100,768 --map attention --target 1.1 --seconds 60 --out results

    oneword measure "This is not a good film" --model minilm --reinit --html model.html
    """
    from oneword.text.sources import expect_hub

    expect_hub(encoder)  # torch takes longer to load than a hub to answer
    from oneword import Ball, Certify, Sphere
    from oneword.cli import answers, arrays
    from oneword.cli.texts import ONE_TEXT, texts_of

    if sum(given is not None for given in (text, file, gaussian)) > 1:
        raise RangeError(ONE_TEXT)
    if quick and thorough:
        raise RangeError("expected --quick or --thorough, got both: leave one out")
    for option, path, ending in (("--html", html, ".html"), ("--csv", csv, ".csv"), ("--parquet", parquet, ".parquet")):
        if path is not None:
            check_ending(option, path, ending)
    if html is not None:
        from oneword.report.words.page import check_installed

        check_installed()
    position = position or None  # an option that is not given may be an empty list
    several = gaussian is not None or words != 1  # results of the library, not a survey of words
    like = like_of(dtype or ("float64" if several else "float32"), device)
    silent, names = quiet or json_file == "-", each_once(maps or DEFAULT)
    certify = Certify(1.2 if target is None else target, seconds=seconds)

    def within(d: int) -> Constraint:
        span = None if radius is None else radius * d**0.5
        return Sphere(largest=span) if sphere else Ball(span)

    if model:
        _refuse("--model without", {
            "--map": maps, "--gaussian": gaussian, "--sphere": sphere, "--words": words != 1, "--thorough": thorough,
            "--per-token": per_token, "--letters": letters, "--no-words": no_words, "--dimension": dimension,
            "--seeds": seeds, "--target": target, "--seconds": seconds,
        })  # fmt: skip
        if real_words < 0:
            raise RangeError(f"expected --real-words of at least 0, got {real_words}")
        from oneword.cli import models

        asked_of = models.Asked(
            tuple(model), layer, output, head, module, reinit, per_layer, position, special, radius, real_words, among,
            seed, quick, most,
        )  # fmt: skip
        profiles = asked_of.run(texts_of(text, file, column, whole, limit), like, silent)
        if not silent:
            models.show([each.tables for each in profiles])
        tables = [path for path in (csv, parquet) if path is not None]
        command = shlex.join(["oneword", *sys.argv[1:]])
        models.write(profiles, command, html=html, json_file=json_file, tables=tables, out=out, silent=silent)
        return
    _refuse("--model with", {
        "--layer": layer is not None, "--head": head is not None, "--module": module, "--per-layer": per_layer,
        "--reinit": reinit, "--output": output != "pooled",
    })  # fmt: skip
    if several:
        if any(path is not None for path in (html, csv, parquet)):
            raise RangeError(
                "expected a text whose words change one at a time for --html, --csv and --parquet, got --gaussian or "
                "--words: use --json or --out"
            )
        able: Sequence[int] | None = position
        if gaussian is not None:
            context = arrays.synthetic(gaussian, cosine, seed, like.dtype, device)
        else:
            content, *more = texts_of(text, file, column, whole, limit)
            if more:
                raise RangeError(f"expected one text with --words {words}, got {1 + len(more)}: choose one (--limit 1)")
            context, able = arrays.own_words(_encoder(encoder), content, position, special, dimension, like)
        certify = Certify.plain() if quick else certify
        asked = arrays.Measurement(within(context.d), words, able, "quick" if quick else None, certify, seed)
        asked.run(context, names, silent, json_file, out)
        return

    from oneword.survey.effort import Effort
    from oneword.survey.question import Question
    from oneword.survey.survey import survey

    texts = texts_of(text, file, column, whole, limit)
    loaded = _encoder(encoder)
    effort = Effort.quick() if quick else Effort.thorough(certify) if thorough else None
    question = Question(
        names, seeds=seeds, seed=seed, within=within(dimension or loaded.d),
        words=None if no_words else _real_words(loaded, letters, among), effort=effort,
        certify=certify if target is not None or seconds is not None else None,
        positions=None if position is None else tuple(position), special=special, per_token=per_token, window=window,
        most=most, top=top, d=dimension, dtype=like.dtype, device=device,
    )  # fmt: skip
    with overall(silent) as report:
        found = survey(texts, loaded, question, report)
    command = shlex.join(["oneword", *sys.argv[1:]])
    if not silent:
        answers.show(found, top)
    if html is not None:
        answers.write_page(found, html, command, top)
    for path in (csv, parquet):
        if path is not None:
            write_table(found.words, path)
    if json_file is not None:
        dump(answers.to_json(found, command), json_file)
    if out is not None:
        answers.write_results(found.results, out, silent)


def _refuse(wanted: str, given: Mapping[str, object]) -> None:
    """Options that would have no effect."""
    for option, value in given.items():
        if value:
            raise RangeError(f"expected {wanted} {option}, got otherwise: leave {option} out")


def _encoder(name: str) -> Encoder:
    from oneword.text.encoders import Encoder

    return Encoder.load(name)


def _real_words(encoder: Encoder, letters: bool, among: Path | None) -> Replacements:
    """The whole vocabulary, or a list of one's own, which may have words of several tokens."""
    from oneword.cli.texts import word_list
    from oneword.sets.vocabulary import Vocabulary, Words

    if among is None:
        return Vocabulary.of(encoder, letters=letters)
    return Words.of(encoder, [word for word in word_list(among) if not letters or word.isalpha()])
