"""Long work is never silent: a bar with the time left on a terminal, a line a minute elsewhere.

All of it goes to standard error, which is nobody's result.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

import typer

from oneword.checks import printable
from oneword.progress import TimeLeft, duration

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import ProgressColumn, Task

EVERY = 60.0  # seconds between two lines where there is no terminal
LONG = 60.0  # seconds of work before which its length is said
SOON = 5.0  # seconds after which a length can be told from the speed so far


class Watch:
    """What the work reports; it can be given wherever a `Progress` is wanted."""

    def __init__(self, title: str = "") -> None:
        self.title, self.stage, self.done = title, "", 0.0
        self.left = TimeLeft()
        self._began = time.monotonic()
        self._estimated = False

    def __call__(self, stage: str, done: float) -> None:
        self.stage, self.done = stage, done
        self.left.update(done)
        left = self.left.seconds
        if left is not None and not self._estimated and time.monotonic() - self._began >= SOON:
            self.estimate(left)

    def estimate(self, seconds: float) -> None:
        """Say, once, how long the work will take, if that is long."""
        if not self._estimated and seconds > LONG:
            self.say(f"about {duration(seconds)} from now")
        self._estimated = True

    def say(self, line: str) -> None:
        """A line that stays; nothing where nobody wants to read any."""

    def show(self, line: str, view: RenderableType) -> None:
        """A first answer: the line, or at a terminal the view."""
        self.say(line)

    @property
    def state(self) -> str:
        """How far it is, in one line."""
        left = self.left.seconds
        about = "" if left is None else f", about {duration(left)} left"
        return f"{self.stage or 'at work'}, {100 * self.done:.0f} %{about}"

    def _named(self, line: str) -> str:
        return printable(f"{self.title}: {line}" if self.title else line)


class _Lines(Watch):
    """For files and pipes."""

    def say(self, line: str) -> None:
        typer.echo(f"oneword: {self._named(line)}", err=True)

    def every_minute(self, over: Event) -> None:
        while not over.wait(EVERY):
            self.say(self.state)


class _Bar(Watch):
    """For people at a terminal; the bar goes when the work is done, what was said stays."""

    def __init__(self, title: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        super().__init__(title)
        # Titles are people's own, brackets included: they are no markup.
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.percentage:3.0f} %"))
        self.bar = Progress(*columns, self._time_left(), console=Console(stderr=True), transient=True)
        self._task = self.bar.add_task(self._named("reading"), total=1.0)

    def __call__(self, stage: str, done: float) -> None:
        super().__call__(stage, done)
        self.bar.update(self._task, description=self._named(stage), completed=done)

    def say(self, line: str) -> None:
        from rich.text import Text

        self.bar.console.print(Text(self._named(line)))

    def show(self, line: str, view: RenderableType) -> None:
        self.bar.console.print(view)

    def _time_left(self) -> ProgressColumn:
        from rich.progress import ProgressColumn
        from rich.text import Text

        watch = self

        class Column(ProgressColumn):
            def render(self, task: Task) -> Text:
                left = watch.left.seconds
                return Text("" if left is None else f"{duration(left)} left", style="progress.remaining")

        return Column()


@contextmanager
def watched(quiet: bool, title: str = "") -> Iterator[Watch]:
    """The progress of a piece of work, shown while it lasts."""
    if quiet:
        yield Watch(title)
    elif sys.stderr.isatty():
        bar = _Bar(title)
        with bar.bar:
            yield bar
    else:
        lines, over = _Lines(title), Event()
        ticking = Thread(target=lines.every_minute, args=[over], daemon=True)
        ticking.start()
        try:
            yield lines
        finally:
            over.set()
            ticking.join()
