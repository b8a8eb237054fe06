"""Runs: every cell once, the same bits whatever happens on the way, and errors that name what failed."""

import errno
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest

from oneword.errors import (
    CellError,
    ClusterError,
    FileFormatError,
    MemoryLimitError,
    MissingExtraError,
    RangeError,
    ZeroNormError,
)
from oneword.experiments import draws, store
from oneword.experiments import run as running
from oneword.experiments import workers as processes
from oneword.experiments.cells import SensitivityCell
from oneword.experiments.run import Plan, run
from oneword.experiments.spec import load_spec
from tests.experiments.conftest import quick_cells, write_reviews

# Every kind that needs no encoder.
SPEC = """
[[sweep]]
maps = ["rf", "drf", "attention", "attention-relu"]
n = 4
d = 8
depth = [1, 2]
certify = 0
trials = 3

[[sweep]]
maps = "attention"
n = 5
d = 8
words_from = "clustered"
certify = 2
changed = [1, 2]
trials = 1

[[learning]]
maps = ["rf", "attention"]
n = 4
d = 6
N = 8
samples = 1
frontier = [0.5]

[[review]]
maps = "attention"
n = 5
d = 8
"""

SESSION = """
import sys
from oneword.experiments.run import run
from oneword.experiments.spec import load_spec
try:
    cells = load_spec(sys.argv[1]).cells
    run(cells, sys.argv[2], workers=int(sys.argv[3]), progress=lambda *told: print(*told, flush=True))
except KeyboardInterrupt as stop:
    sys.exit(f"stopped: {stop}")
"""


FORKS = """
import json, os, signal, sys
from oneword.experiments.run import run
from oneword.experiments.spec import load_spec

def session(spec, out, workers, dies_at):
    os.setsid()
    print(os.getpid(), flush=True)
    operations = iter(range(1000))

    def watched(work):
        def do(*given):
            if next(operations) == dies_at:
                os.kill(os.getpid(), signal.SIGKILL)
            work(*given)
        return do

    os.fsync, os.replace = watched(os.fsync), watched(os.replace)
    run(load_spec(spec).cells, out, workers=workers, progress=lambda *told: print(*told, flush=True))

for line in sys.stdin:
    child = os.fork()
    if not child:
        try:
            session(*json.loads(line))
            os._exit(0)
        finally:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
    print("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("specs") / "all.toml"
    path.write_text(SPEC)
    return path


@pytest.fixture(scope="module")
def truth(spec: Path, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The table of an undisturbed run in one process."""
    out = tmp_path_factory.mktemp("truth")
    run(load_spec(spec).cells, out, workers=0)
    return (out / "results.parquet").read_bytes()


# In one process ------------------------------------------------------------------------------------------------------


def test_a_run_returns_what_it_writes(tmp_path: Path) -> None:
    table = run(quick_cells(3), tmp_path, workers=0, about={"command": "a test"})
    pd.testing.assert_frame_equal(table, store.read_results(tmp_path), check_exact=True)
    assert sorted(table["trial"]) == [0, 1, 2]
    about = json.loads((tmp_path / "run.json").read_text())
    assert about["command"] == "a test"
    assert about["cells"] == 3
    assert set(about["cell_seconds"]) == set(table["key"])
    assert about["versions"]["torch"]


def test_the_order_of_cells_does_not_matter(tmp_path: Path) -> None:
    cells = quick_cells(4)
    run(cells, tmp_path / "one", workers=0)
    run([*cells[::-1], cells[0]], tmp_path / "two", workers=0)
    assert (tmp_path / "one" / "results.parquet").read_bytes() == (tmp_path / "two" / "results.parquet").read_bytes()


def test_what_is_done_is_not_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = quick_cells(4)
    run(cells[:3], tmp_path, workers=0)
    done = []
    work = processes.do_cell
    monkeypatch.setattr(processes, "do_cell", lambda cell: (done.append(cell.key), work(cell))[1])
    plans: list[Plan] = []
    table = run(cells, tmp_path, workers=0, on_start=plans.append)
    assert done == [cells[3].key]
    assert len(table) == 4
    assert [(plan.cells, plan.kept, plan.workers) for plan in plans] == [(4, 3, 0)]
    assert plans[0].seconds == cells[3].estimate_cost()


def test_damaged_cells_are_made_again(tmp_path: Path) -> None:
    cells = quick_cells(4)
    values = run(cells, tmp_path, workers=0).set_index("trial")["value"]
    bits = (tmp_path / "results.parquet").read_bytes()
    cut, flipped, swapped, _ = (store.cell_path(tmp_path, cell) for cell in cells)
    cut.write_bytes(cut.read_bytes()[:-40])
    content = bytearray(flipped.read_bytes())
    content[content.index(struct.pack("<d", values[1]))] ^= 1  # the last bit of the number that counts
    flipped.write_bytes(content)
    swapped.write_bytes(store.cell_path(tmp_path, cells[3]).read_bytes())
    with pytest.warns(UserWarning, match="made again") as seen:
        run(cells, tmp_path, workers=0)
    assert len(seen) == 3
    assert (tmp_path / "results.parquet").read_bytes() == bits


def test_progress_adds_up(tmp_path: Path) -> None:
    told: list[tuple[str, float]] = []
    run(quick_cells(3), tmp_path, workers=0, progress=lambda *now: told.append(now))
    assert [stage for stage, _ in told] == [f"{done} of 3 cells" for done in range(4)]
    assert told[0][1] == 0
    assert told[-1][1] == pytest.approx(1)


def test_the_costliest_cells_come_first(tmp_path: Path) -> None:
    cells = [SensitivityCell(map="attention", n=n, d=6, search="quick") for n in (3, 9, 5)]
    steps: list[float] = []
    run(cells, tmp_path, workers=0, progress=lambda _, done: steps.append(done))
    costs = [b - a for a, b in pairwise(steps)]
    assert costs == sorted(costs, reverse=True)


@pytest.mark.parametrize("failure", [ZeroNormError("expected norm"), ValueError("a bug\nof two lines")])
def test_a_cell_that_fails_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    cells = quick_cells(3)
    work = SensitivityCell.rows

    def rows(self: SensitivityCell) -> list[dict[str, object]]:
        if self.trial == 1:
            raise failure
        return work(self)

    with monkeypatch.context() as patch:
        patch.setattr(SensitivityCell, "rows", rows)
        with pytest.raises(CellError) as raised:
            run(cells, tmp_path, workers=0)
    message = str(raised.value)
    assert "got 1 that failed (the sensitivity of attention at n = 4, d = 6, trial 1" in message
    assert type(failure).__name__ in message
    assert "\n" not in message
    assert raised.value.__cause__ is (failure if isinstance(failure, ValueError) else None)
    assert len(list((tmp_path / "cells").iterdir())) == 2
    assert len(run(cells, tmp_path, workers=0)) == 3


def test_cells_that_are_links_pipes_or_folders_touch_nothing_else_and_stop_nothing(tmp_path: Path) -> None:
    cells = quick_cells(5)
    bits, out = tmp_path / "bits", tmp_path / "out"
    run(cells, bits, workers=0)
    run(cells[:1], out, workers=0)
    link, pipe, folder, _ = (store.cell_path(out, cell) for cell in cells[1:])
    (tmp_path / "victim").write_text("victim")
    link.symlink_to(tmp_path / "victim")
    os.mkfifo(pipe)
    folder.mkdir()
    plans: list[Plan] = []
    with pytest.warns(UserWarning, match="made again") as seen, pytest.raises(CellError) as failed:
        run(cells, out, workers=0, on_start=plans.append)
    assert len(seen) == 2
    assert f"got 1 that failed (the {cells[3].title}: " in str(failed.value)
    assert f"{folder.name} (a folder, not a file): move it away)" in str(failed.value)
    assert "\n" not in str(failed.value)
    assert plans[0].seconds == sum(cells[j].estimate_cost() for j in (1, 2, 4)), "it is found before the work"
    assert (tmp_path / "victim").read_text() == "victim"
    folder.rmdir()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(cells, out, workers=0)
    assert (out / "results.parquet").read_bytes() == (bits / "results.parquet").read_bytes()


def test_a_folder_that_appears_during_the_work_fails_one_cell(tmp_path: Path) -> None:
    cells = quick_cells(3)

    def appear(plan: Plan) -> None:
        store.cell_path(tmp_path, cells[1]).mkdir()

    with pytest.raises(CellError, match=r"got 1 that failed .* trial 1"):
        run(cells, tmp_path, workers=0, on_start=appear)
    assert sum(path.is_file() for path in (tmp_path / "cells").iterdir()) == 2


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_a_disk_that_fills_up_is_one_line_and_the_run_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    cells = quick_cells(4)
    sync, written = os.fsync, []

    def fsync(handle: int) -> None:
        if len(written) == 2:
            raise OSError(code, os.strerror(code))
        written.append(handle)
        sync(handle)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fsync)
        with pytest.raises(FileFormatError, match=r"; 2 of 4 cells are done, and the same command goes on") as stopped:
            run(cells, tmp_path, workers=0)
    assert os.strerror(code) in str(stopped.value)
    assert "\n" not in str(stopped.value)
    assert len(list((tmp_path / "cells").iterdir())) == 2
    plans: list[Plan] = []
    assert len(run(cells, tmp_path, workers=0, on_start=plans.append)) == 4
    assert plans[0].kept == 2


def test_a_folder_that_is_removed_during_the_work_is_made_again(tmp_path: Path) -> None:
    def remove(stage: str, done: float) -> None:
        if stage == "2 of 4 cells":
            shutil.rmtree(tmp_path / "out")

    assert len(run(quick_cells(4), tmp_path / "out", workers=0, progress=remove)) == 4
    assert len(store.read_results(tmp_path / "out")) == 4


def test_an_interrupt_says_how_far_it_got(tmp_path: Path) -> None:
    cells = quick_cells(4)

    def stop(stage: str, done: float) -> None:
        if stage == "2 of 4 cells":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="2 of 4 cells are done; the same command goes on"):
        run(cells, tmp_path, workers=0, progress=stop)
    assert len(list((tmp_path / "cells").iterdir())) == 2


def test_a_corpus_that_changed_is_read_anew(tmp_path: Path, tiny_encoder: str) -> None:
    corpus = tmp_path / "reviews.csv"
    cells = quick_cells(1, words_from="corpus", encoder=tiny_encoder, corpus=str(corpus))
    write_reviews(corpus)
    first = run(cells, tmp_path / "out", workers=0)
    again = run(cells, tmp_path / "out", workers=0)
    pd.testing.assert_frame_equal(first, again, check_exact=True)
    write_reviews(corpus, ("film", "the"))
    with pytest.warns(UserWarning, match="today's corpus"):
        other = run(cells, tmp_path / "out", workers=0)
    assert other["value"][0] != first["value"][0]
    inputs = json.loads((tmp_path / "out" / "run.json").read_text())["inputs"]
    assert [entry["what"] for entry in inputs] == ["corpus", "encoder"]


def test_a_corpus_that_changes_during_the_run_is_noticed(
    tmp_path: Path, tiny_encoder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it would be on a machine of a cluster that has another file of that name."""
    corpus = tmp_path / "reviews.csv"
    write_reviews(corpus)
    cells = quick_cells(2, words_from="corpus", encoder=tiny_encoder, corpus=str(corpus))

    def change(plan: Plan) -> None:
        write_reviews(corpus, ("film", "the"))
        draws._tokens.cache_clear()

    with pytest.raises(CellError, match="expected the corpus that the run was started with, got another one"):
        run(cells, tmp_path / "out", workers=0, on_start=change)


def test_cells_of_other_versions_are_kept_and_mentioned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(quick_cells(1), tmp_path, workers=0)
    ours = dict(store.versions())
    monkeypatch.setattr(store, "versions", lambda: ours | {"torch": "9.9"})
    with pytest.warns(UserWarning, match="1 cells were made with torch 2"):
        run(quick_cells(1), tmp_path, workers=0)


def test_no_cells_are_an_empty_table(tmp_path: Path) -> None:
    assert len(run([], tmp_path)) == 0


@pytest.mark.parametrize("workers", [-1, 1.5, True])
def test_a_number_of_workers_that_is_none_is_refused(tmp_path: Path, workers: object) -> None:
    with pytest.raises(RangeError, match="workers"):
        run(quick_cells(1), tmp_path, workers=workers)  # type: ignore[arg-type]


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileFormatError, match="file"):
        run(quick_cells(1), tmp_path / "file", workers=0)


# Memory, and how many workers ----------------------------------------------------------------------------------------


def test_what_cannot_fit_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    huge = SensitivityCell(map="drf", n=2000, d=768, depths=(4,))
    with pytest.raises(MemoryLimitError, match=r"GB for the sensitivity of drf at n = 2000.*smaller n") as raised:
        run([*quick_cells(1), huge], tmp_path / "out", workers=0)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "out").exists()


def test_too_many_workers_for_the_memory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cell,) = quick_cells(1)
    monkeypatch.setattr(running, "physical_memory", lambda: 3 * cell.estimate_bytes())
    with pytest.raises(MemoryLimitError, match=r"the share of each of 4 workers, .*use workers = 2"):
        run([cell], tmp_path, workers=4)


def test_by_default_as_many_workers_as_fit_and_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = quick_cells(8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)))
    need = max(cell.estimate_bytes() for cell in cells)
    for memory, seconds, expected in ((100, 99, 6), (4, 99, 3), (1.5, 99, 0), (100, 1, 0)):
        monkeypatch.setattr(running, "physical_memory", lambda m=memory: m * need)
        assert running._count(cells, None, seconds) == expected
    assert running._count(cells, 20, 1) == 8
    assert running._count(cells[:1], None, 99) == 0


def test_without_dask_one_process_does_it_unless_more_were_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(module: str = "distributed") -> None:
        raise MissingExtraError("expected the package distributed, got none: pip install 'oneword[cluster]'")

    monkeypatch.setattr(processes, "dask", missing)
    monkeypatch.setattr(running, "WORTH_IT", 0)
    with pytest.warns(UserWarning, match=r"oneword\[cluster\]"):
        assert len(run(quick_cells(2), tmp_path)) == 2
    with pytest.raises(MissingExtraError):
        run(quick_cells(2), tmp_path, workers=1)


# Processes -----------------------------------------------------------------------------------------------------------


def start(spec: Path, out: Path, workers: int = 2) -> subprocess.Popen[str]:
    """A session with so many workers, in a process group of its own."""
    command = [sys.executable, "-c", SESSION, str(spec), str(out), str(workers)]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Whoever runs the tests in the background has Ctrl-C ignored, and a child would inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def kill_group(session: subprocess.Popen[str], with_: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it was quicker
        os.killpg(session.pid, with_)


needs_dask = pytest.mark.skipif(find_spec("distributed") is None, reason="needs oneword[cluster]")


class Nursery:
    """Starts sessions, in process groups of their own, by forking: importing torch would take most of the time."""

    def __init__(self, spec: Path) -> None:
        self.spec = spec
        threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS")}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen([sys.executable, "-c", FORKS], text=True, env=os.environ | threads, **pipes)

    def start(self, out: Path, workers: int, dies_at: int = -1) -> int:
        """The id of a session, which kills itself before the file operation of that number."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([str(self.spec), str(out), workers, dies_at]) + "\n")
        self.process.stdin.flush()
        return int(self.line())

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def end(self) -> int:
        """How the session ended: its exit code, or less than 0 for the signal that killed it."""
        while not (line := self.line()).startswith("ended "):
            assert line, self.process.communicate()[1]
        return int(line.split()[1])


@pytest.fixture(scope="module")
def nursery(spec: Path) -> Iterator[Nursery]:
    nursery = Nursery(spec)
    yield nursery
    _, errors = nursery.process.communicate(timeout=60)
    assert errors == ""


def check_whole(out: Path, truth: bytes) -> None:
    """The table of an undisturbed run, and no other files than it leaves."""
    assert (out / "results.parquet").read_bytes() == truth
    assert {path.name for path in out.iterdir()} == {"cells", "results.parquet", "run.json"}
    assert all(path.suffix == ".parquet" and path.name[0] != "." for path in (out / "cells").iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=needs_dask), pytest.param(2, marks=needs_dask)])
def test_killed_at_ten_moments_and_still_the_same_bits(
    nursery: Nursery, truth: bytes, tmp_path: Path, workers: int
) -> None:
    """kill -9 of the whole group, wherever the session is by then: as it starts, amid its own cells, amid workers'."""
    moments = random.Random(workers)
    kept = killed = 0
    for _ in range(10):
        group = nursery.start(tmp_path, workers)
        told = moments.choice((0, 0, 1, 2, 3))
        for _ in range(told):  # the first line is of no cell
            assert " cells " in nursery.line()
        time.sleep(moments.uniform(0, 0.1 if told > 1 or not workers else 2))
        os.killpg(group, signal.SIGKILL)
        killed += nursery.end() == -signal.SIGKILL
        cells = len(list((tmp_path / "cells").glob("*.parquet"))) if (tmp_path / "cells").exists() else 0
        assert cells >= kept  # nothing that was done is lost
        kept = cells
    assert killed == 10
    assert kept > 0
    assert not (tmp_path / "results.parquet").exists(), "the kills came too late to mean anything"
    nursery.start(tmp_path, workers)
    assert nursery.end() == 0
    check_whole(tmp_path, truth)


@pytest.mark.slow
def test_killed_before_any_file_operation_and_still_the_same_bits(
    nursery: Nursery, truth: bytes, tmp_path: Path
) -> None:
    """Each file takes two: its content reaches the disk, and it gets its name."""
    run(load_spec(nursery.spec).cells, tmp_path / "whole", workers=0)
    cells = sorted((tmp_path / "whole" / "cells").iterdir())
    for operation in range(8):  # of the last two cells, the table and run.json
        out = tmp_path / str(operation)
        shutil.copytree(tmp_path / "whole" / "cells", out / "cells")
        for cell in cells[-2:]:
            (out / "cells" / cell.name).unlink()
        nursery.start(out, 0, operation)
        assert nursery.end() == -signal.SIGKILL
        assert list(out.rglob(".*")), "something is left over"
        nursery.start(out, 0)
        assert nursery.end() == 0
        check_whole(out, truth)


@needs_dask
@pytest.mark.slow
def test_a_worker_that_is_killed_is_replaced(spec: Path, truth: bytes, tmp_path: Path) -> None:
    psutil = pytest.importorskip("psutil")
    killed: list[int] = []
    listens: set[str] = set()

    def kill_one(stage: str, done: float) -> None:
        if stage.startswith("2 of ") and not killed:
            family = [psutil.Process(), *psutil.Process().children(recursive=True)]
            workers = [member for member in family if "spawn_main" in " ".join(member.cmdline())]
            doors = [door for member in family for door in member.net_connections("inet") if door.status == "LISTEN"]
            listens.update(door.laddr.ip for door in doors)
            os.kill(workers[0].pid, signal.SIGKILL)
            killed.append(workers[0].pid)

    run(load_spec(spec).cells, tmp_path, workers=2, progress=kill_one)
    assert killed
    assert listens == {"127.0.0.1"}  # nothing can be reached from elsewhere
    assert (tmp_path / "results.parquet").read_bytes() == truth


@needs_dask
@pytest.mark.slow
def test_ctrl_c_keeps_what_is_done_and_says_so_in_one_line(spec: Path, tmp_path: Path) -> None:
    session = start(spec, tmp_path)
    assert session.stdout is not None
    for _ in range(4):
        session.stdout.readline()
    kill_group(session, signal.SIGINT)  # as a terminal does: to the workers as well
    _, errors = session.communicate(timeout=300)
    assert errors.startswith("stopped: ")
    assert "cells are done; the same command goes on from there" in errors
    assert errors.count("\n") == 1, errors
    assert int(errors.split()[1]) == len(list((tmp_path / "cells").glob("*.parquet"))) >= 3


# A scheduler of one's own --------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    """A scheduler and a worker, in threads of this process: nothing has to be imported anew."""
    distributed = pytest.importorskip("distributed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cluster = distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=False,
            protocol="tcp://",
            host="127.0.0.1",
            dashboard_address=None,
        )
    with cluster:
        yield cluster.scheduler_address


def test_a_scheduler_of_ones_own_gives_the_same_bits(tmp_path: Path, scheduler: str) -> None:
    cells = quick_cells(3)
    run(cells, tmp_path / "here", workers=0)
    run(cells, tmp_path / "there", cluster=scheduler)
    assert (tmp_path / "here" / "results.parquet").read_bytes() == (tmp_path / "there" / "results.parquet").read_bytes()
    assert json.loads((tmp_path / "there" / "run.json").read_text())["cluster"] == scheduler


def test_failures_come_back_from_a_cluster(tmp_path: Path, scheduler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def rows(self: SensitivityCell) -> list[dict[str, object]]:
        raise ZeroNormError("expected norm") if self.trial else ValueError("a bug")

    monkeypatch.setattr(SensitivityCell, "rows", rows)
    with pytest.raises(
        CellError, match=r"got 2 that failed.*ValueError: a bug.*ZeroNormError: expected norm"
    ) as raised:
        run(quick_cells(2), tmp_path, cluster=scheduler)
    assert isinstance(raised.value.__cause__, ValueError)


def test_workers_of_another_version_are_refused(
    tmp_path: Path, scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = dict(store.versions())

    def versions() -> dict[str, str]:
        return ours if threading.current_thread() is threading.main_thread() else ours | {"torch": "1.0"}

    monkeypatch.setattr(processes, "versions", versions)
    with pytest.raises(ClusterError, match=r"got torch 1\.0 at tcp.*install the same there"):
        run(quick_cells(1), tmp_path, cluster=scheduler)


def test_cells_too_large_for_the_workers_are_refused(
    tmp_path: Path, scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "memory_of_workers", lambda client: 1e6)
    with pytest.raises(MemoryLimitError, match="the share of a worker of tcp"):
        run(quick_cells(1), tmp_path, cluster=scheduler)


def test_no_scheduler_is_a_named_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(processes, "_PATIENCE", 1)
    for address in ("tcp://127.0.0.1:9", "nonsense://x"):
        with pytest.raises(ClusterError, match="expected a Dask scheduler at") as raised:
            run(quick_cells(1), tmp_path, cluster=address)
        assert "\n" not in str(raised.value)
