"""`oneword doctor`: what is installed and what can be had offline."""

from __future__ import annotations

from typing import Annotated

import typer

from oneword.cli.common import dump


def doctor(
    json_file: Annotated[
        str | None, typer.Option("--json", metavar="FILE", help="Write the findings to a file; - is standard output.")
    ] = None,
) -> None:
    """What is installed, what this machine offers, and which models and corpora can be had offline."""
    from oneword import doctor as checks

    findings = checks.examine()
    if json_file is not None:
        dump(findings, json_file)
        return
    from rich.console import Console

    Console().print(checks.shown(findings))
