"""The words that rules swap for each other, read from words.toml, and where in a text they are."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from itertools import permutations
from typing import Any

from oneword.auditing.edits import Place
from oneword.auditing.english import cased, fits_article, words


@cache
def _words() -> dict[str, Any]:
    return tomllib.loads((files("oneword.auditing") / "words.toml").read_text(encoding="utf-8"))


@cache
def swaps(*names: str) -> Mapping[str, tuple[str, ...]]:
    """For each word of these lists the words that it may become, in the order of the lists."""
    found: dict[str, dict[str, None]] = {}
    for group in _groups(names):
        for word, other in permutations(group, 2):
            found.setdefault(word, {})[other] = None
    return {word: tuple(others) for word, others in found.items()}


def _groups(names: Iterable[str]) -> Iterable[list[str]]:
    for name in names:
        lines = _words()[name]
        yield from ([lines.split()] if isinstance(lines, str) else (line.split() for line in lines))


@cache
def listed(name: str) -> frozenset[str]:
    """The words of one list."""
    return frozenset(_words()[name].split())


@cache
def phrases() -> frozenset[str]:
    """Two words that say something together, in which neither is what it is alone."""
    return frozenset(_words()["phrases"])


def swapped(text: str, *lists: str) -> Iterator[Place]:
    """Words of the lists, in lower case or at the beginning of a sentence: elsewhere capitals make it a name."""
    known = swaps(*lists)
    for word in words(text):
        if word.lower not in known or not (word.text.islower() or word.begins):
            continue
        if phrases().isdisjoint((f"{word.before} {word.lower}", f"{word.lower} {word.after}")):
            options = tuple(cased(other, word.text) for other in known[word.lower] if fits_article(other, word.before))
            yield Place(word.start, word.end, options)
