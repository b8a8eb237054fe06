"""Options of commands that do many cells: who does them, and what happens to a cell that does not come back."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

_option = partial(typer.Option, rich_help_panel="Workers")
Workers = Annotated[int | None, _option(help="Processes on this machine; as many as cores by default, 0 for none.")]
Address = Annotated[
    str | None, _option("--cluster", metavar="ADDRESS", help="A Dask scheduler of your own instead, tcp://host:port.")
]
SchedulerFile = Annotated[
    Path | None, _option(metavar="FILE", help="The same by the file that `dask scheduler --scheduler-file` writes.")
]
JobQueue = Annotated[
    Path | None, _option("--jobqueue", metavar="FILE.toml", help="Jobs of SLURM, PBS, … that are started for this run.")
]
TlsAuthority = Annotated[
    Path | None, _option("--tls-ca", metavar="PEM", help="For tls://: the authority that signed the certificates.")
]
TlsCertificate = Annotated[Path | None, _option("--tls-cert", metavar="PEM", help="The certificate of this client.")]
TlsKey = Annotated[Path | None, _option("--tls-key", metavar="PEM", help="Its key.")]
CellTimeout = Annotated[
    float | None,
    _option(metavar="SECONDS", help="A cell that takes longer is ended, tried again, and named at the end."),
]
Retries = Annotated[int, _option(help="How often to try a cell again that took too long or whose process died.")]


def where(
    workers: int | None,
    address: str | None,
    scheduler_file: Path | None,
    jobqueue: Path | None,
    tls: tuple[Path | None, Path | None, Path | None],
    cell_timeout: float | None,
    retries: int,
) -> dict[str, Any]:
    """The arguments of `experiments.run.run` that these options mean."""
    from oneword.errors import RangeError
    from oneword.experiments.cluster import Cluster

    cluster = None
    if any(way is not None for way in (address, scheduler_file, jobqueue)):
        ca, cert, key = tls
        cluster = Cluster(
            address=address, scheduler_file=scheduler_file, jobqueue=jobqueue, tls_ca=ca, tls_cert=cert, tls_key=key
        )
    elif any(tls):
        raise RangeError("expected --tls-ca, --tls-cert and --tls-key with --cluster or --scheduler-file, got neither")
    return {"workers": workers, "cluster": cluster, "cell_timeout": cell_timeout, "retries": retries}
