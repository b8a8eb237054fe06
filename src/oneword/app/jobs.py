"""Work that visitors wait for: quick passes of everybody first, then long searches one after the other.

A piece of work uses all cores, so that a second one beside it would make both wait: at any moment one of them goes on.
Work is a generator, and each of its pauses is a place to give way: it says True if what comes next may take long. Quick
passes go before every long search, also one that is going on, which gives way where it says how far it is. A visitor
has one piece of work at a time: a new one stops the one before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from threading import Condition, Event, Thread

from oneword.errors import OnewordError, RangeError
from oneword.progress import TimeLeft

MOST_WAITING = 64
PATIENCE = 30.0  # seconds for which long searches wait for quick passes, …
MOMENT = 1.0  # … and for which they then go on
LOOK_AGAIN = 0.5  # seconds


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
    long: bool = False  # what comes next may take long
    passes: int = 0  # quick passes that it had
    number: int = 0  # in the order of arrival
    _steps: Iterator[bool] = field(default_factory=lambda: iter(()), repr=False)
    _give_way: Callable[[Job], None] = field(default=lambda job: None, repr=False)
    _left: TimeLeft = field(default_factory=TimeLeft, repr=False)
    _stop: Event = field(default_factory=Event, repr=False)
    _finished: Event = field(default_factory=Event, repr=False)

    def report(self, stage: str, done: float) -> None:
        """Called by the work as it goes on: here it learns that it is not wanted any more, or gives way to others."""
        if self._stop.is_set():
            raise StoppedError
        self.stage, self.done = stage, done
        self._left.update(done)
        self._give_way(self)

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
        return self._left.seconds

    @property
    def turn(self) -> tuple[bool, int, int]:
        """Whose turn it is: the least of these goes on."""
        return self.long, 0 if self.long else self.passes, self.number

    def step(self) -> None:
        """Go on to the next pause, or to the end."""
        try:
            self.report(self.stage, self.done)
            self.long = next(self._steps)
            self.passes += 1
            return
        except StopIteration:
            self.complete = True
        except StoppedError:
            pass
        except OnewordError as error:
            self.error = str(error)
        except Exception as error:
            self.error = f"this should not have happened: {type(error).__name__}: {error}"
        self._steps = iter(())  # what it holds goes
        self._finished.set()


class Jobs:
    """The line in which visitors wait, and two threads, of which one works at a time.

    One does quick passes, the other long searches; it stands still inside of a search while quick passes are done.
    """

    def __init__(self) -> None:
        self._line: dict[str, Job] = {}
        self._numbers = count()
        self._turn = Condition()
        self._quick: Job | None = None  # the quick pass that is being done
        self._searching: Job | None = None  # the long search that was begun
        self._still = False  # whether it stands still
        self._worked = self._resumed = time.monotonic()  # when a long search last went on, and since when
        self._closed = False
        self._threads = [
            Thread(target=self._serve, args=[long], name=f"measure-{name}", daemon=True)
            for name, long in (("quick", False), ("long", True))
        ]
        for thread in self._threads:
            thread.start()

    def start(self, visitor: str, work: Callable[[Job], Iterator[bool]], kind: str = "") -> Job:
        """Put a piece of work into the line, in the place of the visitor's last one."""
        job = Job(kind, number=next(self._numbers), _give_way=self._give_way)
        job._steps = work(job)
        with self._turn:
            self._drop(visitor, replaced=True)
            if len(self._line) >= MOST_WAITING:
                raise RangeError(f"expected at most {MOST_WAITING} visitors in line, got one more: try again later")
            self._line[visitor] = job
            self._turn.notify_all()
        return job

    def stop(self, visitor: str, *, replaced: bool = False) -> None:
        """What this visitor waits for, or has running, is not wanted any more."""
        with self._turn:
            self._drop(visitor, replaced=replaced)

    def busy(self, visitor: str, but: str | None = None) -> bool:
        """Whether this visitor waits for something, work of the kind `but` left out."""
        with self._turn:
            return visitor in self._line and self._line[visitor].kind != but

    def before(self, job: Job) -> int:
        """How many others are served before this one."""
        with self._turn:
            if job in (self._quick, self._searching):
                return 0
            waiting = [each for each in self._line.values() if not each.finished and each is not job]
            return sum(each.turn < job.turn or (job.long and each is self._searching) for each in waiting)

    def close(self) -> None:
        with self._turn:
            self._closed = True
            for visitor in list(self._line):
                self._drop(visitor)
            self._turn.notify_all()
        for thread in self._threads:
            thread.join()

    def _drop(self, visitor: str, *, replaced: bool = False) -> None:
        job = self._line.pop(visitor, None)
        if job is not None:
            job.replaced = replaced
            job.stop()
            if job not in (self._quick, self._searching):  # nobody is at it: this is its end
                job._steps = iter(())
                job._finished.set()
        self._turn.notify_all()

    def _next(self, long: bool) -> Job | None:
        """The one whose turn it is, of those before or after their quick passes."""
        waiting = [job for job in self._line.values() if job.long == long and not job.finished]
        return min(waiting, key=lambda job: job.turn, default=None)

    def _serve(self, long: bool) -> None:
        """One of the two threads: a step of whoever is next, again and again."""
        while True:
            with self._turn:
                while not (self._closed or self._may_begin(long)):
                    self._turn.wait(LOOK_AGAIN)
                if self._closed:
                    return
                job = self._next(long)
                assert job is not None, "there is one, or the wait would go on"
                self._begin(job, long)
            job.step()
            with self._turn:
                if long:
                    self._searching, self._worked = None, time.monotonic()
                else:
                    self._quick = None
                    if job.long and not any(each.long and each is not job for each in self._line.values()):
                        self._worked = time.monotonic()  # long searches wait from now on
                if job.finished:
                    for visitor in [name for name, each in self._line.items() if each is job]:
                        del self._line[visitor]
                self._turn.notify_all()

    def _begin(self, job: Job, long: bool) -> None:
        if long:
            self._searching, self._still = job, False
            self._resumed = time.monotonic()
        else:
            self._quick = job

    @property
    def _overdue(self) -> bool:
        """Whether long searches have waited for so long that they go on for a moment, whoever waits."""
        return self._next(True) is not None and time.monotonic() - self._worked > PATIENCE

    def _may_begin(self, long: bool) -> bool:
        wanted = self._next(False) is not None
        if long:
            return self._next(True) is not None and self._quick is None and (not wanted or self._overdue)
        standing = self._searching is None or self._still
        return wanted and standing and not self._overdue

    def _give_way(self, job: Job) -> None:
        """A long search stands still while quick passes are waiting or being done."""
        if job is not self._searching:
            return
        with self._turn:
            self._worked = time.monotonic()
            if self._next(False) is None or self._worked - self._resumed < MOMENT:
                return
            self._still = True
            self._turn.notify_all()
            while not (self._closed or job.stopped) and not self._may_go_on():
                self._turn.wait(LOOK_AGAIN)
            self._still, self._resumed = False, time.monotonic()
        if job.stopped:
            raise StoppedError

    def _may_go_on(self) -> bool:
        return self._quick is None and (self._next(False) is None or self._overdue)
