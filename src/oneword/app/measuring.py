"""What the page measures: every word of a text, and the worst real words in the place of one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from oneword.app.subjects import Subjects
from oneword.bounds.certificate import Certify
from oneword.progress import Progress, part
from oneword.report.words.table import Part, WordTable
from oneword.search.defaults import DefaultSearch
from oneword.search.shortlist import KEPT, Shortlist, shortlist
from oneword.words.effort import MEMORY, WHOLE, Effort
from oneword.words.verb import measure

SOME = 48  # words of long texts that models search where somebody asks for care


def measure_text(
    subjects: Subjects,
    keys: Sequence[str],
    text: str,
    careful: bool,
    progress: Progress,
    show: Callable[[WordTable], None],
) -> WordTable:
    """The same numbers as `oneword measure` with one seed; `show` is called whenever there is more to see."""
    tokens = len(subjects.encoder.tokenizer.encode(text).ids)
    subjects.encoder.check_length(tokens)  # else maps would measure it in windows, each by itself
    return measure(
        text,
        [subjects.subject(key) for key in keys],
        encoder=subjects.encoder,
        seeds=1,
        top=KEPT,
        window=subjects.encoder.longest,
        effort=_careful(tokens) if careful else "usual",
        progress=progress,
        show=show,
    )


def _careful(tokens: int) -> Effort:
    """All neurons of rf, or all words of a long text, would take minutes: care is for search and certificates."""
    return replace(
        Effort.usual(tokens),
        search=DefaultSearch(),
        certify=Certify(),
        model_search=DefaultSearch(memory=MEMORY),
        searched=None if tokens <= WHOLE else SOME,
    )


def add_worst_words(subjects: Subjects, table: WordTable, model: Part, start: int, progress: Progress) -> WordTable:
    """The table with the real words that move a model most in the place of one word, from a gradient shortlist."""
    key = model.subject.by
    phi = subjects.model(key)
    context = phi.encode(model.content)
    here = next(i for i, span in enumerate(context.spans) if span is not None and span[0] <= start < span[1])
    stage = f"{model.subject.title}: real words in the place of “{context.words[here]}”"
    words = [
        form
        for form, members in subjects.words(key).written(context, [here])
        if members and len(context.rows[here]) in form.names
    ]
    if not words:
        return table.with_replacements(model.subject.text, key, here, [], "", tried=0)
    found = shortlist(
        phi.at(context.X),
        context.rows[here],
        words[0],
        Shortlist(most=96),
        progress=part(progress, 0.0, 1.0, stage),
    )
    best = [{"replacement": word, "value": value} for word, value in found.best]
    kind = "exact" if found.exhaustive else "shortlist"
    return table.with_replacements(model.subject.text, key, here, best, kind, tried=found.passes)
