"""Runs: every cell once, the same bits whatever happens on the way, and errors that name what failed."""

import json
import os
import random
import re
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from itertools import count, pairwise
from pathlib import Path
from typing import Any

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
from oneword.experiments import dispatch, draws, making, writer
from oneword.experiments import run as running
from oneword.experiments.cell import Cell
from oneword.experiments.cells import SensitivityCell
from oneword.experiments.dispatch import Dispatcher, Rules
from oneword.experiments.results import read_results
from oneword.experiments.run import Plan, run
from oneword.experiments.spec import grid, load_spec
from oneword.experiments.store import Store
from tests.experiments.conftest import kept, quick_cells, write_reviews

needs_dask = pytest.mark.skipif(find_spec("distributed") is None, reason="needs oneword[cluster]")

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
from oneword.experiments.spec import grid, load_spec
from oneword.experiments.store import Store
try:
    cells = load_spec(sys.argv[1]).cells
    run(cells, sys.argv[2], workers=int(sys.argv[3]), progress=lambda *told: print(*told, flush=True))
except KeyboardInterrupt as stop:
    sys.exit(f"stopped: {stop}")
"""


FORKS = """
import itertools, json, os, signal, sqlite3, sys
from oneword.experiments.run import run
from oneword.experiments.spec import grid, load_spec
from oneword.experiments.store import Store

def session(spec, out, workers, dies_at):
    os.setsid()
    print(os.getpid(), flush=True)
    operations = itertools.count()

    def watched(work):
        def do(*given):
            if next(operations) == dies_at:
                os.kill(os.getpid(), signal.SIGKILL)
            work(*given)
        return do

    os.fsync, os.replace = watched(os.fsync), watched(os.replace)
    connect = sqlite3.connect

    def connected(*given, **more):
        connection = connect(*given, **more)
        connection.set_trace_callback(watched(lambda statement: None))
        return connection

    sqlite3.connect = connected
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
    pd.testing.assert_frame_equal(table, read_results(tmp_path), check_exact=True)
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
    work = making.do_cell
    monkeypatch.setattr(making, "do_cell", lambda cell: (done.append(cell.key), work(cell))[1])
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
    file = tmp_path / "cells.sqlite"
    content = file.read_bytes()
    number = repr(float(values[1])).encode()  # in the rows of one cell, of which the last digit changes
    other = number[:-1] + bytes([number[-1] ^ 1])
    assert content.count(number) == 1
    file.write_bytes(content.replace(number, other))
    with sqlite3.connect(file) as opened:
        (rows,) = opened.execute("SELECT rows FROM cells WHERE key = ?", [cells[3].key]).fetchone()
        opened.execute("UPDATE cells SET rows = ? WHERE key = ?", [rows, cells[2].key])
        opened.execute("UPDATE cells SET rows = '' WHERE key = ?", [cells[0].key])
    opened.close()
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
    assert kept(tmp_path) == 2
    assert len(run(cells, tmp_path, workers=0)) == 3


def test_a_disk_that_fills_up_is_one_line_and_the_run_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit on the size of the file says the same as a full disk."""
    cells = quick_cells(200)
    prepare = Store._prepare

    def small(self: Store) -> str:
        self._connection.execute("PRAGMA max_page_count = 16")
        return prepare(self)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "_prepare", small)
        patch.setattr(writer, "EVERY", 0.02)
        with pytest.raises(
            FileFormatError, match=r"; \d+ of 200 cells are done, and the same command goes on"
        ) as stopped:
            run(cells, tmp_path, workers=0)
    assert "database or disk is full" in str(stopped.value)
    assert "\n" not in str(stopped.value)
    assert 0 < kept(tmp_path) == int(re.findall(r"(\d+) of 200", str(stopped.value))[0]) < 100
    plans: list[Plan] = []
    before = kept(tmp_path)
    assert len(run(cells, tmp_path, workers=0, on_start=plans.append)) == 200
    assert plans[0].kept == before


def test_a_folder_that_is_removed_during_the_work_is_made_again(tmp_path: Path) -> None:
    def remove(stage: str, done: float) -> None:
        if stage == "2 of 4 cells":
            shutil.rmtree(tmp_path / "out")

    assert len(run(quick_cells(4), tmp_path / "out", workers=0, progress=remove)) == 4
    assert len(read_results(tmp_path / "out")) == 4


def test_an_interrupt_says_how_far_it_got(tmp_path: Path) -> None:
    cells = quick_cells(4)

    def stop(stage: str, done: float) -> None:
        if stage == "2 of 4 cells":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="2 of 4 cells are done; the same command goes on"):
        run(cells, tmp_path, workers=0, progress=stop)
    assert kept(tmp_path) == 2


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
    ours = dict(making.versions())
    monkeypatch.setattr(making, "versions", lambda: ours | {"torch": "9.9"})
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
    with pytest.raises(MemoryLimitError, match=r"the share of one of 4 workers while.*use workers = 2"):
        run([cell], tmp_path, workers=4)


def test_by_default_as_many_workers_as_fit_and_are_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = quick_cells(8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)))
    need = max(cell.estimate_bytes() for cell in cells)
    for memory, seconds, expected in ((100, 99, 6), (4, 99, 3), (1.5, 99, 0), (100, 1, 0)):
        monkeypatch.setattr(running, "physical_memory", lambda m=memory: m * need)
        assert running._count(cells, None, seconds, Rules()) == expected
    assert running._count(cells, 20, 1, Rules()) == 8
    assert running._count(cells[:1], None, 99, Rules()) == 0
    assert running._count(cells[:1], None, 99, Rules(timeout=3)) == 1


@needs_dask
def test_processes_of_one_machine_never_hold_more_than_its_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large cell runs beside small ones, and two large ones never together."""
    small = quick_cells(6)
    large = grid("sensitivity", {"maps": "rf", "n": 4, "d": 8, "k": 20_000, "trials": 3, "search": "quick"})
    budget = large[0].estimate_bytes() + 1.03 * small[0].estimate_bytes()
    assert budget < 2 * large[0].estimate_bytes()
    monkeypatch.setattr(running, "_budget", lambda: budget)
    seen: list[list[int]] = []
    order = Dispatcher._order

    def watch(self: Dispatcher, worker: Any, cells: Sequence[Cell]) -> None:
        order(self, worker, cells)
        under_way = [[cell for flight in one.flights for cell in flight.cells] for one in self._workers.values()]
        seen.append([max(cell.estimate_bytes() for cell in some) for some in under_way if some])

    monkeypatch.setattr(Dispatcher, "_order", watch)
    table = run([*small, *large], tmp_path / "two", workers=2)
    assert max(map(sum, seen)) <= budget
    assert max(map(len, seen)) == 2  # both were busy
    assert sum(max(some) >= large[0].estimate_bytes() for some in seen) >= len(large)
    pd.testing.assert_frame_equal(table, run([*small, *large], tmp_path / "none", workers=0))


def test_without_dask_one_process_does_it_unless_more_were_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(module: str = "distributed") -> None:
        raise MissingExtraError("expected the package distributed, got none: pip install 'oneword[cluster]'")

    monkeypatch.setattr(running, "dask", missing)
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
    assert {path.name for path in out.iterdir()} == {"cells.sqlite", "results.parquet", "run.json"}


@pytest.fixture(scope="module")
def thousand(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    """The spec of a thousand cells, and the table of an undisturbed run in one process."""
    folder = tmp_path_factory.mktemp("thousand")
    spec = folder / "spec.toml"
    spec.write_text('[sweep]\nmaps = "attention"\nn = 4\nd = 8\ntrials = 1000\n')
    run(load_spec(spec).cells, folder / "truth", workers=0)
    return spec, (folder / "truth" / "results.parquet").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=needs_dask)])
def test_a_thousand_cells_killed_at_ten_moments_and_still_the_same_bits(
    thousand: tuple[Path, bytes], tmp_path: Path, workers: int
) -> None:
    """kill -9 of the whole group, wherever the session is by then: as it starts, amid its own cells, amid workers'.

    A cell that was reported a second before is never lost.
    """
    spec, truth = thousand
    nursery, moments = Nursery(spec), random.Random(workers)
    before = 0
    for session in range(10):
        group = nursery.start(tmp_path / "out", workers)
        told: list[tuple[float, int]] = []
        # Of every third session the clock starts at once, of the others with the first cell that it did itself.
        until = time.monotonic() + (60 if session % 3 else moments.uniform(0, 2))
        while (now := time.monotonic()) < until and (len(told) < 2 or told[-1][1] - told[0][1] < 80):
            if select.select([nursery.process.stdout], [], [], until - now)[0]:
                told.append((time.monotonic(), int(nursery.line().split()[0])))
                if session % 3 and len(told) == 2:
                    until = time.monotonic() + moments.uniform(0, 2)
        assert len(told) > 1 or not session % 3, "it did not start within a minute"
        os.killpg(group, signal.SIGKILL)
        killed_at = time.monotonic()
        assert nursery.end() == -signal.SIGKILL
        cells = kept(tmp_path / "out")
        assert cells >= max([before, *(count for at, count in told if at < killed_at - 1)])
        before = cells
    assert 0 < before < 1000
    nursery.start(tmp_path / "out", workers)
    assert nursery.end() == 0
    nursery.process.communicate(timeout=60)
    check_whole(tmp_path / "out", truth)


def test_a_kill_loses_at_most_a_second_of_finished_work() -> None:
    """Cells wait in an order for its last one, and then for the disk."""
    assert 2 * dispatch.SECONDS + writer.EVERY <= 1


@pytest.mark.slow
def test_killed_before_any_file_operation_and_still_the_same_bits(
    nursery: Nursery, truth: bytes, tmp_path: Path
) -> None:
    """Of the last two cells, the table and run.json: each statement of SQLite, each content and each name of a file."""
    run(load_spec(nursery.spec).cells, tmp_path / "whole", workers=0)
    keys = sorted(cell.key for cell in load_spec(nursery.spec).cells)
    killed = 0
    for operation in count():
        out = tmp_path / str(operation)
        out.mkdir()
        shutil.copy(tmp_path / "whole" / "cells.sqlite", out)
        with sqlite3.connect(out / "cells.sqlite") as file:
            file.executemany("DELETE FROM cells WHERE key = ?", [[key] for key in keys[-2:]])
        file.close()
        nursery.start(out, 0, operation)
        if nursery.end() == 0:
            break
        killed += 1
        nursery.start(out, 0)
        assert nursery.end() == 0
        check_whole(out, truth)
    assert killed > 12


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
    assert int(errors.split()[1]) == kept(tmp_path) >= 3


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
    ours = dict(making.versions())
    monkeypatch.setattr(
        making, "versions", lambda: ours | {"torch": "1.0"}
    )  # in the worker; this is the process of both
    with (
        pytest.warns(UserWarning, match="gets no cells"),
        pytest.raises(
            ClusterError, match=r"expected torch 2\S+, got torch 1\.0: install the same there \(tcp://"
        ) as raised,
    ):
        run(quick_cells(1), tmp_path, cluster=scheduler)
    assert "\n" not in str(raised.value)


def test_cells_too_large_for_the_workers_are_refused(
    tmp_path: Path, scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "_dask_worker", lambda: ("tcp://me", 1e6))
    with (
        pytest.warns(UserWarning, match="gets no cells"),
        pytest.raises(ClusterError, match=r"expected 0\.6 GB for the largest cell, got 0\.0 GB: give it more memory"),
    ):
        run(quick_cells(1), tmp_path, cluster=scheduler)


def test_no_scheduler_is_a_named_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(dispatch, "PATIENCE", 1.0)
    for address in ("tcp://127.0.0.1:9", "nonsense://x"):
        with pytest.raises(ClusterError, match="expected a Dask scheduler at") as raised:
            run(quick_cells(1), tmp_path, cluster=address)
        assert "\n" not in str(raised.value)


def test_a_cell_of_foreign_errors_is_tried_again_as_often_as_asked(
    tmp_path: Path, scheduler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []

    def rows(self: SensitivityCell) -> list[dict[str, object]]:
        tried.append(self.trial)
        raise OSError("a disk that comes and goes") if len(tried) < 3 else ZeroNormError("expected norm")

    monkeypatch.setattr(SensitivityCell, "rows", rows)
    with pytest.raises(CellError, match="ZeroNormError"):
        run(quick_cells(1), tmp_path, cluster=scheduler, retries=2)
    assert len(tried) == 3
    tried.clear()
    with pytest.raises(CellError, match="OSError: a disk that comes and goes"):
        run(quick_cells(1), tmp_path, cluster=scheduler, retries=0)
    assert len(tried) == 1


@pytest.mark.parametrize(
    "given",
    [
        {"cell_timeout": 1.0, "workers": 0},
        {"cell_timeout": 0, "workers": 1},
        {"cell_timeout": "1", "workers": 1},
        {"retries": -1},
        {"retries": 1.5},
        {"cluster": 3},
    ],
)
def test_rules_that_cannot_be_meant_are_refused(tmp_path: Path, given: dict[str, object]) -> None:
    with pytest.raises(RangeError, match="expected") as raised:
        run(quick_cells(1), tmp_path, **given)  # type: ignore[arg-type]
    assert "\n" not in str(raised.value)
