"""The cells of a run in their file: what is written is what is read, and what is damaged is noticed."""

import json
import os
import sqlite3
import warnings
from pathlib import Path

import pandas as pd
import pytest

from oneword.errors import BusyError, FileFormatError
from oneword.experiments.cells import SensitivityCell
from oneword.experiments.draws import Inputs
from oneword.experiments.making import Maker, do_cell, versions
from oneword.experiments.store import CELLS, Kept, Made, opened
from tests.experiments.conftest import flipped, quick_cells

CELL, OTHER = quick_cells(2)
INPUTS = {"corpus": "abc"}


@pytest.fixture(scope="module")
def rows() -> str:
    return do_cell(CELL)


def made(cell: SensitivityCell, rows: str, inputs: Inputs = INPUTS) -> Made:
    return Made(cell, rows, 1.5, Maker.here("tcp://me"), inputs)


@pytest.fixture
def out(tmp_path: Path, rows: str) -> Path:
    """A folder with CELL."""
    with opened(tmp_path) as store:
        store.write([made(CELL, rows)])
    return tmp_path


def read(out: Path, *cells: SensitivityCell, corpus: str = "abc") -> list[Kept]:
    cells = cells or (CELL,)
    with opened(out) as store:
        found = store.read({cell.key: cell for cell in cells}, {cell.key: {"corpus": corpus} for cell in cells})
        return [kept for _, kept in found]


def test_what_is_written_is_what_is_read(out: Path, rows: str) -> None:
    (kept,) = read(out)
    assert kept.rows == rows
    assert kept.seconds == 1.5


def test_a_cell_says_who_made_it_and_with_what(out: Path) -> None:
    (kept,) = read(out)
    assert kept.maker["worker"] == "tcp://me"
    assert kept.maker["versions"] == versions()
    assert kept.maker["threads"] == 1
    assert kept.maker["cpu"]


def test_the_file_opens_elsewhere(out: Path) -> None:
    with sqlite3.connect(out / CELLS) as file:
        table = pd.read_sql("SELECT * FROM cells JOIN makers ON maker = id", file)
    assert json.loads(table["spec"][0]) == CELL.to_dict()
    assert json.loads(table["rows"][0])[0]["value"] > 0


def test_nothing_is_read_where_nothing_is(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    assert read(tmp_path) == []
    assert not recwarn.list


def test_the_rows_of_a_cell_are_exact(tmp_path: Path) -> None:
    """Numbers are written as text and come back with every bit."""
    values = [0.1 + 0.2, 5e-324, 1.7976931348623157e308, -0.0, float("inf"), 1 / 3]
    rows = json.dumps([{"kind": "sensitivity", "key": CELL.key, "row": j, "value": v} for j, v in enumerate(values)])
    with opened(tmp_path) as store:
        store.write([made(CELL, rows)])
        (table,) = store.tables({CELL.key: CELL}, {CELL.key: INPUTS})
    assert table["value"].to_pylist() == values
    assert str(table["value"].to_pylist()[3]) == "-0.0"


def test_a_cut_off_file_is_noticed_wherever_it_was_cut(out: Path, rows: str) -> None:
    path = out / CELLS
    content = path.read_bytes()
    for size in (1, 3, 99, len(content) // 3, len(content) // 2, len(content) - 9, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.warns(UserWarning, match="set aside as cells.damaged-|made again"):
            assert all(kept.rows == rows for kept in read(out))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert read(out, OTHER) == []  # and it is a sound file again
    path.write_bytes(b"")
    assert read(out) == []


@pytest.mark.parametrize("step", [197, pytest.param(7, marks=pytest.mark.slow)])
def test_a_flipped_bit_is_noticed_or_harmless(out: Path, rows: str, step: int) -> None:
    """Bits that nobody reads may flip; then what is read is still what was written."""
    path, noticed = out / CELLS, 0
    for damaged in flipped(path.read_bytes(), step):
        path.write_bytes(damaged)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            found = read(out)
        assert all(kept.rows == rows and kept.seconds == 1.5 for kept in found)
        noticed += bool(seen)
        for aside in out.glob("cells.damaged-*"):
            aside.unlink()
    assert noticed > 5


def test_a_flipped_bit_costs_one_cell(tmp_path: Path) -> None:
    cells = quick_cells(40)
    with opened(tmp_path) as store:
        store.write([made(cell, json.dumps([{"key": cell.key}])) for cell in cells])
    path = tmp_path / CELLS
    content = path.read_bytes()
    place = content.index(f'[{{"key": "{cells[7].key}"}}]'.encode()) + 12
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    with pytest.warns(UserWarning, match="trial 7 .* another checksum: the cell is made again"):
        assert len(read(tmp_path, *cells)) == 39


def test_a_damaged_page_costs_only_the_cells_behind_it(tmp_path: Path) -> None:
    cells = quick_cells(200)
    with opened(tmp_path) as store:
        store.write([made(cell, json.dumps([{"key": cell.key, "text": "x" * 200}])) for cell in cells])
    path = tmp_path / CELLS
    content = bytearray(path.read_bytes())
    content[20 * 4096 : 20 * 4096 + 64] = bytes(64)
    path.write_bytes(content)
    with pytest.warns(UserWarning, match="set aside as cells.damaged-1.sqlite"):
        left = len(read(tmp_path, *cells))
    assert 100 < left < 200
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(read(tmp_path, *cells)) == left
    assert (tmp_path / "cells.damaged-1.sqlite").read_bytes() == bytes(content)


@pytest.mark.parametrize("ending", ["", "-journal", "-wal"])
def test_a_file_that_is_a_link_or_a_pipe_is_replaced_and_never_followed(out: Path, rows: str, ending: str) -> None:
    path, victim = out / (CELLS + ending), out / "victim"
    content = (out / CELLS).read_bytes()
    for make in (lambda: path.symlink_to(victim), lambda: os.mkfifo(path)):
        victim.write_bytes(content)  # even if it is the very file
        path.unlink(missing_ok=True)
        make()
        with pytest.warns(UserWarning, match=r"got a (link|pipe): it is replaced and its cells are made again"):
            assert len(read(out)) == bool(ending)
        with opened(out) as store:
            store.write([made(OTHER, rows)])
        assert (out / CELLS).is_file()
        assert not path.is_symlink()
        assert victim.read_bytes() == content


def test_a_file_of_somebody_else_is_set_aside(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / CELLS) as file:
        file.execute("CREATE TABLE cells (key, spec, inputs, rows, seconds, maker, sha256)")
        file.execute("CREATE TRIGGER mine AFTER INSERT ON cells BEGIN DELETE FROM cells; END")
    with pytest.warns(UserWarning, match="tables of another kind: cells, mine.* set aside"):
        assert read(tmp_path) == []
    assert (tmp_path / "cells.damaged-1.sqlite").exists()


@pytest.mark.parametrize("name", ["results.parquet", "run.json", CELLS, CELLS + "-journal"])
def test_a_folder_in_the_place_of_a_file_is_refused_before_the_work(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(FileFormatError, match=rf"{name} \(a folder\): move it away"), opened(tmp_path):
        pass
    assert (tmp_path / name).is_dir()


def test_the_folder_may_be_a_link(tmp_path: Path, rows: str) -> None:
    """Because its owner made it."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to("disk")
    with opened(tmp_path / "out") as store:
        store.write([made(CELL, rows)])
    assert (tmp_path / "disk" / CELLS).is_file()


def test_the_rows_of_another_cell_are_noticed(out: Path) -> None:
    with sqlite3.connect(out / CELLS) as file:
        file.execute("UPDATE cells SET key = ?", [OTHER.key])
    with pytest.warns(UserWarning, match="expected the .* trial 1 .* another checksum"):
        assert read(out, OTHER) == []


def test_a_cell_made_from_another_corpus_is_noticed(out: Path) -> None:
    with pytest.warns(UserWarning, match="made from today's corpus"):
        assert read(out, corpus="xyz") == []


def test_many_damaged_cells_are_a_few_warnings(tmp_path: Path) -> None:
    cells = quick_cells(10)
    with opened(tmp_path) as store:
        store.write([made(cell, "[]") for cell in cells])
    with pytest.warns(UserWarning, match="cell") as seen:
        assert read(tmp_path, *cells, corpus="xyz") == []
    assert len(seen) == 4
    assert "7 more cells" in str(seen[-1].message)
    assert all("\n" not in str(one.message) for one in seen)


def test_a_full_disk_is_one_line_and_nothing_is_half_written(out: Path) -> None:
    cells = quick_cells(50)
    with opened(out) as store:
        store._connection.execute("PRAGMA max_page_count = 4")  # as large as it may get
        with pytest.raises(FileFormatError, match=r"cells\.sqlite \(database or disk is full\): make room"):
            store.write([made(cell, "x" * 1000) for cell in cells[1:]])
    assert len(read(out, *cells)) == 1


def test_left_over_files_are_swept_away(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / ".results.parquet.0123456789abcdef").write_text("half")
    (tmp_path / ".run.json.0123456789abcdef").symlink_to(tmp_path / "mine.txt")
    with opened(tmp_path):
        assert {path.name for path in tmp_path.iterdir()} == {CELLS, "mine.txt"}


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    with opened(tmp_path), pytest.raises(BusyError, match="another one at work"), opened(tmp_path):
        pass
    with opened(tmp_path):  # free again
        pass


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileFormatError, match="choose another"), opened(tmp_path / "file" / "out"):
        pass


def test_a_file_that_cannot_be_written_is_one_line(out: Path, monkeypatch: pytest.MonkeyPatch, rows: str) -> None:
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, **more: connect(f"file:{path}?mode=ro", uri=True, **more))
    with opened(out) as store, pytest.raises(FileFormatError, match=r"readonly database\): choose another") as raised:
        store.write([made(OTHER, rows)])
    assert "\n" not in str(raised.value)


def test_a_file_that_is_removed_is_made_anew(out: Path, rows: str) -> None:
    with opened(out) as store:
        (out / CELLS).unlink()
        store.write([made(OTHER, rows)])
        assert store.replaced
    assert len(read(out, CELL, OTHER)) == 1
