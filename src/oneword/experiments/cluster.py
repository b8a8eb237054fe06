"""Where workers are: processes of this machine, a Dask scheduler of one's own, or jobs of a batch system.

All three end in the same thing, a `Place` with a scheduler, to which one can connect again when the connection was
lost. Nothing of Dask's own shows on the terminal.
"""

from __future__ import annotations

import json
import logging
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from importlib import import_module
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any, cast

from oneword.checks import described, shown
from oneword.errors import ClusterError, FileFormatError, RangeError
from oneword.experiments.cell import choice
from oneword.experiments.jobs import THREADS, Jobs, read_jobs
from oneword.files import read_named
from oneword.text.sources import Package

Client = Any  # distributed.Client
Connect = Callable[[float], Client]  # within so many seconds; raises ClusterError

# Before a worker starts, so that its libraries find them.
_ENVIRONMENT = {
    **dict.fromkeys(THREADS, "1"),
    "TOKENIZERS_PARALLELISM": "false",
}
_QUIET = {"DASK_DISTRIBUTED__LOGGING__DISTRIBUTED": "critical"}
_CONFIGURATION: dict[str, Any] = {
    "distributed.scheduler.worker-ttl": None,  # a long computation is no sign of death
    "distributed.scheduler.http.routes": [],  # dashboard off: there is nothing to be seen
    "distributed.worker.http.routes": [],
    "distributed.comm.timeouts.connect": "60s",  # a loaded machine is slow to start processes
    # What Dask does beside the work took a tenth of a core: it profiles, measures its own loop, and looks for tasks
    # that somebody else could do.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.gil.enabled": False,
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.active-memory-manager.start": False,
    # Dask has freed memory given back at once; fetching it anew for every step took more than half of the time.
    "distributed.nanny.pre-spawn-environ": {
        "MALLOC_TRIM_THRESHOLD_": str(1 << 31),
        "MALLOC_MMAP_THRESHOLD_": str(1 << 25),
    },
    # Memory was checked before: a worker that waits or spills would only be slower, and never done.
    **{f"distributed.worker.memory.{what}": False for what in ("target", "spill", "pause", "terminate")},
}
_SILENT = logging.CRITICAL + 1
_LARGEST = 1 << 20  # bytes of a scheduler file


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A Dask scheduler of one's own, reached in one of three ways.

    | field | meaning |
    |---|---|
    | `address` | tcp://host:port or tls://host:port |
    | `scheduler_file` | the file that `dask scheduler --scheduler-file` writes |
    | `jobqueue` | a TOML file that says which jobs to start in a batch system (docs/howto/cluster.md) |
    | `tls_ca`, `tls_cert`, `tls_key` | PEM files, all three, for a scheduler that speaks TLS |

    Raises RangeError unless it is exactly one of the first three, and all or none of the last three.
    """

    address: str | None = None
    scheduler_file: Path | None = None
    jobqueue: Path | None = None
    tls_ca: Path | None = None
    tls_cert: Path | None = None
    tls_key: Path | None = None

    def __post_init__(self) -> None:
        ways = [name for name in ("address", "scheduler_file", "jobqueue") if getattr(self, name) is not None]
        if len(ways) != 1:
            got = " and ".join(ways) or "none"
            raise RangeError(f"expected one way to a cluster (address, scheduler file or job queue), got {got}")
        if self.address is not None and not isinstance(self.address, str):
            raise RangeError(f"expected the address of a scheduler as a text, got {shown(self.address)}")
        given = [path is not None for path in self._tls]
        if any(given) and not all(given):
            raise RangeError(f"expected three files for TLS (authority, certificate, key), got {sum(given)}: give all")
        if any(given) and self.jobqueue is not None:
            raise RangeError("expected TLS files with an address or a scheduler file only: dask-jobqueue makes its own")

    @classmethod
    def of(cls, given: object) -> Cluster:
        """From an address, or from a mapping of the fields."""
        if isinstance(given, cls):
            return given
        if not isinstance(given, Mapping):
            return cls(address=cast(str, given))
        for name, value in given.items():
            choice("a field of cluster", name, [field.name for field in fields(cls)])
            if not (value is None or isinstance(value, str | os.PathLike)):
                raise RangeError(f"expected {name} of cluster as a text or a path, got {shown(value)}")
        values: dict[str, Any] = {
            name: value if name == "address" or value is None else Path(value) for name, value in given.items()
        }
        return cls(**values)

    @property
    def name(self) -> str:
        """For messages and for run.json."""
        return self.address or str(self.scheduler_file or self.jobqueue)

    @property
    def _tls(self) -> tuple[Path | None, ...]:
        return self.tls_ca, self.tls_cert, self.tls_key

    def security(self) -> Any:
        """Dask's own object for TLS; None without it."""
        if self.tls_ca is None:
            return None
        for path in self._tls:
            assert path is not None
            try:
                read_named(path, _LARGEST)
            except OSError as error:
                raise FileFormatError(f"expected a PEM file for TLS, got {path} ({error.strerror})") from None
        names = ("tls_ca_file", "tls_client_cert", "tls_client_key")
        files = {name: str(path) for name, path in zip(names, self._tls, strict=True)}
        return dask().Security(require_encryption=True, **files)

    def find_address(self) -> str:
        """The address, read anew from the scheduler file: a scheduler that was started again may have another one."""
        if self.address is not None:
            return self.address
        assert self.scheduler_file is not None
        try:
            address = json.loads(read_named(self.scheduler_file, _LARGEST))["address"]
        except OSError as error:
            raise ClusterError(
                f"expected the file of a scheduler, got {self.scheduler_file} ({error.strerror}): "
                "start a scheduler that writes it"
            ) from None
        except (ValueError, KeyError, TypeError):
            got = f"{self.scheduler_file}, which has no address"
            raise ClusterError(f"expected the file of a scheduler, got {got}") from None
        return str(address)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a scheduler is, how to connect to it, and what can be done if no worker is there.

    `memory` are the bytes that all its workers share; None where each has a machine of its own, as far as is known.
    """

    name: str
    connect: Connect
    remedy: str
    memory: float | None = None
    queued: bool = False  # its workers are jobs, which may wait for hours before they start


def dask(module: str = "distributed") -> Any:
    """A module of Dask, which is an extra."""
    return Package(module.replace("_", "-"), module, "cluster").imported()


@contextmanager
def local_workers(count: int, memory: float) -> Iterator[Place]:
    """So many processes of one thread each on this machine, bound to 127.0.0.1, that share so many bytes."""
    with _environment(_QUIET), _silence():
        distributed = dask()
        with dask("dask").config.set(_CONFIGURATION), ExitStack() as stack:
            try:
                with _interrupts_held():
                    cluster = distributed.LocalCluster(
                        n_workers=count,
                        threads_per_worker=1,
                        processes=True,
                        host="127.0.0.1",
                        dashboard_address=None,
                        # Without a port it would be 8787, which another run may have.
                        scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
                        memory_limit=None,
                        silence_logs=_SILENT,
                    )
                    stack.enter_context(cluster)
            except (RuntimeError, OSError, TimeoutError) as error:
                remedy = "use workers=0 or, in a script, put the call under `if __name__ == '__main__':`"
                none = f"none ({described(error)})"
                raise ClusterError(f"expected {count} worker processes, got {none}: {remedy}") from None
            yield Place(
                name="this machine",
                connect=lambda patience: distributed.Client(cluster, set_as_default=False),
                remedy="if memory has run out, stop it and use fewer workers",
                memory=memory,
            )


@contextmanager
def workers_of(cluster: Cluster) -> Iterator[Place]:
    """The workers of somebody's own scheduler; jobs of a batch system are started, and ended with the context."""
    with _silence():
        distributed = dask()
        if cluster.jobqueue is not None:
            jobs = read_jobs(cluster.jobqueue)
            with _environment(), dask("dask").config.set(_CONFIGURATION), _started(jobs) as own:
                yield Place(
                    name=cluster.name,
                    connect=lambda patience: distributed.Client(own, set_as_default=False),
                    remedy=f"look at the queue of {jobs.system} and the logs of the jobs",
                    queued=True,
                )
            return
        security = cluster.security()

        def connect(patience: float) -> Client:
            address = cluster.find_address()
            try:
                return distributed.Client(address, timeout=patience, security=security, set_as_default=False)
            except (OSError, TimeoutError, ValueError, TypeError, RuntimeError) as error:
                got = f"none ({described(error)})"
                raise ClusterError(f"expected a Dask scheduler at {shown(address)}, got {got}") from None

        remedy = f"start some with `dask worker {cluster.name} --nthreads 1`"
        if cluster.scheduler_file is not None:
            remedy = "start some with the same scheduler file"
        yield Place(name=cluster.name, connect=connect, remedy=remedy)


@contextmanager
def _started(jobs: Jobs) -> Iterator[Any]:
    """A scheduler in this process, and jobs whose workers connect to it. A job that ends is submitted again."""
    dask("dask_jobqueue")
    module, kind = jobs.place
    try:
        cluster = getattr(import_module(module), kind)(**jobs.options(), silence_logs=_SILENT)
    except (TypeError, ValueError, OSError, RuntimeError) as error:
        raise ClusterError(f"expected {jobs.jobs} jobs of {jobs.system}, got none ({described(error)})") from None
    try:  # `with` would wait for jobs that may be in a queue for hours
        cluster.adapt(minimum_jobs=jobs.jobs, maximum_jobs=jobs.jobs)
        yield cluster
    finally:
        cluster.close(timeout=30)


@contextmanager
def _environment(more: Mapping[str, str] | None = None) -> Iterator[None]:
    """Workers inherit what is set here, also those that replace a dead one; afterwards all is as it was."""
    before = dict(os.environ)
    os.environ.update(_ENVIRONMENT | dict(more or {}))
    try:
        yield
    finally:
        for name in set(os.environ) - set(before):
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Threads and processes that begin in here never see Ctrl-C, which a terminal sends to all of them: only this one
    does, after it, and ends them in good order."""
    resource_tracker.ensure_running()  # it would begin in here otherwise, and let Ctrl-C through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _silence() -> Iterator[None]:
    """Dask gives loggers below its own levels of their own, so all of them are silenced."""
    dask()  # which makes them
    tops = ("distributed", "tornado", "asyncio")
    names = [*tops, *(name for name in logging.root.manager.loggerDict if name.startswith("distributed."))]
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(_SILENT)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
