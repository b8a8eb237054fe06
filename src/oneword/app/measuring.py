"""What the page measures: every word of a text, replacements of one word, shorter texts, a word changed by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from oneword.app.subjects import Subjects
from oneword.bounds.certificate import Certify
from oneword.comparison.result import Comparison
from oneword.comparison.verb import compare
from oneword.maps.registry import find, in_app
from oneword.progress import Progress, part
from oneword.report.words.table import Part, WordTable
from oneword.search.defaults import DefaultSearch
from oneword.search.shortlist import KEPT, Shortlist, shortlist
from oneword.text.context import spread_positions
from oneword.text.tokenizer_files import tokenised
from oneword.words.effort import MEMORY, WHOLE, Effort
from oneword.words.random_words import sup_and_words
from oneword.words.verb import Measurement, measure, prepare

SOME = 48  # words of long texts that models search where somebody asks for care


def measurement(subjects: Subjects, keys: Sequence[str], text: str, careful: bool) -> Measurement:
    """The same numbers as `oneword measure` with one seed, in steps: first answers, then the searches."""
    tokens = len(tokenised(subjects.encoder.tokenizer, text).ids)
    subjects.encoder.check_length(tokens)  # else maps would measure it in windows, each by itself
    return prepare(
        text,
        [subjects.subject(key) for key in keys],
        encoder=subjects.encoder,
        seeds=1,
        top=KEPT,
        window=subjects.encoder.longest,
        effort=_careful(tokens) if careful else "usual",
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
    rows, written = context.rows[here], subjects.words(key).written(context, [here])
    words = [form for form, members in written if members and len(rows) in form.names]
    if not words:
        return table.with_replacements(model.subject.text, key, here, [], "", tried=0)
    watched = part(progress, 0.0, 1.0, stage)
    found = shortlist(phi.at(context.X), rows, words[0], Shortlist(most=96), progress=watched)
    best = [{"replacement": word, "value": value} for word, value in found.best]
    kind = "exact" if found.exhaustive else "shortlist"
    return table.with_replacements(model.subject.text, key, here, best, kind, tried=found.passes)


# One word changed by hand ---------------------------------------------------------------------------------------------

SEEN = tuple(name for name in in_app() if find(name)[0].score is not None)  # the maps that have attention to show


def change(subjects: Subjects, key: str, before: str, after: str) -> Comparison:
    """What became of the text, as this one sees it."""
    if subjects.is_model(key):
        return compare(before, after, by=subjects.model(key))
    return compare(before, after, by=subjects.attention(key), encoder=subjects.encoder)


# The text cut shorter -------------------------------------------------------------------------------------------------

SHORTEST = 4  # words
MOST_SPOTS = 6  # words that may change in a model, evenly spread: each costs forward passes through all of it


def beginnings(text: str) -> list[str]:
    """The first 4, 8, 16, … words of a text, and all of it."""
    words = text.split()
    sizes = [SHORTEST * 2**k for k in range(8) if SHORTEST * 2**k < 0.8 * len(words)]
    ends, at = [], 0
    for word in words:
        at = text.index(word, at) + len(word)
        ends.append(at)
    return [*(text[: ends[size - 1]] for size in sizes), text]


def lengths(subjects: Subjects, keys: Sequence[str], text: str, progress: Progress) -> pd.DataFrame:
    """One line a map or model and beginning: model, output, n (tokens), sup, and what is random beside it."""
    lines: list[dict[str, Any]] = []
    texts = beginnings(text)
    for count, key in enumerate(keys):
        title, model = subjects.title(key), subjects.is_model(key)
        here = part(progress, count / len(keys), (count + 1) / len(keys), f"{title}, shorter texts")
        found = _of_model(subjects, key, texts, here) if model else _of_map(subjects, key, texts, here)
        lines += [{"model": title, "output": "pooled vector" if model else "random weights", **line} for line in found]
    return pd.DataFrame(lines)


def _of_map(subjects: Subjects, key: str, texts: Sequence[str], progress: Progress) -> list[dict[str, Any]]:
    words = measure(
        texts, key, encoder=subjects.encoder, words=False, seeds=1, effort="quick", window=subjects.encoder.longest,
        progress=progress,
    ).words.groupby("text")  # fmt: skip
    return [
        {"n": int(some["n"].max()), "sup": some["value"].max(), "random_ball": some["random"].mean()}
        for _, some in words
    ]


def _of_model(subjects: Subjects, key: str, texts: Sequence[str], progress: Progress) -> list[dict[str, Any]]:
    phi = subjects.model(key)
    words = subjects.words(key)
    contexts = [phi.encode(text) for text in texts]
    total = sum(context.n for context in contexts)
    out, before = [], 0
    for context in contexts:
        spots = spread_positions([i for i, special in enumerate(context.special) if not special], MOST_SPOTS)
        here, quick = part(progress, before / total, (before + context.n) / total), DefaultSearch(quick=True)
        found, random = sup_and_words(phi, phi.at(context.X), context, spots, words, 1, search=quick, progress=here)
        tried = [value for each in random.values() for value in each.values()]
        word = math.fsum(tried) / len(tried) if tried else math.nan
        out.append({"n": context.n, "sup": found.value, "random_word": word})
        before += context.n
    return out
