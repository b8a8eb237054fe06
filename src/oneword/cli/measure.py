"""The command line: parse, call, print. Everything heavy is imported inside a command, so that --help is quick."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from oneword._version import __version__
from oneword.errors import OnewordError, RangeError, UnknownNameError

if TYPE_CHECKING:
    import torch

    from oneword.maps.base import FeatureMap
    from oneword.measure import Report
    from oneword.result import Sensitivity

app = typer.Typer(
    name="oneword",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="How much can one word change? Word sensitivity of layers and models: searched, certified, exact.",
    epilog="Exit codes: 0 done · 1 a threshold or claim failed · 2 bad input (one line says what was expected).",
)

MAPS = "attention, attention-relu, attention-relu-unnormalised, rf, drf-L (L layers)"
DEFAULT_MAPS = ["attention", "attention-relu", "rf"]


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"oneword {__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


@app.command()
def measure(
    gaussian: Annotated[
        str | None,
        typer.Option("--gaussian", metavar="N,D", help="A synthetic text: N Gaussian words of dimension D, norm √D."),
    ] = None,
    cosine: Annotated[float, typer.Option(help="Average cosine between two words of that text.")] = 0.07,
    maps: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="MAP", help=f"Repeat for several: {MAPS}. Default: three of them."),
    ] = None,
    words: Annotated[int, typer.Option(help="How many words change at once (more than one: chosen greedily).")] = 1,
    position: Annotated[
        list[int] | None, typer.Option("--position", metavar="I", help="Only this word may change; repeat for several.")
    ] = None,
    sphere: Annotated[
        bool,
        typer.Option("--sphere", help="New words lie on the sphere of norm √d, as real words do, not in the ball."),
    ] = False,
    radius: Annotated[float | None, typer.Option(help="Largest ‖Δ‖, in units of √d; 1 is the paper's ball.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="One start a position and the closed-form certificate.")
    ] = False,
    target: Annotated[float, typer.Option(help="Refine the certificate until upper/value is at most this …")] = 1.2,
    seconds: Annotated[float, typer.Option(help="… or this many seconds have passed, for each map.")] = 10.0,
    seed: Annotated[int, typer.Option(help="Of the text, the map's weights and the search.")] = 0,
    dtype: Annotated[str, typer.Option(help="float64 or float32.")] = "float64",
    device: Annotated[str, typer.Option(help="cpu, cuda, …; certificates are computed on the CPU.")] = "cpu",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write results (JSON) and figures (PDF, PNG) here.")
    ] = None,
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write all results to one file; - is standard output.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No tables and no progress.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the whole traceback of an error.")] = False,
) -> None:
    """Measure every word of a text, for each map: S_φ(X) of Eq. 1, the sup over ALL positions and the whole ball.

    "S ≥" is attained by a change that was found, "S ≤" is certified: no change within the radius exceeds it, but real
    words mostly lie outside the ball. "random" is the mean over random changes.

    [bold]Examples[/bold]

    oneword measure --gaussian 50,384

    oneword measure --gaussian 100,768 --map attention --target 1.1 --seconds 60 --out results

    oneword measure --gaussian 40,64 --map rf --map drf-3 --words 5 --json -
    """
    from oneword import Ascent, Ball, Certify, Sphere, sensitivity
    from oneword.text.synthetic import gaussian as draw_text

    if gaussian is None:
        raise RangeError("expected a text, got none: give --gaussian N,D, for example --gaussian 50,384")
    n, d = _two_numbers(gaussian)
    number_type = _dtype(dtype)
    _check_device(device)
    text = draw_text(n, d, cosine=cosine, seed=seed, dtype=number_type, device=device)
    span = None if radius is None else radius * d**0.5
    within = Sphere(largest=span) if sphere else Ball(span)
    search = Ascent.quick() if quick else Ascent()
    certify = Certify.plain() if quick else Certify(target, seconds)

    results = []
    for name in maps or DEFAULT_MAPS:
        phi = _map(name, n, d, seed, number_type, device)
        with _progress(name, quiet or json_file == "-") as report:
            results.append(
                sensitivity(
                    phi, text, within=within, words=words, positions=position or None, search=search, certify=certify,
                    seed=seed, progress=report,
                )
            )  # fmt: skip
        if not quiet and json_file != "-":
            from rich.console import Console

            Console().print(results[-1], "")
        if out is not None:
            _write(results[-1], out, name)
    if json_file is not None:
        _dump([result.to_dict() for result in results], json_file)
    if out is not None and not quiet and json_file != "-":
        typer.echo(f"written to {out}: results (*.json with *.safetensors) and figures (*.pdf, *.png)")


@app.command()
def doctor(
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the findings to a file; - is standard output.")
    ] = None,
) -> None:
    """What is installed, what this machine offers, and which models and corpora can be had offline."""
    from oneword import doctor as checks

    findings = checks.examine()
    if json_file is not None:
        _dump(findings, json_file)
        return
    from rich.console import Console

    Console().print(checks.shown(findings))


def main() -> None:
    """The entry point: errors that a user can cause are one line and exit code 2."""
    try:
        app()
    except OnewordError as error:
        if "--debug" in sys.argv:
            raise
        typer.echo(f"oneword: {type(error).__name__}: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("oneword: stopped", err=True)
        sys.exit(130)


def _two_numbers(text: str) -> tuple[int, int]:
    try:
        n, d = (int(part) for part in text.replace("x", ",").split(","))
    except ValueError:
        raise RangeError(f"expected --gaussian N,D with two whole numbers, for example 50,384, got {text!r}") from None
    return n, d


def _dtype(name: str) -> torch.dtype:
    import torch

    if name not in ("float64", "float32"):
        raise UnknownNameError(f"expected --dtype float64 or float32, got {name!r}")
    return torch.float64 if name == "float64" else torch.float32


def _check_device(name: str) -> None:
    import torch

    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UnknownNameError(f"expected --device to name a device that is here, got {name!r} ({reason})") from None


def _map(name: str, n: int, d: int, seed: int, dtype: torch.dtype, device: str) -> FeatureMap:
    """The map a name on the command line stands for."""
    from oneword import AttentionFeatures, DeepRandomFeatures, RandomFeatures
    from oneword.maps.scores import SCORES, score

    kind, _, detail = name.partition("-")
    if kind == "attention" and (not detail or difflib.get_close_matches(detail, SCORES)):
        return AttentionFeatures.draw(d, score=score(detail or "softmax"), seed=seed, dtype=dtype, device=device)
    if name == "rf":
        return RandomFeatures.draw(n, d, seed=seed, dtype=dtype, device=device)
    if kind == "drf" and detail.isdecimal():
        return DeepRandomFeatures.draw(n, d, depth=int(detail), seed=seed, dtype=dtype, device=device)
    raise UnknownNameError(f"expected --map out of {MAPS}, got {name!r}")


@contextmanager
def _progress(name: str, silent: bool) -> Iterator[Report]:
    """A bar with the time left on standard error, gone when the work is done; none where nobody watches."""
    if silent or not sys.stderr.isatty():
        yield lambda stage, done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:3.0f} %"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name, total=1.0)
        stage_now = ""

        def report(stage: str, done: float) -> None:
            nonlocal stage_now
            if stage != stage_now:  # each stage has its own clock
                bar.reset(task, description=f"{name}: {stage}")
                stage_now = stage
            bar.update(task, completed=done)

        yield report


def _write(result: Sensitivity, folder: Path, name: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RangeError(f"expected --out to name a folder that can be made, got {folder} ({error.strerror})") from None
    result.save(folder / f"{name}.json")
    figure = result.plot()
    try:
        for suffix in ("pdf", "png"):
            figure.savefig(folder / f"{name}.{suffix}")
    except OSError as error:
        raise RangeError(
            f"expected --out to name a folder that can be written, got {folder} ({error.strerror})"
        ) from None


def _dump(data: Any, target: str) -> None:
    text = json.dumps(data, indent=1, allow_nan=False)
    if target == "-":
        typer.echo(text)
        return
    try:
        Path(target).write_text(text + "\n")
    except OSError as error:
        raise RangeError(
            f"expected --json to name a file that can be written, got {target} ({error.strerror})"
        ) from None
