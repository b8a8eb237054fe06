"""The paper's experiments: which cells each figure consists of, and everything a reproduction leaves behind.

The cells of a figure are a TOML file of this package, one folder a scale: `quick` decides every claim within minutes,
`paper` has the lengths of the paper at the widths of the encoder, and takes about an hour. A folder in it that is named
like a width has the files for encoders of that width, for which the others would take too long.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import pandas as pd

from oneword.experiments.cell import Cell, TextCell, choice
from oneword.experiments.cells.chat import ChatCell
from oneword.experiments.claims import verdict
from oneword.experiments.judging import Claim, write_verdict
from oneword.experiments.rows import figure_rows, fits
from oneword.experiments.run import Plan, run
from oneword.experiments.spec import load_spec
from oneword.experiments.store import RUN
from oneword.files import read_regular
from oneword.progress import Progress, part, silent
from oneword.report.paper.figures import draw_all
from oneword.report.paper.page import check_installed, render
from oneword.text.encoders import Encoder

WIDTH = 384  # of the default encoder, for which the specs of a scale are written
CELLS = 0.95  # the share of the time that cells take; the rest is figures and the page


@dataclass(frozen=True, eq=False)
class Reproduction:
    """The table of all cells, what it says about each claim, and what was `left_out`, with how to add it."""

    table: pd.DataFrame
    claims: list[Claim]
    files: list[Path]
    left_out: dict[str, str] = field(default_factory=dict)


def scales() -> list[str]:
    """The sizes in which the experiments come."""
    return sorted((entry.name for entry in _specs().iterdir() if entry.is_dir()), reverse=True)


def figures(scale: str) -> list[str]:
    """The names that a scale's experiments go by."""
    folder = _specs() / choice("scale", scale, scales())
    return sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml"))


def cells(
    scale: str,
    wanted: Sequence[str] = (),
    *,
    seed: int = 0,
    encoder: str | None = None,
    corpus: str | None = None,
    trials: int | None = None,
) -> list[Cell]:
    """The cells of the wanted figures, or of all, without those whose model is not installed (`left_out`)."""
    known = figures(scale)
    for name in wanted:
        choice("figures", name, known)
    given = {"seed": seed, "encoder": encoder, "corpus": corpus, "trials": trials}
    override = {name: value for name, value in given.items() if value is not None}
    width = WIDTH if encoder is None else Encoder.load(encoder).d
    made: dict[str, Cell] = {}
    for name in wanted or known:
        spec, own_width = _spec(scale, name, width)
        made |= {cell.key: cell for cell in _at_share(width / own_width, load_spec(spec, override).cells)}
    return [cell for cell in made.values() if not (isinstance(cell, ChatCell) and cell.missing)]


def left_out(scale: str, wanted: Sequence[str] = ()) -> dict[str, str]:
    """Figures that need a model which is not installed, and the command that installs it."""
    of_figures = ((name, load_spec(_specs() / scale / f"{name}.toml").cells) for name in wanted or figures(scale))
    missing = ((name, cell.missing) for name, own in of_figures for cell in own if isinstance(cell, ChatCell))
    return {f"{name}-chat": command for name, command in missing if command}


def reproduce(
    out: str | os.PathLike[str],
    scale: str = "quick",
    wanted: Sequence[str] = (),
    *,
    seed: int = 0,
    encoder: str | None = None,
    corpus: str | None = None,
    trials: int | None = None,
    command: str = "",
    progress: Progress = silent,
    on_start: Callable[[Plan], None] | None = None,
    **where: Any,
) -> Reproduction:
    """Do the cells, judge the claims, draw the figures and write the page; all of it in `out`.

    `where` are the arguments of `run` that say who does the cells: workers, cluster, cell_timeout, retries.

    What can be refused is refused before `out` is made.
    """
    out = Path(out)
    check_installed()
    todo = cells(scale, wanted, seed=seed, encoder=encoder, corpus=corpus, trials=trials)
    about: dict[str, Any] = {
        "command": command,
        "scale": scale,
        "figures": list(wanted) or figures(scale),
        "seed": seed,
    }
    about["left_out"] = left_out(scale, wanted)
    cells_done = part(progress, 0.0, CELLS)
    table = run(todo, out, progress=cells_done, on_start=on_start, about=about, **where)
    progress("figures and page", CELLS)
    claims = verdict(table)
    written = [write_verdict(claims, out / "verdict.json")]
    rows, slopes = figure_rows(table), fits(table)
    written += draw_all(rows, out / "figures", slopes)
    run_about = json.loads(read_regular(out / RUN))
    written.append(render(rows, [claim.to_json() for claim in claims], run_about, out / "report.html", slopes))
    return Reproduction(table, claims, written, about["left_out"])


def _specs() -> Traversable:
    return files("oneword.experiments") / "specs"


def _spec(scale: str, name: str, width: int) -> tuple[Traversable, int]:
    """The file of a figure for encoders of a width, and the width that it is written for."""
    folder = _specs() / scale
    own = folder / str(width) / f"{name}.toml"
    return (own, width) if own.is_file() else (folder / f"{name}.toml", WIDTH)


def _at_share(share: float, made: Iterable[Cell]) -> Iterator[Cell]:
    """The same shares of the width of another encoder: a quarter, a half, all of it."""
    for cell in made:
        if share != 1 and isinstance(cell, TextCell) and cell.words_from == "corpus":
            as_wide = cell.k == cell.n * cell.d
            d = max(1, int(cell.d * share))
            yield replace(cell, d=d, k=None if as_wide else cell.k)
        else:
            yield cell
