"""The command `oneword`: the commands put together, and errors as one line."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Annotated

import typer

from oneword._version import __version__
from oneword.cli.app import app as page
from oneword.cli.audit import audit
from oneword.cli.cache import cache
from oneword.cli.compare import compare
from oneword.cli.doctor import doctor
from oneword.cli.experiments import reproduce, sweep
from oneword.cli.measure import measure
from oneword.errors import OnewordError

app = typer.Typer(
    name="oneword",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="How much can one word change? Word sensitivity of layers and models: searched, certified, exact.",
    epilog="Exit codes: 0 done · 1 a threshold or claim failed · 2 bad input (one line says what was expected). "
    "--debug shows the whole traceback of an error.",
)


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


for command in (measure, compare, reproduce, sweep, audit, page, doctor):
    app.command()(command)
app.add_typer(cache, name="cache")


def main() -> None:
    """The entry point: errors that a user can cause are one line and exit code 2."""
    # Read when torch is loaded. Threads that wait spin for milliseconds by default, which on a busy machine takes six
    # times as long; this many turns are some 20 μs.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    debug = "--debug" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--debug"]
    try:
        with warnings.catch_warnings():  # warnings are for people, too: one line, no file and line number
            warnings.showwarning = lambda message, *rest: typer.echo(f"oneword: {message}", err=True)
            app()
    except OnewordError as error:
        if debug:
            raise
        typer.echo(f"oneword: {type(error).__name__}: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt as stopped:
        typer.echo(": ".join(["oneword: stopped", *map(str, stopped.args)]), err=True)
        sys.exit(130)
