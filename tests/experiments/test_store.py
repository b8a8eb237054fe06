"""The folder of a run: what is written is what is read, and what is damaged is noticed."""

import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from oneword.errors import BusyError, FileFormatError
from oneword.experiments import store
from oneword.experiments.cells import SensitivityCell
from oneword.experiments.store import COLUMNS, table_of, to_bytes, together
from oneword.experiments.workers import do_cell

CELL = SensitivityCell(map="attention", n=4, d=6, search="quick")
OTHER = SensitivityCell(map="attention", n=4, d=6, search="quick", trial=1)


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    return do_cell(CELL)


@pytest.fixture
def path(tmp_path: Path, rows: pa.Table) -> Path:
    """The file of CELL."""
    store.write_cell(tmp_path, CELL, rows, 1.5, {"corpus": "abc"})
    return store.cell_path(tmp_path, CELL)


def read(path: Path, cell: SensitivityCell = CELL, corpus: str = "abc") -> store.Kept | None:
    return store.read_cell(path.parents[1], cell, {"corpus": corpus})


def test_what_is_written_is_what_is_read(path: Path, rows: pa.Table) -> None:
    kept = read(path)
    assert kept is not None
    assert kept.table.equals(rows)
    assert kept.seconds == 1.5
    assert kept.versions == store.versions()


def test_a_file_says_what_it_is(path: Path) -> None:
    about = json.loads(pq.read_schema(path).metadata[b"oneword.cell"])
    assert about["spec"] == CELL.to_dict()
    assert about["versions"]["torch"]


def test_nothing_is_read_where_nothing_is(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    assert store.read_cell(tmp_path, CELL) is None
    assert not recwarn.list


def test_a_cut_off_file_is_noticed_wherever_it_was_cut(path: Path) -> None:
    content = path.read_bytes()
    for size in (0, 1, 3, len(content) // 3, len(content) // 2, len(content) - 9, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.warns(UserWarning, match="made again"):
            assert read(path) is None


def flipped(content: bytes, step: int) -> Iterator[bytes]:
    """The content with one bit changed, a different one of every `step`-th byte."""
    for place in range(0, len(content), step):
        yield content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :]


def test_a_flipped_bit_is_noticed_or_harmless(path: Path, rows: pa.Table) -> None:
    """Bits that nobody reads may flip; then what is read is still what was written."""
    noticed = 0
    for damaged in flipped(path.read_bytes(), 97):
        path.write_bytes(damaged)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            kept = read(path)
        if kept is None:
            noticed += 1
        else:
            assert kept.table.equals(rows)
    assert noticed > 10


@pytest.mark.parametrize("step", [61, pytest.param(1, marks=pytest.mark.slow)])
def test_a_flipped_bit_of_the_results_is_noticed_or_harmless(tmp_path: Path, rows: pa.Table, step: int) -> None:
    written = store.write_results(tmp_path, [rows, do_cell(OTHER)])
    path = tmp_path / store.RESULTS
    noticed = 0
    for damaged in flipped(path.read_bytes(), step):
        path.write_bytes(damaged)
        try:
            found = store.read_results(path)
        except FileFormatError as error:
            noticed += "\n" not in str(error)
        else:
            pd.testing.assert_frame_equal(found, written, check_exact=True)
    assert noticed > 10


def test_a_cell_that_is_no_file_of_ours_is_replaced_and_never_followed(tmp_path: Path, path: Path) -> None:
    content = path.read_bytes()
    victim = tmp_path / "victim"
    for make in (lambda: path.symlink_to(victim), lambda: os.mkfifo(path)):
        victim.write_bytes(content)  # even if it is the very cell
        path.unlink()
        make()
        with pytest.warns(UserWarning, match=r"(link|pipe), not a file.*: the cell is made again"):
            assert read(path) is None
        store.write_cell(tmp_path, CELL, do_cell(OTHER), 1.5)
        assert path.is_file()
        assert not path.is_symlink()
        assert victim.read_bytes() == content


def test_a_folder_in_the_place_of_a_cell_is_named_and_stays(path: Path) -> None:
    path.unlink()
    path.mkdir()
    with pytest.raises(FileFormatError, match=rf"{path.name} \(a folder, not a file\): move it away"):
        read(path)
    assert path.is_dir()


def test_results_are_written_beside_links_and_pipes_not_into_them(tmp_path: Path, rows: pa.Table) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"victim")
    results = tmp_path / store.RESULTS
    results.symlink_to(victim)
    store.write_results(tmp_path, [rows])
    assert not results.is_symlink()
    assert victim.read_bytes() == b"victim"
    results.unlink()
    os.mkfifo(results)
    with pytest.raises(FileFormatError, match="a pipe, not a file"):
        store.read_results(tmp_path)
    store.write_results(tmp_path, [rows])
    assert len(store.read_results(tmp_path)) == 1


def test_results_without_their_checksum_are_refused(tmp_path: Path, rows: pa.Table) -> None:
    (tmp_path / store.RESULTS).write_bytes(to_bytes(rows, {"format": store.FORMAT}))
    with pytest.raises(FileFormatError, match=r"checksum.*: run again"):
        store.read_results(tmp_path)


def test_results_with_text_that_is_no_text_are_refused(tmp_path: Path, rows: pa.Table) -> None:
    offsets = pa.array([0, 1], pa.int32()).buffers()[1]
    broken = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"\xff")])
    table = rows.set_column(rows.column_names.index("map"), "map", broken)
    (tmp_path / store.RESULTS).write_bytes(to_bytes(table, {"format": store.FORMAT, "sha256": "0"}))
    with pytest.raises(FileFormatError, match="expected"):
        store.read_results(tmp_path)


def test_cells_in_a_folder_of_somebody_else_are_refused(tmp_path: Path) -> None:
    """OUT may be a link that its owner made; what is inside OUT is made by the run."""
    for name in ("disk", "foreign"):
        (tmp_path / name).mkdir()
    (tmp_path / "out").symlink_to("disk")
    with store.opened(tmp_path / "out"):
        assert (tmp_path / "disk" / "cells").is_dir()
    (tmp_path / "disk" / "cells").rmdir()
    (tmp_path / "disk" / "cells").symlink_to(tmp_path / "foreign")
    with (
        pytest.raises(FileFormatError, match=r"cells \(a link\): remove it") as refused,
        store.opened(tmp_path / "out"),
    ):
        pass
    assert "\n" not in str(refused.value)
    assert not list((tmp_path / "foreign").iterdir())


@pytest.mark.parametrize("name", [store.RESULTS, "run.json"])
def test_a_folder_in_the_place_of_the_results_is_refused_before_the_work(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(FileFormatError, match=rf"{name} \(a folder\): move it away"), store.opened(tmp_path):
        pass


def test_the_file_of_another_cell_is_noticed(path: Path) -> None:
    path.rename(store.cell_path(path.parents[1], OTHER))
    with pytest.warns(UserWarning, match="expected the spec of .* trial 1 .* got that of .* trial 0"):
        assert read(path, OTHER) is None


def test_a_file_made_from_another_corpus_is_noticed(path: Path) -> None:
    with pytest.warns(UserWarning, match="today's corpus"):
        assert read(path, corpus="xyz") is None


def test_other_parquet_files_are_noticed(path: Path, rows: pa.Table) -> None:
    pd.DataFrame({"a": [1]}).to_parquet(path)
    with pytest.warns(UserWarning, match="columns"):
        assert read(path) is None
    path.write_bytes(to_bytes(rows))
    with pytest.warns(UserWarning, match="oneword.cell"):
        assert read(path) is None


def test_a_warning_is_one_line(path: Path) -> None:
    path.write_bytes(b"PAR1 nothing PAR1")
    with pytest.warns(UserWarning, match="made again") as seen:
        read(path)
    assert "\n" not in str(seen[0].message)


def test_left_over_files_are_swept_away(tmp_path: Path) -> None:
    cells = tmp_path / "cells"
    cells.mkdir()
    for name in (".0123.parquet.0123456789abcdef", "mine.txt", ".mine.parquet.bak"):
        (cells / name).write_text("half")
    (cells / ".folder.parquet.0123456789abcdef").mkdir()
    (tmp_path / ".results.parquet.0123456789abcdef").write_text("half")
    (tmp_path / ".run.json.0123456789abcdef").symlink_to(cells / "mine.txt")
    with store.opened(tmp_path):
        left = {".folder.parquet.0123456789abcdef", "mine.txt", ".mine.parquet.bak"}
        assert {path.name for path in cells.iterdir()} == left
        assert [path.name for path in tmp_path.iterdir()] == ["cells"]


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    with store.opened(tmp_path), pytest.raises(BusyError, match="another one at work"), store.opened(tmp_path):
        pass
    with store.opened(tmp_path):  # free again
        pass


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileFormatError, match="choose another"), store.opened(tmp_path / "file" / "out"):
        pass


def test_results_are_sorted_and_the_same_bits_whatever_the_order(tmp_path: Path, rows: pa.Table) -> None:
    tables = [rows, do_cell(OTHER), table_of([{"kind": "attention_map", "key": "k", "row": r} for r in (1, 0)])]
    one = store.write_results(tmp_path, tables)
    bits = (tmp_path / "results.parquet").read_bytes()
    two = store.write_results(tmp_path, tables[::-1])
    assert (tmp_path / "results.parquet").read_bytes() == bits
    pd.testing.assert_frame_equal(one, two, check_exact=True)
    assert one["kind"].tolist() == ["attention_map"] * 2 + ["sensitivity"] * 2
    assert one["row"].tolist()[:2] == [0, 1]
    assert one["key"].tolist()[2:] == sorted([CELL.key, OTHER.key])
    for where in (tmp_path, tmp_path / "results.parquet"):
        pd.testing.assert_frame_equal(store.read_results(where), one, check_exact=True)


def test_no_results_are_a_table_too() -> None:
    assert together([]).column_names == list(COLUMNS)


def test_a_missing_table_is_a_named_error(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"results\.parquet"):
        store.read_results(tmp_path)
