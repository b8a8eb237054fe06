"""Words in plain English text, and the lists of words in words.toml that rules swap for each other."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import permutations
from typing import Any

WORD = re.compile(r"[A-Za-z]+(?:['’][A-Za-z]+)*")
_VOWEL = re.compile(r"[aeiou]|hon(?:est|ou?r)|hour|heir")  # as it sounds
_NO_VOWEL = re.compile(r"uni(?![mnd])|us[aeu]|ut[eio]|ubi|eu|ewe|once|one(?!r)")  # "a useful one"
_SENTENCE_END = re.compile(r"[.!?:;…\"“”()\[\]\n-]\s*$|^\s*$")


@dataclass(frozen=True)
class Word:
    """A word with its neighbours in lower case; those across a mark of punctuation are empty."""

    text: str
    start: int
    end: int
    before: str
    after: str
    begins: bool  # a sentence, or what looks like one

    @property
    def lower(self) -> str:
        return _lower(self.text)


def words(text: str) -> Iterator[Word]:
    """All words of a text in order."""
    found = list(WORD.finditer(text))
    for k, match in enumerate(found):
        before, after = found[k - 1] if k else None, found[k + 1] if k + 1 < len(found) else None
        yield Word(
            match.group(),
            match.start(),
            match.end(),
            _lower(before.group()) if before and text[before.end() : match.start()].isspace() else "",
            _lower(after.group()) if after and text[match.end() : after.start()].isspace() else "",
            _SENTENCE_END.search(text[max(0, match.start() - 4) : match.start()]) is not None,
        )


def cased(word: str, like: str) -> str:
    """The word in the case of another: lower, Capitalised or UPPER."""
    if len(like) > 1 and like.isupper():
        return word.upper()
    return word[0].upper() + word[1:] if like[0].isupper() else word


def fits_article(word: str, before: str) -> bool:
    """Whether the word fits the article before it, if there is one."""
    lower = word.lower()
    sounds = _VOWEL.match(lower) is not None and _NO_VOWEL.match(lower) is None
    return before not in ("a", "an") or (before == "an") == sounds


def _lower(word: str) -> str:
    return word.lower().replace("’", "'")


# Lists of words -------------------------------------------------------------------------------------------------------


@cache
def _lists() -> dict[str, Any]:
    return tomllib.loads((files("oneword.auditing") / "words.toml").read_text(encoding="utf-8"))


@cache
def swaps(*names: str) -> Mapping[str, tuple[str, ...]]:
    """For each word of these lists the words that it may become, in the order of the lists."""
    found: dict[str, dict[str, None]] = {}
    for name in names:
        lines = _lists()[name]
        for group in [lines] if isinstance(lines, str) else lines:
            for word, other in permutations(group.split(), 2):
                found.setdefault(word, {})[other] = None
    return {word: tuple(others) for word, others in found.items()}


@cache
def listed(name: str) -> frozenset[str]:
    """The words of one list."""
    return frozenset(_lists()[name].split())


@cache
def phrases() -> frozenset[str]:
    """Pairs of words that form a fixed phrase, whose words are not edited."""
    return frozenset(_lists()["phrases"])
