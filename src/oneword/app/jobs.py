"""Work that visitors wait for: one piece after the other, in a thread, with progress, and stopped when asked.

Every piece uses all cores, so that a second one beside it would make both wait. A visitor has one piece at a time: a
new one stops the one before.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event, Lock

from oneword.errors import OnewordError, RangeError

MOST_WAITING = 64


class StoppedError(Exception):
    """Raised inside a piece of work whose visitor does not want it any more."""


@dataclass(eq=False)
class Job:
    """One piece of work, as seen from outside while it goes on."""

    kind: str = ""
    stage: str = ""
    done: float = 0.0
    error: str = ""
    complete: bool = False  # the work came to its end; what was stopped is finished, but not complete
    replaced: bool = False  # its visitor wanted something else instead
    started: float | None = None
    _stop: Event = field(default_factory=Event, repr=False)
    _finished: Event = field(default_factory=Event, repr=False)

    def report(self, stage: str, done: float) -> None:
        """Called by the work as it goes on; this is where it learns that it is not wanted any more."""
        if self._stop.is_set():
            raise StoppedError
        self.stage, self.done = stage, done

    def stop(self) -> None:
        self._stop.set()

    @property
    def stopped(self) -> bool:
        return self._stop.is_set()

    @property
    def finished(self) -> bool:
        return self._finished.is_set()

    @property
    def seconds_left(self) -> float | None:
        """A guess from what is done; None while there is nothing to guess from."""
        if self.started is None or self.done < 0.03:
            return None
        return (time.monotonic() - self.started) * (1 - self.done) / self.done

    def run(self, work: Callable[[Job], None]) -> None:
        self.started = time.monotonic()
        try:
            self.report("", 0.0)
            work(self)
            self.complete = True
        except StoppedError:
            pass
        except OnewordError as error:
            self.error = str(error)
        except Exception as error:
            self.error = f"this should not have happened: {type(error).__name__}: {error}"
            raise
        finally:
            self._finished.set()


class Jobs:
    """The line in which visitors wait."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="measure")
        self._line: dict[str, Job] = {}
        self._lock = Lock()

    def start(self, visitor: str, work: Callable[[Job], None], kind: str = "") -> Job:
        """Put a piece of work at the end of the line, in the place of the visitor's last one."""
        job = Job(kind)
        with self._lock:
            self._drop(visitor, replaced=True)
            if len(self._line) >= MOST_WAITING:
                raise RangeError(f"expected at most {MOST_WAITING} visitors in line, got one more: try again later")
            self._line[visitor] = job
        self._pool.submit(self._run, visitor, job, work)
        return job

    def stop(self, visitor: str, *, replaced: bool = False) -> None:
        """What this visitor waits for, or has running, is not wanted any more."""
        with self._lock:
            self._drop(visitor, replaced=replaced)

    def busy(self, visitor: str, but: str | None = None) -> bool:
        """Whether this visitor waits for something, work of the kind `but` left out."""
        with self._lock:
            return visitor in self._line and self._line[visitor].kind != but

    def before(self, job: Job) -> int:
        """How many others are served before this one."""
        with self._lock:
            waiting = [each for each in self._line.values() if not each.finished]
        return waiting.index(job) if job in waiting else 0

    def close(self) -> None:
        with self._lock:
            for visitor in list(self._line):
                self._drop(visitor)
        self._pool.shutdown(cancel_futures=True)

    def _drop(self, visitor: str, *, replaced: bool = False) -> None:
        job = self._line.pop(visitor, None)
        if job is not None:
            job.replaced = replaced
            job.stop()

    def _run(self, visitor: str, job: Job, work: Callable[[Job], None]) -> None:
        try:
            job.run(work)
        finally:
            with self._lock:
                if self._line.get(visitor) is job:
                    del self._line[visitor]
