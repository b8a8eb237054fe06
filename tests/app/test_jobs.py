"""The line in which visitors wait: quick passes first, one at a time, stopped when asked, never stuck."""

import time
from collections.abc import Iterator
from threading import Event

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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


def until(gate, *, long=True):
    """Work that goes on until the gate opens, and says so all the time."""

    def work(job: Job) -> Iterator[bool]:
        yield long
        while not gate.wait(0.005):
            job.report("waiting", 0.5)

    return work


def once(do, *, long=True):
    """Work in one piece."""

    def work(job: Job) -> Iterator[bool]:
        if long:
            yield True
        do()
        yield from ()

    return work


def test_long_searches_go_on_one_after_the_other_in_their_order(jobs):
    gate, order = Event(), []
    first = jobs.start("a", until(gate))
    second = jobs.start("b", once(lambda: order.append("b")))
    third = jobs.start("c", once(lambda: order.append("c")))
    wait_for(lambda: first.stage == "waiting" and third.long)
    assert [jobs.before(job) for job in (first, second, third)] == [0, 1, 2]
    assert order == []
    gate.set()
    wait_for(lambda: third.finished)
    assert order == ["b", "c"]
    wait_for(lambda: not any(map(jobs.busy, "abc")))


def test_quick_passes_of_everybody_come_before_any_long_search_also_one_that_goes_on(jobs, monkeypatch):
    monkeypatch.setattr(module, "MOMENT", 0.0)
    gate, log = Event(), []
    search = jobs.start("a", until(gate))
    wait_for(lambda: search.stage == "waiting")

    def visit(name):
        def work(job: Job) -> Iterator[bool]:
            for k in range(2):
                log.append((name, k))
                time.sleep(0.01)
                yield k == 1
            log.append((name, "long"))

        return work

    others = [jobs.start(name, visit(name)) for name in "bcde"]
    wait_for(lambda: all(job.long for job in others))
    assert not search.finished
    assert [k for _, k in log] == [0] * 4 + [1] * 4  # one pass of everybody, then the second
    assert [name for name, _ in log] == list("bcde") * 2
    assert jobs.before(others[1]) == 2
    gate.set()
    wait_for(lambda: all(job.complete for job in others))
    assert [name for name, k in log if k == "long"] == list("bcde")


def test_a_long_search_goes_on_for_a_moment_though_quick_passes_never_end(jobs, monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 0.05)
    monkeypatch.setattr(module, "MOMENT", 0.01)
    went_on = []

    def search(job: Job) -> Iterator[bool]:
        yield True
        while True:
            went_on.append(time.monotonic())
            job.report("searching", 0.1)
            time.sleep(0.001)

    def again_and_again(job: Job) -> Iterator[bool]:
        while True:
            job.report("", 0.0)
            time.sleep(0.002)
            yield False

    jobs.start("a", search)
    wait_for(lambda: went_on)
    jobs.start("b", again_and_again)
    time.sleep(0.1)
    before = len(went_on)
    wait_for(lambda: len(went_on) > before + 3)  # which fails if it does not come


@settings(max_examples=15, deadline=None)
@given(st.data())
def test_nobody_is_lost_whatever_visitors_do(data):
    """Starts, stops, errors and new wishes at any moment: one works at a time, and all end."""
    jobs, at_work, clashes = Jobs(), set(), []
    started: list[tuple[Job, str]] = []

    def work_of(plan: str):
        def work(job: Job) -> Iterator[bool]:
            for step in plan:
                if at_work - {job} and not all(each.long for each in at_work):
                    clashes.append(step)
                at_work.add(job)
                try:
                    if step == "!":
                        raise RangeError("expected a, got b")
                    for k in range(3 if step == "L" else 1):
                        time.sleep(0.0005)
                        job.report(step, k / 3)
                finally:
                    at_work.discard(job)
                yield step == "Q" and plan.endswith("L")

        return work

    plans = st.sampled_from(["Q", "QL", "QQL", "L", "Q!", "!", "QL!"])
    actions = data.draw(st.lists(st.tuples(st.sampled_from("abcd"), plans | st.just("stop")), min_size=1, max_size=12))
    try:
        for visitor, action in actions:
            if action == "stop":
                jobs.stop(visitor)
            else:
                started.append((jobs.start(visitor, work_of(action)), action))
            time.sleep(data.draw(st.sampled_from([0.0, 0.001, 0.003])))
        wait_for(lambda: all(job.finished for job, _ in started))
        wait_for(lambda: not any(map(jobs.busy, "abcd")))
    finally:
        jobs.close()
    assert not clashes
    for job, plan in started:
        assert job.stopped or job.complete != ("!" in plan)
        assert job.error == ("expected a, got b" if "!" in plan and not job.stopped else job.error)


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
    waiting = jobs.start("b", once(lambda: begun.append(1)))
    jobs.stop("b")
    assert waiting.stopped
    gate.set()
    wait_for(lambda: waiting.finished)
    assert begun == []


def test_a_new_wish_takes_the_place_of_the_last_one(jobs):
    old = jobs.start("a", until(Event()))
    new = jobs.start("a", once(lambda: None))
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
    def wrong():
        raise RangeError("expected a, got b")

    def broken():
        raise ZeroDivisionError("oh")

    for work, said in ((wrong, "expected a, got b"), (broken, "this should not have happened: ZeroDivisionError: oh")):
        job = jobs.start("a", once(work, long=work is wrong))
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
