"""Long work is never silent, and the time left means something."""

from __future__ import annotations

import io
import sys
import time
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oneword.cli import watch
from oneword.progress import TimeLeft, duration, part


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def _said(speeds: list[float], before: float = 0.0) -> list[tuple[float, float | None]]:
    """What is left and what is said to be left, for work in equal steps of these speeds; looked at ten times a step."""
    clock = Clock()
    left = TimeLeft(clock)
    left.update(before)
    seconds = [1 / speed for speed in speeds]
    out = []
    for step, each in enumerate(seconds):
        for _ in range(10):
            clock.now += each / 10
            out.append((sum(seconds) - clock.now, left.seconds))
        left.update(before + (1 - before) * (step + 1) / len(seconds))
    return out


@given(st.lists(st.floats(0.9, 1.1), min_size=5, max_size=60), st.floats(0, 0.9))
def test_the_time_left_never_grows_while_work_goes_as_planned(speeds, before):
    said = [shown for _, shown in _said(speeds, before) if shown is not None]
    assert all(later <= earlier for earlier, later in pairwise(said))


@given(st.lists(st.floats(0.8, 1.25), min_size=20, max_size=60), st.floats(0, 0.9))
def test_the_time_left_is_about_right(speeds, before):
    total = sum(1 / speed for speed in speeds)
    for true, shown in _said(speeds, before):
        if shown is not None:
            assert abs(true - shown) < 0.4 * total + TimeLeft.SECONDS


def test_work_that_becomes_slower_is_said_to_take_longer():
    shown = [left for _, left in _said([1.0] * 10 + [0.1] * 10)]
    assert shown[105] < 15
    assert max(shown[110:]) > 15


def test_what_was_done_before_does_not_count_as_speed():
    clock = Clock()
    left = TimeLeft(clock)
    left.update(0.9)
    assert left.seconds is None
    clock.now = 50.0
    left.update(0.95)
    assert left.seconds == pytest.approx(50)


def test_durations_are_said_as_people_say_them():
    assert [duration(s) for s in (4.4, 89, 100, 3600, 7800)] == ["4 s", "89 s", "2 min", "60 min", "2 h 10 min"]


def test_without_a_terminal_a_line_comes_regularly_and_an_estimate_first(monkeypatch):
    monkeypatch.setattr(watch, "EVERY", 0.05)
    monkeypatch.setattr(watch, "SOON", 0.0)
    monkeypatch.setattr(watch, "LONG", 0.1)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with watch.watched(False, "sweep \x1b[31m") as progress:
        for step in range(20):
            progress("3 of 8 cells", step / 20)
            time.sleep(0.02)
    lines = sys.stderr.getvalue().splitlines()
    assert lines[0].startswith(r"oneword: sweep \x1b[31m: about ")
    assert sum(line.startswith("oneword: sweep") for line in lines) == len(lines) >= 3
    assert "3 of 8 cells, " in lines[-1]
    assert lines[-1].endswith(" left")


def test_short_work_and_quiet_work_say_nothing(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    for quiet in (False, True):
        with watch.watched(quiet) as progress:
            progress("at it", 0.5)
    monkeypatch.setattr(watch, "EVERY", 0.01)
    with watch.watched(True) as progress:
        progress.say("hello")
        progress.estimate(1000.0)
        time.sleep(0.05)
    assert sys.stderr.getvalue() == ""


def test_a_terminal_has_a_bar_with_the_time_left(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with watch.watched(False, "[red]") as progress:
        progress.say("8 cells")
        progress("1 of 8 cells", 0.0)
        time.sleep(0.01)
        progress("4 of 8 cells", 0.5)
        progress.bar.refresh()
    shown = sys.stderr.getvalue()
    assert "[red]: 8 cells" in shown
    assert "[red]: 4 of 8 cells" in shown
    assert " 50 %" in shown
    assert "0 s left" in shown


def test_parts_of_work_add_up():
    seen = []
    for first, last in zip(np.linspace(0, 0.8, 5), np.linspace(0.2, 1, 5), strict=True):
        step = part(lambda _, done: seen.append(done), first, last)
        step("a", 0.0)
        step("a", 1.0)
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (0.0, 1.0)
