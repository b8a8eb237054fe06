"""Jobs of a batch system (SLURM, PBS, LSF, …) that run Dask workers, as a TOML file describes them.

    system = "slurm"
    jobs = 20
    cores = 16
    memory = "48GB"
    walltime = "04:00:00"
    queue = "cpu"

`dask-jobqueue` writes and submits them. Each core gets a worker of its own, because a cell computes on one thread.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from oneword.validation import FileModel, read_model, read_toml

_CLASSES = {
    "slurm": "SLURMCluster", "pbs": "PBSCluster", "sge": "SGECluster", "lsf": "LSFCluster", "oar": "OARCluster",
    "moab": "MoabCluster", "htcondor": "HTCondorCluster", "local": "LocalCluster",
}  # fmt: skip
_SYSTEMS = Literal["slurm", "pbs", "sge", "lsf", "oar", "moab", "htcondor", "local"]
THREADS = [f"{name}_NUM_THREADS" for name in ("OMP", "MKL", "OPENBLAS", "NUMBA")]
_NO_QUEUE = ("local", "htcondor")


class Jobs(FileModel):
    """What the file may say.

    | key | default | meaning |
    |---|---|---|
    | `system` | | slurm, pbs, sge, lsf, oar, moab, htcondor, or local (processes of this machine, to try it) |
    | `jobs` | | how many to submit |
    | `cores`, `memory` | | of one job; a worker gets memory/cores |
    | `walltime`, `queue`, `account` | the system's own | passed on |
    | `directives` | [] | more lines for the head of the job script, such as "--exclusive" |
    | `prologue` | [] | shell commands before the workers start, such as "source /shared/.venv/bin/activate" |
    | `python` | this one | the interpreter of the workers |
    | `interface` | | the network interface that nodes reach each other by, such as "ib0" |
    | `log_directory` | none | where jobs write what they print |
    """

    system: _SYSTEMS
    jobs: int = Field(ge=1, le=10_000)
    cores: int = Field(ge=1, le=4096)
    memory: str
    walltime: str | None = None
    queue: str | None = None
    account: str | None = None
    directives: tuple[str, ...] = Field((), strict=False)
    prologue: tuple[str, ...] = Field((), strict=False)
    python: str | None = None
    interface: str | None = None
    log_directory: str | None = None

    @property
    def place(self) -> tuple[str, str]:
        """The module and the class of dask-jobqueue."""
        return f"dask_jobqueue.{self.system}", _CLASSES[self.system]

    def options(self) -> dict[str, Any]:
        """What that class takes."""
        # A local job is one command, and inherits the environment of this process.
        threads = [] if self.system == "local" else [f"export {name}=1" for name in THREADS]
        passed = {"python": self.python, "interface": self.interface, "log_directory": self.log_directory}
        if self.system not in _NO_QUEUE:
            passed |= {"walltime": self.walltime, "queue": self.queue, "account": self.account}
        return {
            "cores": self.cores,
            "processes": self.cores,
            "memory": self.memory,
            "job_name": "oneword",
            "job_extra_directives": list(self.directives),
            "job_script_prologue": [*threads, *self.prologue],
            "scheduler_options": {"dashboard": False, "dashboard_address": ":0"} | self._host(),
            **{name: value for name, value in passed.items() if value is not None},
        }

    def _host(self) -> dict[str, str]:
        return {"host": "127.0.0.1"} if self.system == "local" else {}


def read_jobs(file: Path) -> Jobs:
    """The jobs that a file describes. Raises FileFormatError, UnknownNameError or RangeError in one line."""
    return read_model(Jobs, read_toml(file, "a TOML file of jobs"), file.name)
