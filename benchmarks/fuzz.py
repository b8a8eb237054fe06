"""Hostile inputs, in process: each case ends within its time in a result or in a named error of one line.

A case makes its files in a folder of its own and returns what is to be tried. Nothing but `target` beside them may be
written meanwhile: contents, kinds and times of everything else are compared. The cases of models are in
`fuzz_models.py`, those of texts, specs and tables in `fuzz_inputs.py`.
"""

from __future__ import annotations

import hashlib
import os
import resource
import signal
import stat
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from oneword.checks import printable, shortened
from oneword.errors import OnewordError

SECONDS = 10.0
LONGEST_MESSAGE = 600
MOST_MEMORY = 1_000_000_000  # bytes that one case may need at its peak


@dataclass(frozen=True)
class Home:
    """The folder of one case: `input` for what is read, `target` for what may be written, `outside` with a decoy."""

    path: Path

    @property
    def input(self) -> Path:
        return self.path / "input"

    @property
    def target(self) -> Path:
        return self.path / "target"

    @property
    def outside(self) -> Path:
        return self.path / "outside"

    @property
    def decoy(self) -> Path:
        """A file that nobody may read into a message, or write."""
        return self.outside / "decoy.txt"


SECRET = "d3c0y-c0ntent"


@dataclass(frozen=True)
class Case:
    """`make` writes hostile files and returns what is tried with them; `kind` is for counting."""

    name: str
    kind: str
    make: Callable[[Home], Callable[[], object]]


class TooSlowError(BaseException):
    """Raised by the alarm; no Exception, so that nobody takes it for an error of a file."""


def run(cases: Iterable[Case], seconds: float = SECONDS) -> dict[str, Any]:
    """All cases, one after the other: how many of each outcome, and everything that went wrong."""
    outcomes: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    faults: list[str] = []
    slowest, largest = 0.0, 0
    for case in cases:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            home = Home(Path(folder))
            for each in (home.input, home.target, home.outside):
                each.mkdir()
            home.decoy.write_text(SECRET)
            outcome, said, took, grown = _tried(case, home, seconds)
        kinds[case.kind] += 1
        outcomes[outcome] += 1
        slowest, largest = max(slowest, took), max(largest, grown)
        said += [f"{took:.1f} s"] * (took > seconds) + [f"{grown / 1e6:.0f} MB"] * (grown > MOST_MEMORY)
        faults += [f"{case.kind}: {case.name}: {each}" for each in said]
    return {
        "cases": sum(kinds.values()),
        "kinds": dict(sorted(kinds.items())),
        "outcomes": dict(sorted(outcomes.items())),
        "faults": faults,
        "slowest_seconds": round(slowest, 2),
        "largest_growth_mb": round(largest / 1e6),
    }


def _tried(case: Case, home: Home, seconds: float) -> tuple[str, list[str], float, int]:
    """The outcome of a case, what is wrong with it, its seconds and its growth of memory in bytes."""
    do = case.make(home)
    before = _snapshot(home)
    wrong: list[str] = []
    _forget_peak()
    memory, started = peak(), time.monotonic()
    try:
        with within(seconds), _own_cache(home), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            do()
        outcome = "result"
    except OnewordError as error:
        outcome = type(error).__name__
        wrong += _faults_of_message(str(error))
    except TooSlowError:
        outcome = "too slow"
        wrong.append(f"no answer in {seconds:g} s")
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # also what Rust raises when it panics
        outcome = "fault"
        wrong.append(shortened(printable(f"{type(error).__name__}: {error}"), 200))
    took, grown = time.monotonic() - started, peak() - memory
    after = _snapshot(home)
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return outcome, wrong + [f"changed {name}" for name in changed], took, grown


def _faults_of_message(text: str) -> list[str]:
    checks = {
        "no message": not text.strip(),
        f"a message of {len(text)} characters": len(text) > LONGEST_MESSAGE,
        f"a message that is not one printable line: {printable(text)[:80]}": printable(text) != text,
        "the content of a foreign file in the message": SECRET in text,
    }
    return [what for what, holds in checks.items() if holds]


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """An alarm after so many seconds, in the main thread."""

    def ring(signum: int, frame: FrameType | None) -> None:
        raise TooSlowError

    kept = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, kept)


@contextmanager
def _own_cache(home: Home) -> Iterator[None]:
    """What the package keeps for later goes to the target as well."""
    kept = os.environ.get("ONEWORD_CACHE")
    os.environ["ONEWORD_CACHE"] = str(home.target / "cache")
    try:
        yield
    finally:
        if kept is None:
            del os.environ["ONEWORD_CACHE"]
        else:
            os.environ["ONEWORD_CACHE"] = kept


def _snapshot(home: Home) -> dict[str, tuple[object, ...]]:
    """Everything of a case but its target: kind, rights, size, time of change, and what a file or a link says."""
    found: dict[str, tuple[object, ...]] = {}
    for folder, folders, files in os.walk(home.path):
        if Path(folder) == home.path:
            folders.remove(home.target.name)
        for name in [*folders, *files]:
            path = Path(folder, name)
            about = path.lstat()
            says: object = None
            if stat.S_ISLNK(about.st_mode):
                says = os.readlink(path)
            elif stat.S_ISREG(about.st_mode) and about.st_size < 10_000_000 and os.access(path, os.R_OK):
                says = hashlib.sha256(path.read_bytes()).hexdigest()
            found[str(path.relative_to(home.path))] = (about.st_mode, about.st_size, about.st_mtime_ns, says)
    return found


def _forget_peak() -> None:
    """Let the peak of memory begin anew, where the system can."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def peak() -> int:
    """The most bytes that this process held since the peak was forgotten, or since it began."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1000
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1000
