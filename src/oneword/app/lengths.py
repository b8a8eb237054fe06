"""The text cut shorter and shorter: does the power of one word fade as a text grows?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from oneword.app.readers import Readers
from oneword.profile.sup import sup_and_words
from oneword.progress import Progress
from oneword.search.defaults import DefaultSearch
from oneword.survey.effort import Effort
from oneword.survey.question import Question
from oneword.survey.survey import survey
from oneword.text.context import spread_positions

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


def lengths(readers: Readers, keys: Sequence[str], text: str, report: Progress) -> pd.DataFrame:
    """One line a map or model and beginning: model, output, n (tokens), sup, and what is random beside it."""
    lines: list[dict[str, Any]] = []
    texts = beginnings(text)
    for count, key in enumerate(keys):
        title = readers.title(key)

        def say(stage: str, done: float, before: int = count, name: str = title) -> None:
            report(f"{name}, shorter texts", (before + min(done, 1.0)) / len(keys))

        model = readers.is_model(key)
        found = _of_model(readers, key, texts, say) if model else _of_map(readers, key, texts, say)
        lines += [{"model": title, "output": "pooled vector" if model else "random weights", **line} for line in found]
    return pd.DataFrame(lines)


def _of_map(readers: Readers, key: str, texts: Sequence[str], report: Progress) -> list[dict[str, Any]]:
    question = Question((key,), seeds=1, words=None, effort=Effort.quick(), window=readers.encoder.longest)
    words = survey(texts, readers.encoder, question, report).words.groupby("text")
    return [
        {"n": int(some["n"].max()), "sup": some["S_ball"].max(), "random_ball": some["random_ball"].mean()}
        for _, some in words
    ]


def _of_model(readers: Readers, key: str, texts: Sequence[str], report: Progress) -> list[dict[str, Any]]:
    phi = readers.model(key)
    words = readers.words(key)
    contexts = [phi.encode(text) for text in texts]
    total = sum(context.n for context in contexts)
    out, before = [], 0
    for context in contexts:
        own = [i for i, special in enumerate(context.special) if not special]
        spots = spread_positions(own, MOST_SPOTS)

        def say(stage: str, done: float, before: int = before, n: int = context.n) -> None:
            report(stage, (before + n * done) / total)

        probe = phi.at(context.X)
        found, random = sup_and_words(phi, probe, context, spots, words, 1, search=DefaultSearch(quick=True), say=say)
        tried = [value for each in random.values() for value in each.values()]
        word = math.fsum(tried) / len(tried) if tried else math.nan
        out.append({"n": context.n, "sup": found.value, "random_word": word})
        before += context.n
    return out
