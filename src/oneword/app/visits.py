"""What happens when a visitor types, chooses or clicks: from what is on the page to what should be there next."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from oneword.app.change import change
from oneword.app.jobs import Job, Jobs
from oneword.app.lengths import lengths
from oneword.app.limits import check_text, read_upload
from oneword.app.readers import Readers
from oneword.app.reading import read, worst_words
from oneword.errors import OnewordError, RangeError
from oneword.report.app import views
from oneword.report.app.reading import Reading

LOOK_AGAIN = 0.2  # seconds between two looks at work that goes on
LOOK = "a look at a word"  # work that gives way to other work


@dataclass(frozen=True, eq=False)
class Found:
    """What was found out for one visitor."""

    text: str = ""
    readings: tuple[Reading, ...] = ()

    def with_reading(self, reading: Reading) -> Found:
        """With this in the place of what the same map or model said before."""
        by_key = {each.key: each for each in self.readings}
        return replace(self, readings=tuple({**by_key, reading.key: reading}.values()))

    def with_word(self, start: int, word: str) -> str:
        """The text with another word in the place of the one that starts there."""
        spans = [(line["start"], line["end"]) for each in self.readings if (line := each.at(start)) is not None]
        first, last = spans[0] if spans else (start, start)
        return self.text[:first] + word + self.text[last:]


@dataclass(frozen=True, eq=False)
class News:
    """What is new on the page; None is as it was. `over` is said once, at the end."""

    status: str
    found: Found | None = None
    over: bool = False


@dataclass(eq=False)
class Visits:
    """All visitors. Models are in memory once for what takes long, and once for what is live."""

    readers: Readers
    live: Readers
    jobs: Jobs = field(default_factory=Jobs)

    async def measure(self, visitor: str, text: str, keys: Sequence[str], careful: bool) -> AsyncIterator[News]:
        """Every word of the text, one map or model after the other; each shows what it knows as soon as it can."""
        try:
            text = check_text(text)
            if not keys:
                raise RangeError("expected a map or a model to read the text, got none: choose one")
        except OnewordError as error:
            yield News(views.said(str(error), "error"))
            return
        box = _Box(Found(text))

        def work(job: Job) -> None:
            for count, key in enumerate(keys):

                def report(stage: str, done: float, before: int = count) -> None:
                    job.report(stage, (before + done) / len(keys))

                read(self.readers, key, text, careful, report, lambda reading: box.put(box.found.with_reading(reading)))

        async for news in self._watch(visitor, work, box):
            yield news

    async def choose(self, visitor: str, found: Found, start: int) -> AsyncIterator[tuple[str | None, str, Found]]:
        """What is known of a word, and the worst real words for it in every model: status, card, and all that is known.

        A look at a word gives way to whatever comes next, and stops nothing but another look.
        """
        unknown = [each for each in found.readings if each.lacks(start)]
        busy = self.jobs.busy(visitor, but=LOOK)
        if not busy:
            self.jobs.stop(visitor, replaced=True)
        yield None, views.word(found.readings, start, looking=bool(unknown) and not busy), found
        if not unknown or busy:
            return
        box = _Box(found)

        def work(job: Job) -> None:
            for reading in unknown:
                box.put(box.found.with_reading(worst_words(self.readers, reading, found.text, start, job)))

        async for news in self._watch(visitor, work, box, LOOK):
            yield news.status, views.word(box.found.readings, start, looking=not news.over), box.found

    async def cut(self, visitor: str, found: Found, keys: Sequence[str]) -> AsyncIterator[tuple[str, str | None]]:
        """S against n as the text is cut shorter: status and picture."""
        if not found.text or not keys:
            missing = "a map or a model" if found.text else "a text that was measured"
            remedy = "choose one" if found.text else "press Measure first"
            yield views.said(f"expected {missing}, got none: {remedy}", "error"), None
            return
        pictures: list[str] = []

        def work(job: Job) -> None:
            pictures.append(views.lengths(lengths(self.readers, keys, found.text, job.report)))

        async for news in self._watch(visitor, work, _Box(found)):
            yield news.status, pictures[0] if pictures else None

    def change(self, found: Found, after: str, key: str, layer: int) -> str:
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

    async def _watch(self, visitor: str, work: Callable[[Job], None], box: _Box, kind: str = "") -> AsyncIterator[News]:
        """Progress while the work goes on, and what is found as it comes."""
        try:
            job = self.jobs.start(visitor, work, kind)
        except OnewordError as error:
            yield News(views.said(str(error), "error"))
            return
        began = time.monotonic()
        try:
            while not (job.finished or job.stopped):
                before = self.jobs.before(job)
                yield News(views.working(job.stage, job.done, job.seconds_left, before), box.news())
                await asyncio.sleep(LOOK_AGAIN)
        finally:
            job.stop()
        if job.replaced:  # what comes in its place has the word
            return
        if job.error:
            said = views.said(job.error, "error")
        elif job.complete:
            said = views.said(f"Done in {time.monotonic() - began:.1f} s.")
        else:
            said = views.said("Stopped. What was found until then stays.", "stopped")
        yield News(said, box.news(), over=True)


class _Box:
    """What is found in one thread, for another to look at."""

    def __init__(self, found: Found) -> None:
        self.found, self._seen = found, found

    def put(self, found: Found) -> None:
        self.found = found

    def news(self) -> Found | None:
        """What was found since the last look."""
        found = self.found
        if found is self._seen:
            return None
        self._seen = found
        return found
