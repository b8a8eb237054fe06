"""A text read by one map or model, with what is known so far shown on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from oneword.app.jobs import Job
from oneword.app.readers import Readers
from oneword.bounds.certificate import Certify
from oneword.profile.profile import Effort as ModelEffort
from oneword.profile.profile import profile
from oneword.progress import Progress, part
from oneword.report.app.reading import WORDS, Reading, Replacement
from oneword.report.profile.profiled import Profiled, placed
from oneword.search.defaults import DefaultSearch
from oneword.search.shortlist import KEPT, Shortlist, shortlist
from oneword.survey.effort import Effort
from oneword.survey.question import Question
from oneword.survey.survey import survey

Show = Callable[[Reading], None]
ALL_WORDS, SOME_WORDS = 128, 16  # tokens: up to here a model is searched at every word; of longer texts, at so many
MEMORY = 1 << 28  # bytes of a batch: what waits for a batch to end, as Stop does, does not wait long
BLOCK_WORDS = 64  # tokens: up to here rf and drf measure every word; of longer texts, some that are evenly spread


def read(readers: Readers, key: str, text: str, careful: bool, report: Progress, show: Show) -> None:
    """Show what is found, more than once where there is something to see before the end."""
    title = readers.title(key)

    def say(stage: str, done: float) -> None:
        report(f"{title}: {stage}" if readers.is_model(key) else title, done)

    if readers.is_model(key):
        phi = readers.model(key)
        effort = _model_effort(len(phi.encoder.tokenizer.encode(text).ids), careful)
        found = profile(phi, text, effort=effort, report=say, show=lambda so_far: show(_of_model(key, title, so_far)))
        show(_of_model(key, title, found.tables))
        return
    show(_of_map(readers, key, text, careful, say))


def _of_model(key: str, title: str, found: Profiled) -> Reading:
    words = placed(found).reindex(columns=WORDS)
    return Reading(key, title, words, found, notes=found.notes)


def _of_map(readers: Readers, key: str, text: str, careful: bool, report: Progress) -> Reading:
    tokens = len(readers.encoder.tokenizer.encode(text).ids)
    readers.encoder.check_length(tokens)  # else the survey would read it in windows, each by itself
    question = Question(
        (key,),
        seeds=1,
        words=readers.words(key),
        effort=_effort(tokens, careful),
        window=readers.encoder.longest,
        top=KEPT,
    )
    found = survey([text], readers.encoder, question, report)
    words = found.words.rename(columns={"S_ball": "sup", "S_word": "best_word"})
    words = words.assign(first_order=float("nan"), below_noise=False).reindex(columns=WORDS)
    starts = found.words.set_index("position")["start"]
    notes = [note.replace("--thorough", "oneword measure --thorough") for note in found.notes]
    tops: dict[int, list[Replacement]] = {}
    for line in found.replacements.to_dict("records"):
        tops.setdefault(int(starts[line["position"]]), []).append((str(line["replacement"]), float(line["value"])))
    return Reading(key, readers.title(key), words, replacements=tops, notes=notes)


def _effort(tokens: int, careful: bool) -> Effort:
    usual = replace(Effort.usual(tokens), block_words=None if tokens <= BLOCK_WORDS else 24)
    # All neurons of rf, or all words of a long text, would take minutes: care is for the search and the certificates.
    return replace(usual, search=DefaultSearch(), certify=Certify()) if careful else usual


def _model_effort(tokens: int, careful: bool) -> ModelEffort:
    """The worst real words of a word cost seconds: they are looked for when somebody asks (`worst_words`)."""
    search = DefaultSearch(quick=not careful, memory=MEMORY)
    some = None if tokens <= ALL_WORDS else 3 * SOME_WORDS if careful else SOME_WORDS
    return ModelEffort(search, best_words=0, searched=some)


def worst_words(readers: Readers, reading: Reading, text: str, start: int, job: Job) -> Reading:
    """A model's reading with the real words that do most in the place of one word, from a gradient shortlist."""
    phi = readers.model(reading.key)
    context = phi.encode(text)
    here = next(i for i, span in enumerate(context.spans) if span is not None and span[0] <= start < span[1])
    stage = f"{reading.title}: real words in the place of “{context.words[here]}”"
    words = [
        form
        for form, members in readers.words(reading.key).written(context, [here])
        if members and len(context.rows[here]) in form.names
    ]
    span = context.spans[here]
    assert span is not None
    if not words:
        return reading.with_replacements(span[0], (), "")
    found = shortlist(
        phi.at(context.X),
        context.rows[here],
        words[0],
        Shortlist(most=96),
        progress=part(job.report, 0.0, 1.0, stage),
    )
    return reading.with_replacements(span[0], found.best, "exact" if found.exhaustive else "shortlist")
