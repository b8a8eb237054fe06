"""Cells are written beside the work: by a thread of its own, many at a time, within a fraction of a second."""

from __future__ import annotations

import queue
import threading
import time
from types import TracebackType

from oneword.experiments.store import Made, Store

EVERY = 0.2  # seconds that a finished cell waits for others; a kill loses no cell that was done much before
_WAITING = 1 << 12  # cells; whoever brings more waits for the disk


class Writer:
    """A context: what is put is in the store when it ends, also if it ends with an error."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue: queue.Queue[Made | None] = queue.Queue(_WAITING)
        self._error: BaseException | None = None
        self.written = 0
        self._thread = threading.Thread(target=self._run, name="oneword-writer", daemon=True)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._queue.put(None)
        self._thread.join()
        if error is None:
            self._check()

    @property
    def failed(self) -> bool:
        """Whether cells could not be written."""
        return self._error is not None

    def put(self, made: Made) -> None:
        """Raises what went wrong with earlier cells: FileFormatError if the disk is full, for one."""
        self._check()
        self._queue.put(made)

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        last = False
        while not last:
            taken = [self._queue.get()]
            until = time.monotonic() + EVERY
            while taken[-1] is not None and (left := until - time.monotonic()) > 0:
                try:
                    taken.append(self._queue.get(timeout=left))
                except queue.Empty:
                    break
            last = taken[-1] is None
            made = [one for one in taken if one is not None]
            if made and self._error is None:  # after an error the queue is only emptied
                try:
                    self._store.write(made)
                    self.written += len(made)
                except BaseException as error:
                    self._error = error
