"""The cells of a run in one SQLite file: written many at a time, all or none of them, and verified when read.

    OUT/cells.sqlite       every cell: its spec, rows, seconds, who made it, and a checksum over all of these
    OUT/results.parquet    the table of all rows (`results`)
    OUT/run.json           machine, versions and timings

Whoever kills a run loses the cells under way, those of the last moment (`writer`), and nothing else. OUT may be a link,
because a person names it. OUT/cells.sqlite may not: a link, a pipe or a device there is neither read nor written into,
but replaced. What is not our file, or no longer, is set aside, and the cells that can still be read are kept.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import sqlite3
import stat
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from oneword.checks import one_line
from oneword.errors import BusyError, FileFormatError
from oneword.experiments.cell import Cell
from oneword.experiments.draws import Inputs
from oneword.experiments.making import Maker, canonical
from oneword.experiments.results import RESULTS, table_of
from oneword.files import make_folder, unfinished

CELLS, RUN = "cells.sqlite", "run.json"
_BESIDE = ("-journal", "-wal", "-shm")  # files of SQLite's own
_TABLES = {
    "makers": "CREATE TABLE makers (id TEXT PRIMARY KEY, about TEXT NOT NULL) WITHOUT ROWID",
    "cells": (
        "CREATE TABLE cells (key TEXT PRIMARY KEY, spec TEXT NOT NULL, inputs TEXT NOT NULL, rows TEXT NOT NULL, "
        "seconds TEXT NOT NULL, maker TEXT NOT NULL, sha256 TEXT NOT NULL) WITHOUT ROWID"
    ),
}
_SELECT = "SELECT key, spec, inputs, rows, seconds, makers.about, sha256 FROM cells LEFT JOIN makers ON id = maker"
_SMALLEST = 512  # bytes of a file that is SQLite's
_NAMED = 3  # cells that a warning names
_AT_ONCE = 1 << 12  # cells whose rows are parsed at once, so that a long run takes little memory


@dataclass(frozen=True, eq=False)
class Kept:
    """A cell as it was written: its rows as JSON, the seconds they took, and its maker as `Maker.text` says it."""

    rows: str
    seconds: float
    maker: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Made:
    """A cell that is done and to be written. `inputs` fingerprints what it read: encoder and corpus."""

    cell: Cell
    rows: str
    seconds: float
    maker: Maker
    inputs: Inputs


class Store:
    """An open file of cells. One thread at a time may use it."""

    def __init__(self, out: Path) -> None:
        self.path = out / CELLS
        self.replaced = False  # whether the file was removed during the work, and made anew
        self._open()

    def close(self) -> None:
        self._connection.close()

    def read(self, wanted: Mapping[str, Cell], inputs: Mapping[str, Inputs]) -> Iterator[tuple[Cell, Kept]]:
        """What was kept of these cells. A cell that is not what it should be is left out, with a warning."""
        if self._damage:
            self._save(wanted)
        reasons = []
        for row in self._connection.execute(_SELECT):
            cell = wanted.get(_text(row[0]))
            if cell is None:
                continue
            try:
                yield cell, _verified(row, cell, inputs[cell.key])
            except FileFormatError as error:
                reasons.append(str(error))
        for reason in reasons[:_NAMED]:
            warnings.warn(f"{reason}: the cell is made again", stacklevel=2)
        if len(reasons) > _NAMED:
            warnings.warn(f"the same is true of {len(reasons) - _NAMED} more cells", stacklevel=2)

    def tables(self, wanted: Mapping[str, Cell], inputs: Mapping[str, Inputs]) -> Iterator[pa.Table]:
        """The rows of these cells, some thousands of cells at a time."""
        found = self.read(wanted, inputs)
        while some := list(islice(found, _AT_ONCE)):
            yield table_of([row for _, kept in some for row in json.loads(kept.rows)])

    def write(self, made: Sequence[Made]) -> None:
        """Keep cells, all or none of them. Raises FileFormatError if they cannot be written."""
        try:
            self._reopen_if_removed()
            with self._connection:
                self._connection.execute("BEGIN IMMEDIATE")
                self._insert("makers", {(_digest(about)[:16], about) for about in {one.maker.text for one in made}})
                self._insert("cells", (_row(one) for one in made))
        except sqlite3.Error as error:
            remedy = "make room" if "full" in str(error) else "choose another"
            got = f"{self.path} ({one_line(str(error))}): {remedy}"
            raise FileFormatError(f"expected a place that can be written, got {got}") from None

    def _insert(self, table: str, rows: Iterable[tuple[str, ...]]) -> None:
        places = {"makers": "?, ?", "cells": "?, ?, ?, ?, ?, ?, ?"}[table]
        self._connection.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({places})", rows)

    def _open(self) -> None:
        for path in (self.path, *(self.path.with_name(CELLS + ending) for ending in _BESIDE)):
            _replace_unless_file(path)
        self._damage = ""
        try:
            # SQLite takes a file of a few bytes for an empty one, and would write over it.
            cut_off = self.path.exists() and 0 < self.path.stat().st_size < _SMALLEST
            self._connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            self._connection.text_factory = bytes  # what a checksum did not verify may be no text
            self._damage = "cut off" if cut_off else self._prepare()
        except sqlite3.OperationalError as error:
            if not _is_damage(error):
                got = f"{self.path} ({one_line(str(error))})"
                raise FileFormatError(f"expected a place that can be written, got {got}: choose another") from None
            self._damage = one_line(str(error))
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # what it complains of may be no text
            self._damage = one_line(str(error))
        self._inode = self.path.stat().st_ino if self.path.exists() else None

    def _prepare(self) -> str:
        """Make the tables of a new file. Returns what is wrong with an old one."""
        run = self._connection.execute
        run("PRAGMA trusted_schema = OFF")
        run("PRAGMA cell_size_check = ON")
        run("PRAGMA journal_mode = DELETE")  # the one that works on every file system
        found = {_text(name): _text(sql) for name, sql in run("SELECT name, sql FROM sqlite_master")}
        if not found:
            with self._connection:
                run("BEGIN IMMEDIATE")
                for sql in _TABLES.values():
                    run(sql)
            return ""
        if found != _TABLES:
            return f"tables of another kind: {', '.join(sorted(found))}"
        (said,) = run("PRAGMA quick_check(1)").fetchone()
        return "" if said == b"ok" else one_line(_text(said))

    def _save(self, wanted: Iterable[str]) -> None:
        """Set a damaged file aside and go on with the cells that can be read."""
        rows = []
        for key in wanted:
            with suppress(sqlite3.Error, UnicodeDecodeError):
                rows += self._connection.execute(f"{_SELECT} WHERE key = ?", [key]).fetchall()
        sound = [row for row in rows if _is_sound(row)]
        self.close()
        aside = next(path for k in count(1) if not (path := self.path.with_name(f"cells.damaged-{k}.sqlite")).exists())
        damage = self._damage
        os.replace(self.path, aside)
        for ending in _BESIDE:  # of the old file, not of the new one
            with suppress(FileNotFoundError):
                self.path.with_name(CELLS + ending).unlink()
        self._open()
        with self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            texts = [tuple(map(_text, row)) for row in sound]
            self._insert("makers", {(_digest(row[5])[:16], row[5]) for row in texts})
            self._insert("cells", ((*row[:5], _digest(row[5])[:16], row[6]) for row in texts))
        warnings.warn(
            f"expected {CELLS} as it was written, got a damaged file ({damage}): it is set aside as {aside.name}, "
            f"{len(sound)} of its cells are kept and the others are made again",
            stacklevel=3,
        )

    def _reopen_if_removed(self) -> None:
        """Somebody may remove the folder of a run while it is at work: what comes from now on is kept all the same."""
        try:
            if os.stat(self.path).st_ino == self._inode:
                return
        except FileNotFoundError:
            pass
        self.close()
        make_folder(self.path.parent)
        self._open()
        self.replaced = True


@contextmanager
def opened(out: Path) -> Iterator[Store]:
    """The folder, made if need be and locked, as two runs at once would do the same work twice; and its cells."""
    make_folder(out if not out.is_symlink() else out.resolve())
    for name in (RESULTS, RUN, CELLS):
        if (out / name).is_dir() and not (out / name).is_symlink():
            raise FileFormatError(f"expected a place that can be written, got {out / name} (a folder): move it away")
    try:
        handle = os.open(out, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise FileFormatError(f"expected a folder that can be read, got {out} ({error.strerror})") from None
    try:
        _lock(handle, out)
        for left_over in [*unfinished(out, RESULTS), *unfinished(out, RUN)]:
            with suppress(OSError):  # a folder that is called so
                left_over.unlink()
        store = Store(out)
        try:
            yield store
        finally:
            store.close()
    finally:
        os.close(handle)


def _lock(handle: int, out: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BusyError(f"expected no other run in {out}, got another one at work: wait, or choose another") from None
    except OSError:
        pass  # a file system without locks


def _replace_unless_file(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise FileFormatError(f"expected a place that can be written, got {path} (a folder): move it away")
    got = "a link" if stat.S_ISLNK(mode) else "a pipe" if stat.S_ISFIFO(mode) else "a device or socket"
    warnings.warn(
        f"expected {path.name} as a file, got {got}: it is replaced and its cells are made again", stacklevel=5
    )
    path.unlink()


def _is_damage(error: sqlite3.OperationalError) -> bool:
    """Whether it is the file that is wrong, and not the disk or the rights to it."""
    return any(word in str(error) for word in ("malformed", "corrupt", "not a database", "no such", "unsupported"))


def _row(made: Made) -> tuple[str, ...]:
    maker = made.maker.text
    said = (made.cell.key, canonical(made.cell.to_dict()), canonical(made.inputs), made.rows, repr(made.seconds))
    return (*said, _digest(maker)[:16], _digest(*said, maker))


def _verified(row: Sequence[bytes], cell: Cell, inputs: Inputs) -> Kept:
    if not _is_sound(row):
        raise FileFormatError(f"expected the {cell.title} as it was written, got another checksum")
    _, spec, made_from, rows, seconds, maker, _ = map(_text, row)
    if spec != canonical(cell.to_dict()):
        raise FileFormatError(f"expected the spec of the {cell.title}, got that of another cell")
    if made_from != canonical(inputs):
        before = json.loads(made_from)
        changed = ", ".join(name for name in inputs if before.get(name) != inputs[name])
        raise FileFormatError(f"expected the {cell.title} made from today's {changed}, got another one's")
    return Kept(rows, float(seconds), json.loads(maker))


def _is_sound(row: Sequence[object]) -> bool:
    """Whether the checksum of a row is that of its values."""
    if not all(isinstance(value, bytes) for value in row):
        return False
    *said, digest = (value for value in row if isinstance(value, bytes))
    return _digest(*said).encode() == digest


def _digest(*values: str | bytes) -> str:
    digest = hashlib.sha256()
    for value in values:
        content = value.encode() if isinstance(value, str) else value
        digest.update(b"%d:" % len(content) + content)
    return digest.hexdigest()


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
