"""The table of a run: sorted, the same bits whatever the order, and verified when it is read."""

import json
import os
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from oneword.errors import FileFormatError
from oneword.experiments.making import do_cell
from oneword.experiments.results import FORMAT, RESULTS, read_results, table_of, to_bytes, together, write_results
from oneword.experiments.rows import COLUMNS
from tests.experiments.conftest import flipped, quick_cells

CELL, OTHER = quick_cells(2)


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    return table_of(json.loads(do_cell(CELL)))


@pytest.fixture(scope="module")
def other() -> pa.Table:
    return table_of(json.loads(do_cell(OTHER)))


@pytest.mark.parametrize("step", [61, pytest.param(1, marks=pytest.mark.slow)])
def test_a_flipped_bit_is_noticed_or_harmless(tmp_path: Path, rows: pa.Table, other: pa.Table, step: int) -> None:
    written = write_results(tmp_path, [rows, other])
    path = tmp_path / RESULTS
    noticed = 0
    for damaged in flipped(path.read_bytes(), step):
        path.write_bytes(damaged)
        try:
            found = read_results(path)
        except FileFormatError as error:
            noticed += "\n" not in str(error)
        else:
            pd.testing.assert_frame_equal(found, written, check_exact=True)
    assert noticed > 10


def test_they_are_written_beside_links_and_pipes_not_into_them(tmp_path: Path, rows: pa.Table) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"victim")
    results = tmp_path / RESULTS
    results.symlink_to(victim)
    write_results(tmp_path, [rows])
    assert not results.is_symlink()
    assert victim.read_bytes() == b"victim"
    results.unlink()
    os.mkfifo(results)
    with pytest.raises(FileFormatError, match="a pipe, not a file"):
        read_results(tmp_path)
    write_results(tmp_path, [rows])
    assert len(read_results(tmp_path)) == 1


def test_without_their_checksum_they_are_refused(tmp_path: Path, rows: pa.Table) -> None:
    (tmp_path / RESULTS).write_bytes(to_bytes(rows, {"format": FORMAT}))
    with pytest.raises(FileFormatError, match=r"checksum.*: run again"):
        read_results(tmp_path)


def test_with_text_that_is_no_text_they_are_refused(tmp_path: Path, rows: pa.Table) -> None:
    offsets = pa.array([0, 1], pa.int32()).buffers()[1]
    broken = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"\xff")])
    table = rows.set_column(rows.column_names.index("map"), "map", broken)
    (tmp_path / RESULTS).write_bytes(to_bytes(table, {"format": FORMAT, "sha256": "0"}))
    with pytest.raises(FileFormatError, match="expected"):
        read_results(tmp_path)


def test_other_parquet_files_are_noticed(tmp_path: Path) -> None:
    pd.DataFrame({"a": [1]}).to_parquet(tmp_path / RESULTS)
    with pytest.raises(FileFormatError, match="columns"):
        read_results(tmp_path)


def test_they_are_sorted_and_the_same_bits_whatever_the_order(tmp_path: Path, rows: pa.Table, other: pa.Table) -> None:
    tables = [rows, other, table_of([{"kind": "attention_map", "key": "k", "row": r} for r in (1, 0)])]
    one = write_results(tmp_path, tables)
    bits = (tmp_path / RESULTS).read_bytes()
    two = write_results(tmp_path, [pa.concat_tables(tables[::-1])])
    assert (tmp_path / RESULTS).read_bytes() == bits
    pd.testing.assert_frame_equal(one, two, check_exact=True)
    assert one["kind"].tolist() == ["attention_map"] * 2 + ["sensitivity"] * 2
    assert one["row"].tolist()[:2] == [0, 1]
    assert one["key"].tolist()[2:] == sorted([CELL.key, OTHER.key])
    for where in (tmp_path, tmp_path / RESULTS):
        pd.testing.assert_frame_equal(read_results(where), one, check_exact=True)


def test_no_results_are_a_table_too() -> None:
    assert together([]).column_names == list(COLUMNS)


def test_a_missing_table_is_a_named_error(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"results\.parquet"):
        read_results(tmp_path)
