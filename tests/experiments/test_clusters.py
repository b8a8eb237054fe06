"""A scheduler of one's own and its workers, as processes: whatever happens to them, the same bits at the end."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oneword.errors import CellError, ClusterError
from oneword.experiments import dispatch
from oneword.experiments.cluster import Cluster
from oneword.experiments.run import run
from oneword.experiments.spec import grid
from tests.experiments.conftest import quick_cells
from tests.markdown_pages import ROOT, blocks

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")
pytestmark = pytest.mark.slow

CELLS = grid("sensitivity", {"maps": "attention", "n": 4, "d": 8, "trials": 80})
OLDER = """
import importlib.metadata
version = importlib.metadata.version
importlib.metadata.version = lambda name: "1.0" if name == "torch" else version(name)
"""


class Farm:
    """A scheduler and workers, each a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.file = folder / "scheduler.json"
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, *command: str, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMBA")}
        process = subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=self.folder,
            env=os.environ | threads | (env or {}),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def scheduler(self, *options: str) -> subprocess.Popen[bytes]:
        return self.start(
            "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard",
            "--scheduler-file", str(self.file), *options,
        )  # fmt: skip

    def worker(self, *options: str, env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        base = ("distributed.cli.dask_worker", self.address, "--nthreads", "1", "--no-dashboard")
        return self.start(*base, *(options or ("--no-nanny",)), env=env)

    def end(self) -> None:
        for process in self.processes:
            for number in (signal.SIGCONT, signal.SIGKILL):
                try:
                    os.killpg(process.pid, number)
                except ProcessLookupError:
                    break
            process.wait()


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[Farm]:
    farm = Farm(tmp_path)
    yield farm
    farm.end()


@pytest.fixture(scope="module")
def truth(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The table of an undisturbed run in one process."""
    out = tmp_path_factory.mktemp("truth")
    run(CELLS, out, workers=0)
    return (out / "results.parquet").read_bytes()


def at(cells: int, event: Callable[[], object]) -> Callable[[str, float], None]:
    """A progress callback that lets something happen, once, when so many cells are done."""
    happened: list[str] = []

    def progress(stage: str, done: float) -> None:
        if not happened and int(stage.split()[0]) >= cells:
            happened.append(stage)
            event()

    return progress


def makers(out: Path) -> dict[str, int]:
    """How many cells each worker made."""
    return {maker["worker"]: maker["cells"] for maker in json.loads((out / "run.json").read_text())["makers"]}


def said(seen: pytest.WarningsRecorder) -> list[str]:
    """What people are told: libraries have warnings for developers, too."""
    return [str(one.message) for one in seen if issubclass(one.category, UserWarning)]


def test_a_worker_that_is_killed(farm: Farm, truth: bytes, tmp_path: Path) -> None:
    farm.scheduler()
    first, _ = farm.worker(), farm.worker()
    run(CELLS, tmp_path / "out", cluster=farm.address, progress=at(5, first.kill))
    assert (tmp_path / "out" / "results.parquet").read_bytes() == truth
    assert sum(makers(tmp_path / "out").values()) == len(CELLS)


def test_a_worker_that_is_stopped_and_returns(
    farm: Farm, truth: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "SILENCE", 2.0)
    farm.scheduler()
    first, _ = farm.worker(), farm.worker()

    def stop() -> None:
        first.send_signal(signal.SIGSTOP)
        threading.Timer(6, first.send_signal, [signal.SIGCONT]).start()

    with pytest.warns(UserWarning, match="has not answered for 2 s: its cells go to others"):
        run(CELLS, tmp_path / "out", cluster=farm.address, progress=at(5, stop))
    assert (tmp_path / "out" / "results.parquet").read_bytes() == truth


def test_a_late_worker_of_other_versions_is_refused_and_named(
    farm: Farm, truth: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "SECONDS", 0.01)  # a cell an order, so that progress is told after every cell
    (tmp_path / "older").mkdir()
    (tmp_path / "older" / "sitecustomize.py").write_text(OLDER)
    farm.scheduler()
    farm.worker()
    late = at(5, lambda: farm.worker("--no-nanny", env={"PYTHONPATH": str(tmp_path / "older")}))

    def progress(stage: str, done: float) -> None:
        late(stage, done)
        if not seen.list:  # the cells are done slowly until the late one has come
            time.sleep(0.5)

    with pytest.warns(
        UserWarning, match=r"the worker tcp://\S+ gets no cells: expected torch 2\S+, got torch 1\.0"
    ) as seen:
        run(CELLS, tmp_path / "out", cluster=farm.address, progress=progress)
    assert (tmp_path / "out" / "results.parquet").read_bytes() == truth
    assert list(makers(tmp_path / "out").values()) == [len(CELLS)]


def test_all_workers_gone_and_back(farm: Farm, truth: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "SILENCE", 2.0)
    farm.scheduler()
    first, second = farm.worker(), farm.worker()

    def gone() -> None:
        first.kill()
        second.kill()
        threading.Timer(5, farm.worker).start()

    with pytest.warns(UserWarning, match=r"no worker of tcp\S+ has answered for 2 s .*: the run waits for one") as seen:
        run(CELLS, tmp_path / "out", cluster=farm.address, progress=at(5, gone))
    assert len(said(seen)) == 1
    assert (tmp_path / "out" / "results.parquet").read_bytes() == truth


def test_the_scheduler_killed_and_restarted(farm: Farm, truth: bytes, tmp_path: Path) -> None:
    scheduler = farm.scheduler()
    farm.worker()

    def lost() -> None:
        scheduler.kill()
        scheduler.wait()
        threading.Timer(3, farm.scheduler).start()
        threading.Timer(4, farm.worker).start()

    with pytest.warns(UserWarning, match="the scheduler at .* is") as seen:
        run(CELLS, tmp_path / "out", cluster=farm.address, progress=at(5, lost))
    lost, back = said(seen)
    assert "is lost: start it again under the same address" in lost
    assert "is back" in back
    assert (tmp_path / "out" / "results.parquet").read_bytes() == truth


def test_no_line_of_dasks_own_shows_when_the_scheduler_is_lost(farm: Farm, tmp_path: Path) -> None:
    """In a process of its own, with nothing captured."""
    (tmp_path / "spec.toml").write_text('[sweep]\nmaps = "attention"\nn = 4\nd = 8\ntrials = 60\n')
    scheduler = farm.scheduler()
    farm.worker()
    command = ["sweep", "spec.toml", "--out", "out", "--cluster", farm.address]
    session = subprocess.Popen(
        [sys.executable, "-m", "oneword", *command],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    while (
        not (tmp_path / "out" / "cells.sqlite").exists() or (tmp_path / "out" / "cells.sqlite").stat().st_size < 20_000
    ):
        time.sleep(0.05)
    scheduler.kill()
    time.sleep(3)
    farm.scheduler()
    farm.worker()
    _, errors = session.communicate(timeout=60)
    assert session.returncode == 0, errors
    lines = [line for line in errors.splitlines() if "lost" in line or "Error" in line or "Traceback" in line]
    assert len(lines) == 1, errors
    assert "is lost: start it again" in lines[0]


def test_a_cell_that_takes_too_long_is_ended_and_named(farm: Farm, tmp_path: Path) -> None:
    """Its worker is ended by its nanny and comes back for the other cells."""
    farm.scheduler()
    farm.worker("--nanny")
    slow = grid("sensitivity", {"maps": "attention", "n": 250, "d": 192, "trials": 1})
    cells = [*quick_cells(5), *slow]
    with pytest.raises(CellError, match=r"got 1 that failed \(the sensitivity of attention at n = 250.* within 2 s"):
        run(cells, tmp_path / "out", cluster=farm.address, cell_timeout=2, retries=1)
    assert len(run(quick_cells(5), tmp_path / "out", workers=0)) == 5


def test_a_time_out_of_ones_own_processes(tmp_path: Path) -> None:
    slow = grid("sensitivity", {"maps": "attention", "n": 250, "d": 192, "trials": 1})
    with pytest.raises(CellError, match=r"got 1 that failed .* within 2 s, got no answer: allow more time"):
        run([*quick_cells(5), *slow], tmp_path / "out", workers=1, cell_timeout=2, retries=0)


def test_a_scheduler_file(farm: Farm, truth: bytes, tmp_path: Path) -> None:
    farm.scheduler()
    farm.worker()
    until = time.monotonic() + 30
    while not farm.file.exists() and time.monotonic() < until:
        time.sleep(0.1)
    run(CELLS, tmp_path / "out", cluster=Cluster(scheduler_file=farm.file))
    assert (tmp_path / "out" / "results.parquet").read_bytes() == truth


def test_tls(farm: Farm, truth: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A certificate of our own for scheduler, worker and client; without one nobody gets in."""
    pem = {name: tmp_path / f"{name}.pem" for name in ("cert", "key")}
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=127.0.0.1"]
    try:
        subprocess.run([*made, "-keyout", pem["key"], "-out", pem["cert"]], check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("needs openssl")
    tls = ("--tls-ca-file", str(pem["cert"]), "--tls-cert", str(pem["cert"]), "--tls-key", str(pem["key"]))
    farm.scheduler(*tls, "--protocol", "tls")
    farm.address = farm.address.replace("tcp", "tls")
    farm.worker("--no-nanny", *tls)
    mine = Cluster(address=farm.address, tls_ca=pem["cert"], tls_cert=pem["cert"], tls_key=pem["key"])
    run(CELLS, tmp_path / "out", cluster=mine)
    assert (tmp_path / "out" / "results.parquet").read_bytes() == truth
    monkeypatch.setattr(dispatch, "PATIENCE", 3.0)
    with pytest.raises(ClusterError, match="expected a Dask scheduler at"):
        run(CELLS, tmp_path / "other", cluster=farm.address)


def test_jobs_of_a_queue(truth: bytes, tmp_path: Path) -> None:
    """dask-jobqueue's own LocalCluster: the same machinery, and bash instead of sbatch."""
    pytest.importorskip("dask_jobqueue")
    file = tmp_path / "jobs.toml"
    file.write_text('system = "local"\njobs = 2\ncores = 1\nmemory = "2GB"\n')
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        run(CELLS, tmp_path / "out", cluster=Cluster(jobqueue=file))
    assert (tmp_path / "out" / "results.parquet").read_bytes() == truth
    assert len(makers(tmp_path / "out")) == 2


def test_a_job_that_ends_is_submitted_again(truth: bytes, tmp_path: Path) -> None:
    """As one does that has reached its time limit."""
    pytest.importorskip("dask_jobqueue")
    psutil = pytest.importorskip("psutil")
    file = tmp_path / "jobs.toml"
    file.write_text('system = "local"\njobs = 1\ncores = 1\nmemory = "2GB"\n')
    ended: list[int] = []

    def end() -> None:
        family = psutil.Process().children(recursive=True)
        for member in family:
            if "dask_worker" in " ".join(member.cmdline()):
                member.kill()
                ended.append(member.pid)

    with dask.config.set({"distributed.deploy.lost-worker-timeout": "2s"}):
        run(CELLS, tmp_path / "out", cluster=Cluster(jobqueue=file), progress=at(5, end))
    assert len(ended) == 1
    assert (tmp_path / "out" / "results.parquet").read_bytes() == truth
    assert len(makers(tmp_path / "out")) == 2


def test_jobs_may_wait_in_their_queue(truth: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than a scheduler of one's own is given for its first worker; the wait is mentioned once."""
    pytest.importorskip("dask_jobqueue")
    monkeypatch.setattr(dispatch, "PATIENCE", 1.0)
    monkeypatch.setattr(dispatch, "SILENCE", 2.0)
    file = tmp_path / "jobs.toml"
    file.write_text('system = "local"\njobs = 1\ncores = 1\nmemory = "2GB"\npython = "./later"\n')
    later = tmp_path / "later"
    later.write_text(f'#!/bin/sh\nsleep 6\nexec "{sys.executable}" "$@"\n')
    later.chmod(0o700)
    monkeypatch.chdir(tmp_path)
    with pytest.warns(UserWarning, match="has answered for 2 s .* look at the queue of local and the logs") as seen:
        run(CELLS, tmp_path / "out", cluster=Cluster(jobqueue=file))
    assert len(said(seen)) == 1
    assert (tmp_path / "out" / "results.parquet").read_bytes() == truth


def test_the_batch_script_of_the_page(truth: bytes, tmp_path: Path) -> None:
    """As it is there, with an `srun` that starts two tasks on this machine; the end of a job ends everything in it."""
    (script,) = (block.code for block in blocks(ROOT / "docs" / "howto" / "cluster.md", "bash"))
    for program in ("dask scheduler", "dask worker"):
        assert script.count(program) == 1
        script = script.replace(program, f"{program} --host 127.0.0.1")
    home = tmp_path / "home"
    files = {
        "job.sh": script.replace("/shared/oneword", str(home)),
        ".venv/bin/activate": f'PATH="{home}/bin:{Path(sys.executable).parent}:$PATH"\n',
        "bin/srun": '#!/bin/sh\n"$@" &\n"$@" &\nwait\n',
        "examples/trained.toml": '[sweep]\nmaps = "attention"\nn = 4\nd = 8\ntrials = 80\n',
    }
    for name, content in files.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(content)
        (home / name).chmod(0o700)
    with (tmp_path / "log").open("w") as log:
        environment = os.environ | {"SLURM_JOB_ID": "7"}
        job = subprocess.Popen(
            ["bash", home / "job.sh"], env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            assert job.wait(timeout=120) == 0, (tmp_path / "log").read_text()
        finally:
            os.killpg(job.pid, signal.SIGKILL)
    assert (home / "results" / "trained" / "results.parquet").read_bytes() == truth
    assert len(makers(home / "results" / "trained")) == 2


def test_a_worker_of_several_threads_is_mentioned(farm: Farm, truth: bytes, tmp_path: Path) -> None:
    farm.scheduler()
    farm.worker("--no-nanny", "--nthreads", "3")
    with pytest.warns(
        UserWarning, match=r"the worker tcp://\S+ has 3 threads, and cells use one: start one worker per"
    ):
        run(CELLS, tmp_path / "out", cluster=farm.address)
    assert (tmp_path / "out" / "results.parquet").read_bytes() == truth
    (maker,) = json.loads((tmp_path / "out" / "run.json").read_text())["makers"]
    assert maker["threads"] == 1
