"""`oneword measure`: every word of a text, for each map."""

from __future__ import annotations

import difflib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oneword.cli.common import Debug, JsonFile, Quiet, Seed, dump, stages, writable_folder
from oneword.errors import FileFormatError, RangeError, UnknownNameError

if TYPE_CHECKING:
    import torch

    from oneword.maps.base import FeatureMap
    from oneword.result import Sensitivity

MAPS = "attention, attention-relu, attention-relu-unnormalised, rf, drf-L (L layers)"
DEFAULT_MAPS = ["attention", "attention-relu", "rf"]


def measure(
    text: Annotated[
        str | None, typer.Argument(metavar="TEXT", help="The text itself, in quotes; each of its words is measured.")
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", metavar="F", help="A text file (UTF-8), instead.")] = None,
    encoder: Annotated[
        str, typer.Option(help="Whose layer 0 makes words vectors: minilm (embedded), a model folder, or a hub name.")
    ] = "minilm",
    dimension: Annotated[
        int | None, typer.Option("-d", "--dimension", help="Keep the first coordinates only; all by default.")
    ] = None,
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
    seed: Seed = 0,
    dtype: Annotated[str, typer.Option(help="float64 or float32.")] = "float64",
    device: Annotated[str, typer.Option(help="cpu, cuda, …; certificates are computed on the CPU.")] = "cpu",
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write results (JSON) and figures (PDF, PNG) here.")
    ] = None,
    json_file: JsonFile = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Measure every word of a text, for each map: S_φ(X) of Eq. 1, the sup over ALL positions and the whole ball.

    "S ≥" is attained by a change that was found, "S ≤" is certified: no change within the radius exceeds it, but real
    words mostly lie outside the ball. "random" is the mean over random changes.

    [bold]Examples[/bold]

    oneword measure "I love her much"

    oneword measure --file review.txt --map attention

    oneword measure --gaussian 100,768 --map attention --target 1.1 --seconds 60 --out results

    oneword measure --gaussian 40,64 --map rf --map drf-3 --words 5 --json -
    """
    from oneword import Ascent, Ball, Certify, Sphere, sensitivity

    number_type = _dtype(dtype)
    _check_device(device)
    if sum(given is not None for given in (text, file, gaussian)) != 1:
        raise RangeError(
            "expected one text, got none or several: give it in quotes, or --file F, or --gaussian N,D; "
            'for example oneword measure "I love her much"'
        )
    if gaussian is not None:
        from oneword.text.synthetic import gaussian as draw_text

        n, d = _two_numbers(gaussian)
        context = draw_text(n, d, cosine=cosine, seed=seed, dtype=number_type, device=device)
    else:
        from oneword.text.encoders import Encoder

        content = text if text is not None else _read(file)
        context = Encoder.load(encoder).encode(content, d=dimension, dtype=number_type)
        context = replace(context, X=context.X.to(device))
    n, d = context.n, context.d
    span = None if radius is None else radius * d**0.5
    within = Sphere(largest=span) if sphere else Ball(span)
    search = Ascent.quick() if quick else Ascent()
    certify = Certify.plain() if quick else Certify(target, seconds)

    results = []
    for name in maps or DEFAULT_MAPS:
        phi = _map(name, n, d, seed, number_type, device)
        with stages(name, quiet or json_file == "-") as report:
            results.append(
                sensitivity(
                    phi, context, within=within, words=words, positions=position or None, search=search,
                    certify=certify, seed=seed, progress=report,
                )
            )  # fmt: skip
        if not quiet and json_file != "-":
            from rich.console import Console

            Console().print(results[-1], "")
        if out is not None:
            _write(results[-1], writable_folder(out), name)
    if json_file is not None:
        dump([result.to_dict() for result in results], json_file)
    if out is not None and not quiet and json_file != "-":
        typer.echo(f"written to {out}: results (*.json with *.safetensors) and figures (*.pdf, *.png)")


def _read(file: Path | None) -> str:
    assert file is not None
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise FileFormatError(f"expected a readable text file in UTF-8, got {file} ({error})") from None


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


def _write(result: Sensitivity, folder: Path, name: str) -> None:
    result.save(folder / f"{name}.json")
    figure = result.plot()
    try:
        for suffix in ("pdf", "png"):
            figure.savefig(folder / f"{name}.{suffix}")
    except OSError as error:
        raise RangeError(
            f"expected --out to name a folder that can be written, got {folder} ({error.strerror})"
        ) from None
