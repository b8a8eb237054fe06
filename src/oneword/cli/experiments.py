"""`oneword reproduce` and `oneword sweep`: many cells, on all cores or a cluster, going on where they were stopped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from oneword.checks import printable
from oneword.cli.common import JsonFile, Quiet, Seed, check_place, command_line, dump
from oneword.cli.watch import Watch, watched
from oneword.cli.workers import (
    Address,
    CellTimeout,
    JobQueue,
    Retries,
    SchedulerFile,
    TlsAuthority,
    TlsCertificate,
    TlsKey,
    Workers,
    where,
)
from oneword.files import make_folder

if TYPE_CHECKING:
    import pandas as pd

    from oneword.experiments.run import Plan

Out = Annotated[
    Path, typer.Option(metavar="DIR", help="Folder of the run. The same command goes on from what is there.")
]
EncoderName = Annotated[
    str | None, typer.Option("--encoder", help="minilm (the default), mpnet, a model folder, or a hub name.")
]
CorpusName = Annotated[
    str | None,
    typer.Option(
        "--corpus", help="imdb-embedded (the default), a CSV/JSONL/Parquet file, the aclImdb folder, a hub name."
    ),
]


def reproduce(
    figure: Annotated[
        list[str] | None, typer.Argument(metavar="FIGURE", help="Only these, for example fig2 fig3; all by default.")
    ] = None,
    scale: Annotated[
        str,
        typer.Option(
            help="quick: all claims in minutes; paper: the paper's lengths at the encoder's widths, about an hour."
        ),
    ] = "quick",
    out: Out = Path("results"),
    encoder: EncoderName = None,
    corpus: CorpusName = None,
    trials: Annotated[int | None, typer.Option(help="Trials a point, instead of the scale's own.")] = None,
    seed: Seed = 0,
    workers: Workers = None,
    cluster: Address = None,
    scheduler_file: SchedulerFile = None,
    jobqueue: JobQueue = None,
    tls_ca: TlsAuthority = None,
    tls_cert: TlsCertificate = None,
    tls_key: TlsKey = None,
    cell_timeout: CellTimeout = None,
    retries: Retries = 3,
    json_file: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """The paper's evidence: every figure, every theorem as a claim with a verdict, and one page to read.

    In DIR: report.html, verdict.json, results.parquet, figures/*.pdf, run.json. Exit code 1 if a claim fails.

    [bold]Examples[/bold]

    oneword reproduce

    oneword reproduce fig2 fig3 --trials 5 --out my-results

    oneword reproduce --scale paper --encoder bert-base-uncased --corpus imdb --cluster tcp://head:8786
    """
    from oneword.experiments import paper
    from oneword.experiments.judging import failed, verdict_json
    from oneword.report.paper.claims import claims_table

    silent = quiet or json_file == "-"
    if json_file is not None and json_file != "-":
        check_place("--json", Path(json_file))
    with watched(quiet, "reproduce") as watch:
        done = paper.reproduce(
            out,
            scale,
            figure or (),
            seed=seed,
            encoder=encoder,
            corpus=corpus,
            trials=trials,
            command=command_line(),
            progress=watch,
            on_start=_start(watch),
            **where(workers, cluster, scheduler_file, jobqueue, (tls_ca, tls_cert, tls_key), cell_timeout, retries),
        )
    if json_file is not None:
        dump(verdict_json(done.claims), json_file)
    if not silent:
        from rich.console import Console

        Console().print(claims_table([claim.to_json() for claim in done.claims]))
        typer.echo(
            f"written to {printable(str(out))}: report.html, verdict.json, results.parquet, run.json and figures"
        )
        for name, install in done.left_out.items():
            typer.echo(f"left out: {name}, whose model is not installed: {install}")
    if failed(done.claims):
        raise typer.Exit(1)


def sweep(
    spec: Annotated[Path, typer.Argument(metavar="SPEC.toml", help="Tables of grids, as in the example above.")],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the run; by default named like the file.")
    ] = None,
    workers: Workers = None,
    cluster: Address = None,
    scheduler_file: SchedulerFile = None,
    jobqueue: JobQueue = None,
    tls_ca: TlsAuthority = None,
    tls_cert: TlsCertificate = None,
    tls_key: TlsKey = None,
    cell_timeout: CellTimeout = None,
    retries: Retries = 3,
    trust_code: Annotated[
        bool, typer.Option("--trust-code", help="Import maps given as package.module:factory, which runs their code.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    r"""A grid of your own: maps × lengths × dimensions × trials, with the exponents of S against n at the end.

    A file such as

        title = "Attention against random features"
        [\[sweep]]
        maps = ["attention", "rf"]
        n = [20, 40, 80]
        d = 96
        trials = 5

    gives DIR/results.parquet, one row a measurement: pandas.read_parquet opens it.
    """
    from oneword.experiments.rows import fits
    from oneword.experiments.run import run
    from oneword.experiments.spec import load_spec

    wanted = load_spec(spec, trust_code=trust_code)
    folder = out or Path(spec.stem)
    with watched(quiet, wanted.title) as watch:
        about = {"command": command_line(), "title": wanted.title, "description": wanted.description}
        place = where(workers, cluster, scheduler_file, jobqueue, (tls_ca, tls_cert, tls_key), cell_timeout, retries)
        table = run(wanted.cells, folder, progress=watch, on_start=_start(watch), about=about, **place)
    _show_trained(table, folder, quiet)
    if not quiet:
        _show_exponents(fits(table))
        typer.echo(f"written to {printable(str(folder))}: {len(table)} rows in results.parquet, run.json")


def _show_exponents(found: pd.DataFrame) -> None:
    if found.empty:
        return
    import pandas as pd
    from rich.console import Console

    from oneword.report.table import grid

    about, rows = ["map", "words_from", "d", "depth"], []
    for line in found.to_dict(orient="records"):
        shown = [
            "–" if pd.isna(value := line[name]) else value if isinstance(value, str) else f"{value:g}" for name in about
        ]
        rows.append([*shown, f"{line['slope']:+.3f}", f"{line['low']:+.3f} … {line['high']:+.3f}"])
    titles = (*about, "S ∝ n^", "95 % interval")
    Console(highlight=False).print(grid(titles, rows, left=titles))


def _show_trained(table: pd.DataFrame, folder: Path, quiet: bool) -> None:
    """Trained models: what each quantity is at each length and how it goes with n, as a table and a figure."""
    from oneword.experiments.rows import trained_fits, trained_lengths

    lengths, found = trained_lengths(table), trained_fits(table)
    if found.empty:
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from oneword.plot.print import save
    from oneword.report.table import visible
    from oneword.report.words.figures import CURVES, lengths_figure

    save(lengths_figure(lengths, found), make_folder(folder / "figures"), "lengths")
    if quiet:
        return
    for (model, output), own in lengths.groupby(["model", "output"], sort=True):
        grid = Table("n =", title=Text(visible(f"{model}: {output}")), title_justify="left", box=None, pad_edge=False)
        sizes = sorted(own["n"].unique())
        for title in (*map(str, sizes), "∝ n^", "95 % interval"):
            grid.add_column(title, justify="right", no_wrap=True)
        fitted = found[(found["model"] == model) & (found["output"] == output)]
        for line in fitted.to_dict(orient="records"):
            means = own.groupby("n")[line["column"]].mean()
            interval = f"{line['low']:+.2f} … {line['high']:+.2f}"
            name = CURVES[line["column"]].name
            grid.add_row(name, *(f"{means[n]:.2f}" for n in sizes), f"{line['slope']:+.2f}", interval)
        Console().print(grid)


def _start(watch: Watch) -> Callable[[Plan], None]:
    """Say what is about to be done, and how long it may take."""

    def start(plan: Plan) -> None:
        kept = f", {plan.kept} of them done before" if plan.kept else ""
        at_once = max(1, plan.workers)
        watch.say(f"{plan.cells} cells{kept}, {at_once} at a time")
        watch.estimate(plan.seconds / at_once)

    return start
