"""Texts cut to lengths at the borders of words, as a chunker would, and which texts are asked at all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from oneword.auditing.model import Model
from oneword.errors import RangeError, TextError
from oneword.random import stream

_LOOKED_AT = 20  # times as many texts as wanted: enough to find long ones, and a large corpus is not read to its end
_WORD_ENDS = re.compile(r"\S(?=\s|$)")


@dataclass(frozen=True)
class Cut:
    """The beginning of a text; `length` is the most tokens it may have, 0: the whole text, whatever its length."""

    text: int
    length: int
    words: str
    tokens: tuple[int, ...]


def drawn(texts: Sequence[str], model: Model, lengths: Sequence[int], most: int, seed: int) -> list[str]:
    """At most `most` different texts, in an order drawn with the seed, those that can be cut to every length first."""
    different = list(dict.fromkeys(text for text in texts if text.strip()))
    if not different:
        raise TextError("expected at least one text with a word in it, got none: give some")
    order = stream(seed, "audit", "sample").permutation(len(different))
    long: list[str] = []
    rest: list[str] = []
    for k in order[: _LOOKED_AT * most]:
        fitting = len(model.tokens(different[k])) >= lengths[-1]
        (long if fitting else rest).append(different[k])
        if len(long) == most:
            break
    return [*long, *rest][:most]


def lengths_within(model: Model, lengths: Sequence[int]) -> tuple[int, ...]:
    """Those lengths that the model can take."""
    found = tuple(n for n in lengths if n <= model.longest)
    if not found:
        raise RangeError(
            f"expected a length of at most {model.longest} tokens, the window of {model.name}, got {min(lengths)} and "
            "more: choose shorter ones with --lengths"
        )
    return found


def cuts(texts: Sequence[str], model: Model, lengths: Sequence[int]) -> Iterator[Cut]:
    """Every text at every length that it has; beginnings that coincide count once."""
    seen: set[tuple[int, str]] = set()
    for number, text in enumerate(texts):
        total = len(model.tokens(text))
        for n in lengths:
            if total < n:
                break
            words = cut(text, n, model)
            if words and (n, words) not in seen:
                seen.add((n, words))
                yield Cut(number, n, words, model.tokens(words))


def cut(text: str, n: int, model: Model) -> str:
    """The longest beginning of whole words with at most n tokens; empty if the first word has more."""
    ends = [match.end() for match in _WORD_ENDS.finditer(text)]
    low, high = 0, len(ends)  # the first `low` words fit, the first `high + 1` do not
    while low < high:
        middle = (low + high + 1) // 2
        if len(model.tokens(text[: ends[middle - 1]])) <= n:
            low = middle
        else:
            high = middle - 1
    return text[: ends[low - 1]] if low else ""
