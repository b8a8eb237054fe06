"""`oneword app`: the interactive page on this machine."""

from __future__ import annotations

import socket
from typing import Annotated

import typer

from oneword.errors import RangeError

ANYWHERE = "0.0.0.0"


def app(
    model: Annotated[
        list[str] | None,
        typer.Option("--model", metavar="M", help="minilm (embedded), a folder, a hub name. Repeat for several."),
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Of the page; the first free one from 7860 on by default.", min=1, max=65535)
    ] = None,
    host: Annotated[
        str, typer.Option(help=f"Who may see it: 127.0.0.1 is this machine alone, {ANYWHERE} its whole network.")
    ] = "127.0.0.1",
    share: Annotated[
        bool, typer.Option("--share", help="A public address for a few days: texts travel through Gradio's servers.")
    ] = False,
    open_browser: Annotated[bool, typer.Option("--browser", help="Open it in the browser of this machine.")] = False,
) -> None:
    """A page to type into: words in colour, their worst replacements, layers, shorter texts, one word changed by hand.

    It works offline, keeps nothing and sends nothing. Visitors wait in line for what takes long, so that several people
    can use one page; texts have at most 300 words (`oneword measure` takes longer ones). Ctrl-C ends it.

    [bold]Examples[/bold]

    oneword app

    oneword app --model ./my-encoder --port 8000
    """
    from oneword.text.sources import expect_hub

    names = tuple(dict.fromkeys(model or ("minilm",)))
    _check_free(host, port)  # before anything that takes long
    for name in names:
        expect_hub(name)
    from oneword.app.server import serve

    typer.echo("oneword: reading the models …")
    running = serve(names, host=host, port=port, share=share, browser=open_browser)
    typer.echo(f"oneword: the page is at {running.url} (Ctrl-C ends it)")
    if share:
        typer.echo(f"oneword: for anybody who knows the address: {running.share_url or 'none could be had'}")
    try:
        running.wait()
    except KeyboardInterrupt:  # as it is meant to end
        pass
    finally:
        running.close()


def _check_free(host: str, port: int | None) -> None:
    try:
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((host, port or 0))
    except OSError as error:
        where = (
            f"a --port that is free on --host {host}, got {port}" if port else f"a --host of this machine, got {host}"
        )
        raise RangeError(f"expected {where} ({error.strerror or error})") from None
