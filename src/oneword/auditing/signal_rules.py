"""Edits of one word that change what a text says: negation, number, name, antonym."""

from __future__ import annotations

import re
from collections.abc import Iterator

from oneword.auditing.edits import SIGNAL, Place, Rule
from oneword.auditing.english import Word, cased, words
from oneword.auditing.lexicon import listed, swapped, swaps

_IRREGULAR = {"won't": "will", "can't": "can", "shan't": "shall", "cannot": "can"}

_DIGITS = re.compile(r"(?<![\w.,:/$£€-])\d+(?![\w/-])(?![.,:]\d)")
_ARTICLE = re.compile(r"\b(an?)\s+$", re.IGNORECASE)


def negations(text: str) -> Iterator[Place]:
    """A "not" put after an auxiliary, or one that is there taken out; "won't" becomes "will"."""
    for word in words(text):
        lower = word.lower
        if lower in _IRREGULAR:
            yield Place(word.start, word.end, (cased(_IRREGULAR[lower], word.text),))
        elif lower.endswith("n't") and lower != "ain't":
            yield Place(word.end - 3, word.end, ("",))
        elif lower == "not":
            if word.before and word.before not in listed("kept_not") and word.after not in listed("not_only"):
                yield Place(word.start - 1, word.end, ("",))
        elif _takes_not(word):
            yield Place(word.end, word.end, (" NOT" if word.text.isupper() and len(word.text) > 1 else " not",))


def _takes_not(word: Word) -> bool:
    """Whether a "not" after this word denies its verb."""
    after = word.after
    if not after or word.begins or after in listed("asking") | listed("denying") or after.endswith("n't"):
        return False
    lower = word.lower
    if lower in listed("perfect"):
        return after in listed("participles") or (after.endswith(("ed", "en")) and len(after) > 4)
    if lower in listed("doing"):
        return after not in listed("no_verbs") and not after.endswith(("ing", "ed", "ly"))
    return lower in listed("copulas")


def numbers(text: str) -> Iterator[Place]:
    """Another number: of a year its last two digits, else the first digit; or another number word."""
    for match in _DIGITS.finditer(text):
        number = match.group()
        if len(number) == 4 and number[:2] in ("18", "19", "20"):
            options = tuple(f"{number[:2]}{year:02}" for year in range(100) if f"{year:02}" != number[2:])
        else:
            options = tuple(digit + number[1:] for digit in "123456789" if digit != number[0])
        article = _ARTICLE.search(text, max(0, match.start() - 6), match.start())
        if article:
            options = tuple(new for new in options if _takes_an(new) == (len(article.group(1)) == 2))
        yield Place(match.start(), match.end(), options)
    yield from swapped(text, "numbers")


def _takes_an(number: str) -> bool:
    """Whether it takes "an": eight, eleven, eighteen, eighty, 1850."""
    return number[0] == "8" or number in ("11", "18") or (len(number) == 4 and number[:2] == "18")


def names(text: str) -> Iterator[Place]:
    """Another first name, as common and of the same list."""
    known = swaps("women", "men")
    for word in words(text):
        name = word.text.removesuffix("'s").removesuffix("’s")
        if name in known:
            yield Place(word.start, word.start + len(name), known[name])


def antonyms(text: str) -> Iterator[Place]:
    """The opposite of a word."""
    return swapped(text, "antonyms")


RULES = (
    Rule("negation", SIGNAL, negations),
    Rule("number", SIGNAL, numbers),
    Rule("name", SIGNAL, names),
    Rule("antonym", SIGNAL, antonyms),
)
