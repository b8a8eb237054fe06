"""The line in which visitors wait: in order, one at a time, stopped when asked, never stuck."""

import time
from threading import Event

import pytest

from oneword.app import jobs as module
from oneword.app.jobs import Job, Jobs
from oneword.errors import RangeError


@pytest.fixture
def jobs():
    line = Jobs()
    yield line
    line.close()


def wait_for(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.005)


def until(gate):
    """Work that goes on until the gate opens, and says so all the time."""

    def work(job: Job) -> None:
        while not gate.wait(0.005):
            job.report("waiting", 0.5)

    return work


def test_they_are_served_one_after_the_other_in_their_order(jobs):
    gate, order = Event(), []
    first = jobs.start("a", until(gate))
    second = jobs.start("b", lambda job: order.append("b"))
    third = jobs.start("c", lambda job: order.append("c"))
    wait_for(lambda: first.stage == "waiting")
    assert [jobs.before(job) for job in (first, second, third)] == [0, 1, 2]
    assert order == []
    gate.set()
    wait_for(lambda: third.finished)
    assert order == ["b", "c"]
    assert not any(map(jobs.busy, "abc"))


def test_work_is_stopped_where_it_says_how_far_it_is(jobs):
    job = jobs.start("a", until(Event()))
    wait_for(lambda: job.stage == "waiting")
    jobs.stop("a")
    wait_for(lambda: job.finished)
    assert job.stopped
    assert not job.complete
    assert not job.replaced
    assert job.error == ""


def test_work_that_waits_is_stopped_before_it_begins(jobs):
    gate, begun = Event(), []
    jobs.start("a", until(gate))
    waiting = jobs.start("b", lambda job: begun.append(1))
    jobs.stop("b")
    assert waiting.stopped
    gate.set()
    wait_for(lambda: waiting.finished)
    assert begun == []


def test_a_new_wish_takes_the_place_of_the_last_one(jobs):
    old = jobs.start("a", until(Event()))
    new = jobs.start("a", lambda job: None)
    wait_for(lambda: new.finished)
    assert old.stopped
    assert old.replaced
    assert new.complete
    assert not new.stopped


def test_one_kind_of_work_may_be_left_out_of_what_a_visitor_waits_for(jobs):
    gate = Event()
    jobs.start("a", until(gate), kind="a look")
    assert jobs.busy("a")
    assert not jobs.busy("a", but="a look")
    assert not jobs.busy("b")
    gate.set()


def test_an_error_is_said_and_the_line_goes_on(jobs):
    def wrong(job: Job) -> None:
        raise RangeError("expected a, got b")

    def broken(job: Job) -> None:
        raise ZeroDivisionError("oh")

    for work, said in ((wrong, "expected a, got b"), (broken, "this should not have happened: ZeroDivisionError: oh")):
        job = jobs.start("a", work)
        wait_for(lambda job=job: job.finished)
        assert job.error == said


def test_the_line_is_not_endless(jobs, monkeypatch):
    monkeypatch.setattr(module, "MOST_WAITING", 2)
    gate = Event()
    for visitor in "ab":
        jobs.start(visitor, until(gate))
    with pytest.raises(RangeError, match="at most 2 visitors in line"):
        jobs.start("c", until(gate))
    gate.set()


def test_the_time_left_is_a_guess_from_what_is_done():
    job = Job()
    assert job.seconds_left is None
    job.started, job.done = time.monotonic() - 10, 0.25
    assert job.seconds_left == pytest.approx(30, rel=0.01)
