"""`oneword cache`: what is kept on disk between runs, and how to be rid of it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from oneword.cli.common import dump

cache = typer.Typer(
    help="What is kept on disk between runs: corpora as token ids, so that they are tokenised once.",
    epilog="ONEWORD_CACHE names the folder, ONEWORD_CACHE_LIMIT its largest size (500MB, 1.5GB, …).",
    rich_markup_mode="rich",
)
JsonFile = Annotated[
    str | None, typer.Option("--json", metavar="FILE", help="Write the numbers to a file; - is standard output.")
]


@cache.callback(invoke_without_command=True)
def _show_by_default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        show()


@cache.command()
def show(json_file: JsonFile = None) -> None:
    """The folder, how much it holds and how much it may hold; beyond that, what was not used for longest goes.

    [bold]Examples[/bold]

    oneword cache show

    ONEWORD_CACHE_LIMIT=500MB oneword cache show --json -
    """
    from oneword.text import cache as store

    files, size = store.usage()
    found = {"folder": str(store.folder()), "files": files, "bytes": size, "limit": store.limit()}
    _answer(found, f"{found['folder']}: {_amount(files, size)}, at most {_megabytes(store.limit())}", json_file)


@cache.command()
def clear(json_file: JsonFile = None) -> None:
    """Remove all of it. Nothing is lost but time, even while other runs go on: what they need is made again.

    [bold]Examples[/bold]

    oneword cache clear
    """
    from oneword.text import cache as store

    files, size = store.clear()
    found = {"folder": str(store.folder()), "files": files, "bytes": size}
    _answer(found, f"removed {_amount(files, size)} from {found['folder']}", json_file)


def _answer(found: dict[str, Any], line: str, json_file: str | None) -> None:
    if json_file is not None:
        dump(found, json_file)
    else:
        typer.echo(line)


def _amount(files: int, size: int) -> str:
    return f"{files} file{'' if files == 1 else 's'}, {_megabytes(size)}"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
