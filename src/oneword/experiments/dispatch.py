"""Hand cells out to the workers of a Dask cluster, whatever happens to workers and scheduler on the way.

Every worker is asked in (`_ask`) before it gets cells, whenever it joined: one with other versions, or too little
memory, gets none. An order is meant for one worker, holds a fraction of a second of work, and may be given to another
one if its worker dies, falls silent or takes too long. The processes of one machine are given cells that fit into its
memory together. Cells are pure: done twice they give the same rows, and the first answer counts.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
import uuid
import warnings
from collections import Counter, deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from oneword.checks import described
from oneword.errors import ClusterError
from oneword.experiments.cell import Cell
from oneword.experiments.cluster import Client, Place
from oneword.experiments.costs import BASE_BYTES
from oneword.experiments.draws import Inputs
from oneword.experiments.making import Delivery, Order, Outcome, fill_order, versions

SECONDS = 0.4  # of work in an order of short cells: what a kill may lose, and what a journey is spread over
_ORDER = 0.008  # seconds of work per worker: a scheduler takes 5 ms for an order, so more than 50 get longer ones
SILENCE = 30.0  # seconds after which somebody who does not answer is mentioned, and a worker's cells go to others
PATIENCE = 60.0  # seconds for a scheduler to answer and for its first worker to appear
_LOOK = 1.0  # seconds between two looks at who is there
_WAIT = 0.25  # seconds at most between two looks at what is done
_MOST = 512  # cells of an order
_ANSWER = 10.0  # seconds for the scheduler to answer a question


@dataclass(frozen=True)
class Rules:
    """What to do with cells that do not come back.

    | field | meaning |
    |---|---|
    | `timeout` | seconds that a cell may take; its worker is started anew then |
    | `retries` | how often a cell is done again whose worker died, that took too long or raised an error not our own |
    """

    timeout: float | None = None
    retries: int = 3


@dataclass(eq=False)
class _Flight:
    """An order on its way."""

    number: int
    future: Any
    cells: Sequence[Cell]
    since: float  # when its worker began with it, as far as that is known
    given_up: bool = False  # its cells are with somebody else, or waiting for one


@dataclass(eq=False)
class _Worker:
    address: str
    asked: Any
    heard: float
    seen: Any = None
    running: bool = True
    admitted: bool = False
    refused: str = ""
    silent: bool = False
    flights: list[_Flight] = field(default_factory=list)  # in the order they were sent


class Dispatcher:
    """Cells as they are done; `outcomes` is called once."""

    def __init__(self, place: Place, cells: Sequence[Cell], inputs: Mapping[str, Inputs], rules: Rules) -> None:
        self._place, self._name, self._inputs, self._rules = place, place.name, inputs, rules
        self._waiting = deque(cells)  # in this order
        self._alone: deque[Cell] = deque()  # to be done again, each in an order of its own
        self._open = {cell.key: cell for cell in cells}
        self._cost = {cell.key: cell.estimate_cost() for cell in cells}
        self._bytes = {cell.key: cell.estimate_bytes() for cell in cells}
        self._largest = max(self._bytes.values(), default=0)
        self._failures: Counter[str] = Counter()
        self._failed: list[tuple[Cell, Outcome]] = []  # to be reported
        self._seconds = SECONDS
        self._pace = 1.0  # seconds that a second of estimated cost takes
        self._workers: dict[str, _Worker] = {}
        self._numbers = count()
        self._run = uuid.uuid4().hex[:8]  # a scheduler may remember tasks of other runs
        self._something = threading.Event()
        self._looked = 0.0
        self._client: Client = None
        self._heard = time.monotonic()  # when any worker was last heard of
        self._mentioned = self._threads_mentioned = False

    def outcomes(self) -> Generator[list[tuple[Cell, Outcome]]]:
        """Lists of cells with what came of them, until all have come."""
        self._client = self._place.connect(PATIENCE)
        try:
            self._wait_for_a_worker()
            while self._open:
                if self._client.status != "running":
                    self._connect_again()
                self._look()
                self._hand_out()
                self._something.wait(_WAIT)
                self._something.clear()
                if done := self._collect():
                    yield done
                self._check_times()
                self._mention_silence()
        finally:  # an interrupt, or whoever listens has heard enough
            self._leave()

    # Who is there -----------------------------------------------------------------------------------------------------

    def _wait_for_a_worker(self) -> None:
        until = time.monotonic() + (math.inf if self._place.queued else PATIENCE)
        while not any(worker.admitted for worker in self._workers.values()):
            self._look(again=True)
            self._something.wait(0.1)
            self._something.clear()
            self._hear_answers()
            refused = [f"{worker.refused} ({worker.address})" for worker in self._workers.values() if worker.refused]
            if refused and len(refused) == len(self._workers):
                raise ClusterError(f"no worker of {self._name} can do the cells: {refused[0]}")
            if time.monotonic() > until:
                got = f"none within {PATIENCE:.0f} s"
                raise ClusterError(f"expected a worker at {self._name}, got {got}: {self._place.remedy}")
            if self._place.queued:
                self._mention_silence()

    def _look(self, *, again: bool = False) -> None:
        """Who has come, who has gone, and who was heard of."""
        now = time.monotonic()
        if not again and now - self._looked < _LOOK:
            return
        self._looked = now
        try:
            identity = self._client.sync(self._client.scheduler.identity, n_workers=-1, callback_timeout=_ANSWER)
        except (OSError, TimeoutError, RuntimeError, AttributeError):  # the connection is being lost
            return
        there = identity["workers"]
        for address in set(self._workers) - set(there):
            self._lose(self._workers.pop(address))
        for address, about in there.items():
            worker = self._workers.get(address) or self._ask(address, int(about.get("nthreads", 1)))
            worker.running = about.get("status") == "running"
            if about.get("last_seen") != worker.seen:
                worker.seen = about.get("last_seen")
                self._hear(worker)

    def _ask(self, address: str, threads: int) -> _Worker:
        """Send a newcomer an order without cells, for the largest cell: its answer says whether it may have others."""
        if threads > 1 and not self._threads_mentioned:
            self._threads_mentioned = True
            remedy = "start one worker per core, with one thread each"
            warnings.warn(f"the worker {address} has {threads} threads, and cells use one: {remedy}", stacklevel=4)
        order = Order((), (), (), 0.0, versions(), self._largest)
        worker = _Worker(address, self._send(order, address, next(self._numbers)), time.monotonic())
        self._workers[address] = worker
        return worker

    def _hear(self, worker: _Worker) -> None:
        worker.heard = time.monotonic()
        worker.silent = False
        if worker.admitted:
            self._heard, self._mentioned = worker.heard, False

    def _hear_answers(self) -> None:
        for worker in self._workers.values():
            if worker.asked is None or worker.asked.status == "pending":
                continue
            try:
                worker.refused = worker.asked.result(timeout=_ANSWER).refused
            except TimeoutError:
                continue
            except Exception as error:  # no oneword there, or one that cannot be imported
                worker.refused = f"expected the same oneword on every worker, got {described(error)}: install it there"
            worker.asked.release()
            worker.asked, worker.admitted = None, not worker.refused
            self._hear(worker)
            if worker.refused:
                warnings.warn(f"the worker {worker.address} gets no cells: {worker.refused}", stacklevel=4)

    # Orders -----------------------------------------------------------------------------------------------------------

    def _hand_out(self) -> None:
        """Every worker has one order, and a second one to go on with where orders are short and many are left."""
        now = time.monotonic()
        able = [one for one in self._workers.values() if one.admitted and one.running and now - one.heard < SILENCE]
        self._seconds = min(2 * SECONDS, max(SECONDS, _ORDER * len(able)))
        for depth in (1, 2):
            for worker in able:
                enough = len(worker.flights) >= depth or (depth == 2 and not self._many_left(len(able)))
                if not enough and (cells := self._next(worker, len(able))):
                    self._order(worker, cells)

    def _many_left(self, workers: int) -> bool:
        """Whether nobody will be idle while another one has two orders."""
        if len(self._waiting) < 4 * workers:
            return False
        return self._cost[self._waiting[0].key] * self._pace < 4 * self._seconds

    def _next(self, worker: _Worker, workers: int) -> list[Cell]:
        """The next cells that belong together: those of a fraction of a second that fit into memory now."""
        room = self._room(worker)
        if cell := self._take(self._alone, room):
            return [cell]
        most = min(_MOST, 1 + len(self._waiting) // (2 * max(1, workers)))
        cells: list[Cell] = []
        seconds = 0.0
        while len(cells) < most and (not cells or seconds < self._seconds):
            if (cell := self._take(self._waiting, room)) is None:
                break
            cells.append(cell)
            seconds += self._cost[cell.key] * self._pace
        return cells

    def _take(self, cells: deque[Cell], room: float) -> Cell | None:
        """The first cell that is still to be done and fits; those before it go on waiting."""
        place = 0
        while place < len(cells):
            if (cell := cells[place]).key not in self._open:
                del cells[place]
            elif self._bytes[cell.key] <= room:
                del cells[place]
                return cell
            else:
                place += 1
        return None

    def _room(self, worker: _Worker) -> float:
        """Bytes that a cell may take on this worker beside what the others do; idle ones take some as well.

        What one worker alone may do was checked before.
        """
        others = [one for one in self._workers.values() if one is not worker]
        if self._place.memory is None or not any(one.flights for one in others):
            return math.inf
        return self._place.memory - sum(
            max((self._bytes[cell.key] for flight in one.flights for cell in flight.cells), default=BASE_BYTES)
            for one in others
        )

    def _order(self, worker: _Worker, cells: Sequence[Cell]) -> None:
        order = Order(
            [cell.to_dict() for cell in cells],
            [getattr(cell, "own", None) for cell in cells],
            [self._inputs[cell.key] for cell in cells],
            self._seconds,
            versions(),
            self._largest,
        )
        number = next(self._numbers)
        worker.flights.append(_Flight(number, self._send(order, worker.address, number), cells, time.monotonic()))

    def _send(self, order: Order, address: str, number: int) -> Any:
        key = f"oneword-{self._run}-{number}"
        future = self._client.submit(
            fill_order, order, number, key=key, workers=[address], allow_other_workers=False, pure=False
        )
        future.add_done_callback(lambda _: self._something.set())
        return future

    # What came of them ------------------------------------------------------------------------------------------------

    def _collect(self) -> list[tuple[Cell, Outcome]]:
        self._hear_answers()
        finished: list[_Flight] = []
        for worker in self._workers.values():
            for flight in list(worker.flights):
                if (status := flight.future.status) == "finished":
                    finished.append(flight)
                elif status == "error":
                    self._land(worker, flight)
                    self._again(flight, described(flight.future.exception(timeout=_ANSWER)))
                elif status != "pending":  # cancelled or lost, with the connection or by somebody
                    self._land(worker, flight)
                    self._put_back(flight)
        done = self._failed
        self._failed = []
        if finished:
            deliveries = self._gathered([flight.future for flight in finished])
            for worker in self._workers.values():
                for flight in [one for one in worker.flights if one.number in deliveries]:
                    self._land(worker, flight)
                    done += self._taken(worker, flight, deliveries[flight.number])
        return done

    def _gathered(self, futures: Sequence[Any]) -> dict[int, Delivery]:
        """Deliveries by number; none of those whose worker died before it could hand them over."""
        asked = self._client.gather(list(futures), errors="skip", asynchronous=True)
        try:
            loop = self._client.loop.asyncio_loop
            found = asyncio.run_coroutine_threadsafe(asked, loop).result(_ANSWER)
        except (OSError, TimeoutError, asyncio.CancelledError, RuntimeError):
            return {}
        return {delivery.number: delivery for delivery in found if isinstance(delivery, Delivery)}

    def _taken(self, worker: _Worker, flight: _Flight, delivery: Delivery) -> Iterable[tuple[Cell, Outcome]]:
        self._hear(worker)
        if delivery.refused:  # it was admitted, and is another one now
            worker.admitted, worker.refused = False, delivery.refused
            self._put_back(flight)
            return
        left = flight.cells[len(delivery.outcomes) :]
        self._put_back(flight, left)
        for cell, outcome in zip(flight.cells, delivery.outcomes, strict=False):
            if outcome.rows is not None:
                self._pace += 0.05 * (outcome.seconds / max(1e-9, self._cost[cell.key]) - self._pace)
            elif outcome.cause is not None and self._try_again(cell):
                continue
            if self._open.pop(cell.key, None) is not None:
                yield cell, outcome

    def _land(self, worker: _Worker, flight: _Flight) -> None:
        worker.flights.remove(flight)
        flight.future.release()
        if worker.flights:
            worker.flights[0].since = time.monotonic()

    def _put_back(self, flight: _Flight, cells: Sequence[Cell] | None = None) -> None:
        """Cells that nobody has begun with."""
        if not flight.given_up:
            self._waiting.extendleft(reversed(flight.cells if cells is None else cells))

    def _again(self, flight: _Flight, reason: str) -> None:
        """Cells that were being done when something happened: which of several it was is found out one by one."""
        if flight.given_up:
            return
        flight.given_up = True
        if len(flight.cells) > 1:
            self._alone.extend(flight.cells)
        elif not self._try_again(flight.cells[0]) and self._open.pop(flight.cells[0].key, None) is not None:
            self._failed.append((flight.cells[0], Outcome(None, reason=reason)))
            self._something.set()

    def _try_again(self, cell: Cell) -> bool:
        """Whether the cell may be done once more; it is then."""
        if cell.key not in self._open or self._failures[cell.key] >= self._rules.retries:
            return False
        self._failures[cell.key] += 1
        self._alone.append(cell)
        return True

    # What can go wrong ------------------------------------------------------------------------------------------------

    def _lose(self, worker: _Worker) -> None:
        """A worker has gone: the first of its orders is the one it was at."""
        for place, flight in enumerate(worker.flights):
            if place:
                self._put_back(flight)
            else:
                times = 1 + self._failures[flight.cells[0].key]
                died = f"its process died {times} times" if times > 1 else "its process died"
                self._again(flight, f"{died}, as it does when memory runs out: use fewer workers")
            flight.future.release()
        if worker.asked is not None:
            worker.asked.release()

    def _check_times(self) -> None:
        now, limit = time.monotonic(), self._rules.timeout
        for worker in self._workers.values():
            if now - worker.heard > SILENCE and worker.flights and not worker.silent:
                worker.silent = True
                others = sum(one.admitted and not one.silent for one in self._workers.values())
                for flight in worker.flights:
                    self._put_back(flight)
                    flight.given_up = True
                if others:
                    warnings.warn(
                        f"the worker {worker.address} has not answered for {SILENCE:.0f} s: its cells go to others",
                        stacklevel=3,
                    )
            if limit is None or not worker.flights or (first := worker.flights[0]).given_up:
                continue
            if now - first.since > limit + (self._seconds if len(first.cells) > 1 else 0.0):
                self._again(first, f"expected it done within {limit:g} s, got no answer: allow more time for a cell")
                for flight in worker.flights[1:]:
                    self._put_back(flight)
                    flight.given_up = True
                self._restart(worker.address)

    def _restart(self, address: str) -> None:
        """Only its nanny can end a worker that computes; one without keeps its cell until it is done."""

        def restart() -> None:
            with suppress(Exception):
                self._client.restart_workers([address], timeout=PATIENCE, raise_for_error=False)

        threading.Thread(target=restart, daemon=True).start()

    def _mention_silence(self) -> None:
        if time.monotonic() - self._heard > SILENCE and not self._mentioned:
            self._mentioned = True
            known = f"{len(self._workers)} known to the scheduler" if self._workers else "none is connected"
            warnings.warn(
                f"no worker of {self._name} has answered for {SILENCE:.0f} s ({known}): the run waits for one; "
                f"{self._place.remedy}",
                stacklevel=3,
            )

    def _connect_again(self) -> None:
        """The scheduler is gone: everything under way is handed out again when there is one."""
        warnings.warn(
            f"the scheduler at {self._name} is lost: start it again under the same address, and its workers; "
            "the run waits and goes on then",
            stacklevel=3,
        )
        for worker in self._workers.values():
            for flight in worker.flights:
                self._put_back(flight)
        self._workers.clear()
        self._leave()
        while True:
            try:
                self._client = self._place.connect(_ANSWER)
                break
            except ClusterError:
                time.sleep(1.0)
        self._heard, self._mentioned, self._looked = time.monotonic(), False, 0.0
        warnings.warn(f"the scheduler at {self._name} is back: the run goes on", stacklevel=3)

    def _leave(self) -> None:
        with suppress(Exception):
            flights = [flight.future for worker in self._workers.values() for flight in worker.flights]
            if flights and self._client.status == "running":
                self._client.cancel(flights, force=True)
        with suppress(Exception):
            self._client.close(timeout=2)
