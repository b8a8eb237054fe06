"""The command `oneword`: the commands put together, and how they end: an exit code, and a line if something failed."""

from __future__ import annotations

import errno
import os
import sys
import traceback
import warnings
from typing import Annotated

import typer

from oneword._version import __version__
from oneword.checks import described, printable
from oneword.cli.app import app as page
from oneword.cli.audit import audit
from oneword.cli.cache import cache
from oneword.cli.chat import chat
from oneword.cli.compare import compare
from oneword.cli.doctor import doctor
from oneword.cli.experiments import reproduce, sweep
from oneword.cli.measure import measure
from oneword.cli.streams import any_encoding
from oneword.errors import CellError, OnewordError

# What a script may rely on. 1 is left to commands: a claim or a threshold that failed, and nothing else.
BAD_INPUT, OUR_FAULT, INTERRUPTED, NOBODY_READS = 2, 70, 130, 141  # the last: standard output was closed, as by `head`
# What a machine can be short of; whoever runs it can help that, we cannot.
_MACHINE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM}

app = typer.Typer(
    name="oneword",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="How much can one word change? Word sensitivity of layers and models: searched, certified, exact.",
    epilog="Exit codes: 0 done · 1 a threshold or claim failed · 2 bad input (one line says what was expected) · "
    "70 a fault of oneword's own · 130 stopped by Ctrl-C. --debug shows the whole traceback of an error.",
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


for command in (measure, compare, chat, reproduce, sweep, audit, page, doctor):
    app.command()(command)
app.add_typer(cache, name="cache")


def main() -> None:
    """The entry point: whatever happens ends in one of the exit codes, with at most one line about it."""
    # Read when torch is loaded. Threads that wait spin for milliseconds by default, which on a busy machine takes six
    # times as long; this many turns are some 20 μs.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    debug = "--debug" in sys.argv
    sys.argv = [argument for argument in sys.argv if argument != "--debug"]
    any_encoding(sys.stdout, sys.stderr)
    try:
        with warnings.catch_warnings():  # warnings are for people, too: one line, no file and line number
            warnings.showwarning = lambda message, *rest: _say(str(message))
            _run()
    except (Exception, KeyboardInterrupt) as error:  # all that a command may raise
        code, line = _verdict(error)
        if debug:
            traceback.print_exc()
        elif line:
            _say(line)
        sys.exit(code)


def _run() -> None:
    """Typer and rich turn some errors into an exit: those are raised again."""
    try:
        app()
    except SystemExit as end:
        cause: BaseException | None = end
        while cause is not None:
            if isinstance(cause, KeyboardInterrupt | BrokenPipeError):
                raise cause from None
            cause = cause.__context__
        sys.stdout.flush()  # here, where a disk that is full can still be told
        raise


def _verdict(error: BaseException) -> tuple[int, str]:
    """The exit code of an error, and what is said of it."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED, ": ".join(["stopped", *map(str, error.args)])
    if isinstance(error, BrokenPipeError):
        _drop_output()
        return NOBODY_READS, ""
    if isinstance(error, CellError) and error.__cause__ is not None:  # its cells raised what nobody raises on purpose
        return OUR_FAULT, f"{described(error)}: unless a map of your own raised this, {_REPORT}"
    if isinstance(error, OnewordError):
        return BAD_INPUT, described(error)
    if isinstance(error, OSError) and error.errno in _MACHINE:
        _drop_output()
        return BAD_INPUT, f"{described(error)}: make room, or write elsewhere"
    if isinstance(error, MemoryError) or "can't allocate memory" in str(error):
        return BAD_INPUT, "MemoryError: expected enough memory, got too little: give a shorter text or a smaller size"
    return OUR_FAULT, f"{described(error)}: {_REPORT}"


_REPORT = "this is a fault of oneword's own; please report it with what the same command prints with --debug"


def _drop_output() -> None:
    """Whatever standard output could not take goes nowhere: Python would try again at the end, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(line: str) -> None:
    typer.echo(f"oneword: {printable(line)}", err=True)
