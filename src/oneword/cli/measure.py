"""`oneword measure`: every word of a text, under maps and models side by side."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oneword.checks import printable
from oneword.cli.common import (
    Device,
    DType,
    HtmlFile,
    JsonFile,
    OutFolder,
    Outputs,
    Quiet,
    Seed,
    TableFile,
    command_line,
    like_of,
    write_table,
)
from oneword.cli.watch import watched
from oneword.errors import RangeError
from oneword.maps.outputs import explained
from oneword.maps.registry import DEFAULT, each_once, find
from oneword.maps.registry import names as map_names

if TYPE_CHECKING:
    from oneword.cli.watch import Watch
    from oneword.maps.transformer import TransformerFeatures
    from oneword.report.words.table import WordTable
    from oneword.text.context import Context


def _panel(title: str) -> Callable[..., Any]:
    """Options that the help text shows together, under this title."""
    return partial(typer.Option, rich_help_panel=title)


SOON = 10.0  # seconds; what takes no longer is answered without a first answer

inputs, subjects, changes = map(_panel, ("What is measured", "Maps and models", "What may change"))


def measure(
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="The text itself, in quotes; - reads standard input, one text a line."),
    ] = None,
    file: Annotated[Path | None, inputs(metavar="F", help="Texts, one a line, or CSV, TSV, JSONL, Parquet.")] = None,
    column: Annotated[
        str | None, inputs(help="The column that holds the texts; * takes the whole file as one text.")
    ] = None,
    limit: Annotated[int | None, inputs(help="At most this many texts.")] = None,
    gaussian: Annotated[
        str | None,
        inputs(
            metavar="N,D[,COSINE]",
            help="A synthetic text: N Gaussian words of dimension D (and their average cosine, 0.07).",
        ),
    ] = None,
    maps: Annotated[
        list[str] | None, subjects("--map", metavar="MAP", help=f"Repeat for several: {map_names()}.")
    ] = None,
    model: Annotated[
        list[str] | None,
        subjects(
            metavar="M",
            help="Repeat for several: minilm, mpnet, smollm2, a folder, a .gguf file, a hub name. M@random: untrained.",
        ),
    ] = None,
    output: Annotated[
        str, subjects(metavar="OUTPUT[:LAYER[:HEAD]]", help=f"Of models: {explained()}, or module:NAME.")
    ] = "pooled",
    answer: Annotated[
        list[str] | None,
        subjects(
            metavar="A",
            help="TEXT is a prompt: which word decides between two answers? Give it twice, --model smollm2 by default.",
        ),
    ] = None,
    encoder: Annotated[
        str,
        subjects(help="Word vectors of maps: layer 0 of minilm, mpnet, a folder or a hub name; a .txt or .npz table."),
    ] = "minilm",
    dimension: Annotated[int | None, subjects("-d", "--dimension", help="Of maps: the first coordinates only.")] = None,
    within: Annotated[
        str | None,
        changes(
            metavar="SET[:R]",
            help="ball or sphere, of radius R in √d (for models in the norm of the word). Default: ball:1.",
        ),
    ] = None,
    among: Annotated[
        str | None,
        changes(
            metavar="FILE",
            help="Real words from this list only, one a line; letters: words of letters; none: no real words.",
        ),
    ] = None,
    position: Annotated[
        list[str] | None,
        changes(
            metavar="I",
            help="Only word # I may change; repeat. all: special tokens, too; tokens: every token is a word.",
        ),
    ] = None,
    together: Annotated[int, changes(help="Words that change at once (more than one: chosen greedily).")] = 1,
    effort: Annotated[
        str | None,
        typer.Option(
            metavar="EFFORT",
            help="quick, usual or thorough; or a number: certificates are refined until S ≤ / S ≥ is at most this "
            "(1.1), or, with 1.1,60, until 60 seconds have passed.",
        ),
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(help="Draws of random weights; 3 for short texts, 1 for long ones.")
    ] = None,
    seed: Seed = 0,
    dtype: DType = None,
    device: Device = "cpu",
    top: Annotated[int, typer.Option(help="Replacements shown for each word.")] = 1,
    html: HtmlFile = None,
    json_file: JsonFile = None,
    table: TableFile = None,
    out: OutFolder = None,
    quiet: Quiet = False,
) -> None:
    """How far each word of a text can move maps and models, in colour, with the real word that does it.

    S ≥ is attained by a change of the word's vector that was found; S ≤ is an upper bound: certified for maps, a
    ceiling for models. "best word" is the real word of the vocabulary that changes most, "random word" the mean one.

    [bold]Examples[/bold]

    oneword measure "I love her much"

    oneword measure "This is not a good film" --map attention --map rf --model minilm --html not.html

    oneword measure --file reviews.csv --column review --limit 20 --map attention --table words.csv

    oneword measure --gaussian 100,768 --map attention --effort 1.1,60 --out results

    oneword measure "This is not a good film" --model minilm --model minilm@random --output hidden:3

    oneword measure "I did not like this film. Is that positive or negative?" --answer Positive --answer Negative
    """
    from oneword.text.sources import expect_hub

    expect_hub(encoder)  # torch takes longer to load than a hub to answer
    outputs = Outputs(html, json_file, table, out, quiet)
    asked_for: dict[str, Any] = {**_effort(effort), **_positions(position)}
    if answer:
        if len(answer) != 2:
            raise RangeError(f"expected --answer twice, got it {len(answer)} times: --answer good --answer bad")
        if among == "letters":
            raise RangeError("expected --among FILE or none beside --answer, got letters: list the words")
        asked_for["answers"] = tuple(answer)
        model = model or ["smollm2"]
    library = gaussian is not None or together != 1  # the search of the library, unless another is asked for
    if library:
        asked_for = {"effort": "thorough", "seeds": 1, **asked_for}
    like = like_of(dtype or ("float64" if library else "float32"), device, model=bool(model) and not maps)
    for name in each_once(maps or DEFAULT):
        find(name)
    texts = _texts(text, file, column, limit, gaussian, seed, like)

    from oneword.text.encoders import Encoder
    from oneword.words.verb import measure as measure_words

    loaded = None if gaussian is not None or answer else Encoder.load(encoder)
    by: list[Any] = list(maps or ())
    by += [_model(name, output, seed, like) for name in model or ()]
    with watched(quiet) as progress:
        found = measure_words(
            texts,
            by or (DEFAULT if gaussian is not None else None),
            encoder=loaded or encoder,
            within=within,
            words=_real_words(loaded, among),
            together=together,
            seed=seed,
            d=dimension,
            top=top,
            dtype=like.dtype,
            device=device,
            progress=progress,
            show=None if quiet else _FirstAnswer(progress),
            **asked_for | ({} if seeds is None else {"seeds": seeds}),
        )
    _write(found, outputs, top)


class _FirstAnswer:
    """Says once what is known before the long searches, if these take a while."""

    def __init__(self, watch: Watch) -> None:
        self.watch, self.began, self.said = watch, time.monotonic(), False

    def __call__(self, table: WordTable) -> None:
        if self.said or table.seconds_left is None:
            return
        self.watch.estimate(table.seconds_left)
        complete = len(table.parts) == len(table.texts) * len(table.about["by"])
        if complete:
            self.said = True
        if complete and table.seconds_left > SOON:
            from oneword.report.words.sentences import first_answer, first_line
            from oneword.report.words.terminal import FirstView

            seconds = time.monotonic() - self.began
            words = "; ".join(map(first_answer, table.parts_of(0)))
            self.watch.show(f"{first_line(table, seconds)}. {words}", FirstView(table, seconds))


def _texts(
    text: str | None,
    file: Path | None,
    column: str | None,
    limit: int | None,
    gaussian: str | None,
    seed: int,
    like: Any,
) -> list[str] | Context:
    from oneword.cli.texts import ONE_TEXT, texts_of

    if sum(given is not None for given in (text, file, gaussian)) > 1:
        raise RangeError(ONE_TEXT)
    if gaussian is None:
        return texts_of(text, file, column, limit)
    from oneword.text.context import gaussian as synthetic

    try:
        n, d, *cosine = gaussian.replace("x", ",").split(",")
        numbers = int(n), int(d), *(float(part) for part in cosine)
        size, angle = numbers[:2], {"cosine": numbers[2]} if cosine else {}
    except ValueError:
        raise RangeError(f"expected --gaussian N,D, for example 50,384, got {gaussian!r}") from None
    return synthetic(*size, **angle, seed=seed, dtype=like.dtype, device=like.device)  # type: ignore[arg-type]


def _effort(given: str | None) -> dict[str, Any]:
    """A level, or how far certificates are refined."""
    if given is None:
        return {}
    target, _, seconds = given.partition(",")
    try:
        numbers = float(target), float(seconds) if seconds else None
    except ValueError:
        return {"effort": given}
    from oneword.bounds.certificate import Certify

    return {"certify": Certify(numbers[0], seconds=numbers[1])}


def _positions(given: list[str] | None) -> dict[str, Any]:
    if not given:
        return {}
    if given == ["all"]:
        return {"special": True}
    if given == ["tokens"]:
        return {"per_token": True}
    try:
        return {"positions": [int(each) for each in given]}
    except ValueError:
        raise RangeError(f"expected --position with a number, all or tokens, got {' '.join(given)!r}") from None


def _model(name: str, output: str, seed: int, like: Any) -> TransformerFeatures:
    """A model with the part of it that is measured: pooled, hidden:3, attention:2:5, module:encoder.layer.3."""
    from oneword.maps.transformer import TransformerFeatures

    kind, _, rest = output.partition(":")
    chosen: dict[str, Any] = {"module": rest} if kind == "module" else {"output": kind}
    if kind != "module" and rest:
        layer, _, head = rest.partition(":")
        try:
            chosen |= {"layer": int(layer)} | ({"head": int(head)} if head else {})
        except ValueError:
            raise RangeError(f"expected --output as pooled, hidden:3 or attention:3:5, got {output!r}") from None
    trained = name.removesuffix("@random")
    drawn = seed if trained != name else None
    return TransformerFeatures.load(trained, **chosen, dtype=like.dtype, device=like.device, random_init=drawn)


def _real_words(encoder: Any, among: str | None) -> Any:
    """The whole vocabulary, a list of one's own, words of letters, or none."""
    from oneword.cli.texts import word_list
    from oneword.sets.vocabulary import Vocabulary

    if among is None:
        return None
    if among == "none":
        return False
    return Vocabulary.of(encoder, letters=True) if among == "letters" else word_list(Path(among))


def _write(found: WordTable, outputs: Outputs, top: int) -> None:
    """Whatever was asked for: the terminal, a page, JSON, a table, a folder of results and figures."""
    if not outputs.silent:
        from rich.console import Console

        from oneword.report.words.terminal import WordsView

        Console(highlight=False).print(WordsView(found, top))
    if outputs.html is not None:
        found.save_html(outputs.html, command=command_line(), top=top)
    outputs.write_table(found.words)
    outputs.write_json(found.to_dict(command_line()))
    folder = outputs.folder()
    if folder is not None:
        _write_folder(found, folder)
        if not outputs.silent:
            typer.echo(
                f"written to {printable(str(folder))}: results (*.json), tables (*.parquet) and figures (*.pdf, *.png)"
            )


def _write_folder(found: WordTable, folder: Path) -> None:
    from oneword.plot.print import save
    from oneword.report.words.figures import heads_figure, layers_figure

    figures = {_file_name(name): result.plot() for name, result in found.results.items()}
    for name, result in found.results.items():
        result.save(folder / f"{_file_name(name)}.json")
    for part in found.parts:
        name = _file_name(part.subject.by + (f"-text{part.subject.text}" if len(found.texts) > 1 else ""))
        figures |= {f"{name}-layers": layers_figure(part)} if len(part.layers) else {}
        figures |= {f"{name}-heads": heads_figure(part)} if len(part.heads) else {}
    for table in ("words", "layers", "heads"):
        if len(getattr(found, table)):
            write_table(getattr(found, table), folder / f"{table}.parquet")
    for name, figure in figures.items():
        save(figure, folder, name, ("pdf", "png"))


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip("-")
