"""The text cut shorter and shorter: does the power of one word fade as a text grows?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from oneword.app.subjects import Subjects
from oneword.progress import Progress, part
from oneword.search.defaults import DefaultSearch
from oneword.text.context import spread_positions
from oneword.words.random_words import sup_and_words
from oneword.words.verb import measure

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
        title = subjects.title(key)

        here = part(progress, count / len(keys), (count + 1) / len(keys), f"{title}, shorter texts")
        model = subjects.is_model(key)
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
        own = [i for i, special in enumerate(context.special) if not special]
        spots = spread_positions(own, MOST_SPOTS)

        here = part(progress, before / total, (before + context.n) / total)
        probe = phi.at(context.X)
        found, random = sup_and_words(
            phi, probe, context, spots, words, 1, search=DefaultSearch(quick=True), progress=here
        )
        tried = [value for each in random.values() for value in each.values()]
        word = math.fsum(tried) / len(tried) if tried else math.nan
        out.append({"n": context.n, "sup": found.value, "random_word": word})
        before += context.n
    return out
