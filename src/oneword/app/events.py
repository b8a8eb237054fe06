"""Events of the page: from what a visitor typed, chose or clicked to what should be shown next."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from oneword.app.jobs import Job, Jobs
from oneword.app.measuring import add_worst_words, change, lengths, measurement
from oneword.app.subjects import Subjects
from oneword.app.texts import check_text, read_upload
from oneword.errors import OnewordError, RangeError
from oneword.report import app_views as views
from oneword.report.words.table import WordTable

LOOK_AGAIN = 0.2  # seconds between two looks at work that goes on
LOOK = "a look at a word"  # work that gives way to other work


@dataclass(frozen=True, eq=False)
class Session:
    """What was found out for one visitor: a text, and its table of words as far as it is known."""

    text: str = ""
    table: WordTable | None = None

    def with_word(self, start: int, word: str) -> str:
        """The text with another word in the place of the one that starts there."""
        parts = [] if self.table is None else self.table.parts
        spans = [(line["start"], line["end"]) for part in parts if (line := part.at(start)) is not None]
        first, last = spans[0] if spans else (start, start)
        return self.text[:first] + word + self.text[last:]


@dataclass(frozen=True, eq=False)
class Update:
    """What is new on the page; None is as it was. `over` is True once, at the end."""

    status: str
    found: Session | None = None
    over: bool = False


@dataclass(eq=False)
class Events:
    """All visitors. Models are in memory once for what takes long, and once for what is live."""

    subjects: Subjects
    live: Subjects
    jobs: Jobs = field(default_factory=Jobs)

    async def measure(self, visitor: str, text: str, keys: Sequence[str], careful: bool) -> AsyncIterator[Update]:
        """Every word of the text, one map or model after the other; each shows what it knows as soon as it can."""
        try:
            text = check_text(text)
            if not keys:
                raise RangeError("Choose at least one map or model.")
        except OnewordError as error:
            yield Update(views.said(str(error), "error"))
            return
        box = _Box(Session(text))

        def work(job: Job) -> Iterator[bool]:
            found = measurement(self.subjects, keys, text, careful)
            for takes_long in found.steps(job.report, first=True):
                box.put(Session(text, found.table()))
                yield takes_long
            box.put(Session(text, found.table()))

        async for news in self._watch(visitor, work, box):
            yield news

    async def choose(self, visitor: str, found: Session, start: int) -> AsyncIterator[tuple[str | None, str, Session]]:
        """What is known of a word, and the worst real words for it in every model: status, card, and all that is known.

        A look at a word gives way to whatever comes next, and stops nothing but another look.
        """
        unknown = [] if found.table is None else [part for part in found.table.parts if part.lacks_words(start)]
        busy = self.jobs.busy(visitor, but=LOOK)
        if not busy:
            self.jobs.stop(visitor, replaced=True)
        yield None, views.word(found.table, start, looking=bool(unknown) and not busy), found
        if not unknown or busy:
            return
        box = _Box(found)

        def work(job: Job) -> Iterator[bool]:
            yield True
            for part in unknown:
                table = box.found.table
                assert table is not None, "there are words to choose from"
                box.put(replace(found, table=add_worst_words(self.subjects, table, part, start, job.report)))

        async for news in self._watch(visitor, work, box, LOOK):
            yield news.status, views.word(box.found.table, start, looking=not news.over), box.found

    async def cut(self, visitor: str, found: Session, keys: Sequence[str]) -> AsyncIterator[tuple[str, str | None]]:
        """S against n as the text is cut shorter: status and picture."""
        if not found.text or not keys:
            missing = "a map or a model" if found.text else "a text that was measured"
            remedy = "choose one" if found.text else "press Measure first"
            yield views.said(f"expected {missing}, got none: {remedy}", "error"), None
            return
        pictures: list[str] = []

        def work(job: Job) -> Iterator[bool]:
            yield True
            pictures.append(views.lengths(lengths(self.subjects, keys, found.text, job.report)))

        async for news in self._watch(visitor, work, _Box(found)):
            yield news.status, pictures[0] if pictures else None

    def change(self, found: Session, after: str, key: str, layer: int) -> str:
        """Both texts as one map or model sees them, with attention maps of one layer."""
        if not found.text or " ".join(after.split()) == " ".join(found.text.split()):
            return views.said("Change a word above: what moved will be here." if found.text else "")
        try:
            compared = change(self.live, key, found.text, check_text(after))
        except OnewordError as error:
            return views.said(str(error), "error")
        layer = min(layer, int(compared.about["layers"]))
        return views.change((found.text, after), compared.tables(layer), layer, compared.notes)

    @staticmethod
    def open(path: str | None) -> tuple[str | None, str]:
        """A file that a visitor chose: its text, and what is to be said about it."""
        try:
            return (None, "") if path is None else (read_upload(Path(path)), views.said(""))
        except OnewordError as error:
            return None, views.said(str(error), "error")

    async def _watch(
        self, visitor: str, work: Callable[[Job], Iterator[bool]], box: _Box, kind: str = ""
    ) -> AsyncIterator[Update]:
        """Progress while the work goes on, and what is found as it comes."""
        try:
            job = self.jobs.start(visitor, work, kind)
        except OnewordError as error:
            yield Update(views.said(str(error), "error"))
            return
        began = time.monotonic()
        try:
            while not (job.finished or job.stopped):
                before = self.jobs.before(job)
                yield Update(views.working(job.stage, job.done, job.seconds_left, before), box.news())
                await asyncio.sleep(LOOK_AGAIN)
        finally:
            job.stop()
        if job.replaced:  # the job that replaced it reports instead
            return
        if job.error:
            said = views.said(job.error, "error")
        elif job.complete:
            said = views.said(f"Done in {time.monotonic() - began:.1f} s.")
        else:
            said = views.said("Stopped. What was found until then stays.", "stopped")
        yield Update(said, box.news(), over=True)


class _Box:
    """What is found in one thread, for another to look at."""

    def __init__(self, found: Session) -> None:
        self.found, self._seen = found, found

    def put(self, found: Session) -> None:
        self.found = found

    def news(self) -> Session | None:
        """What was found since the last look."""
        found = self.found
        if found is self._seen:
            return None
        self._seen = found
        return found
