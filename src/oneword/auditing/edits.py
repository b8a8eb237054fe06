"""One-word edits of a text: signal, which changes what it says, and noise, which does not.

A rule is a function from a text to the places where it applies, each with its possible replacements; `edits_by` picks
some of them at random. Everything else in the text stays the same, letter by letter. The rules are for plain English.

To add a type of edit, write a function from a text to the places where it applies and add it to `RULES`; lists of words
belong in words.toml.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from oneword.auditing.english import Word, cased, fits_article, listed, phrases, swaps, words
from oneword.errors import UnknownNameError, did_you_mean
from oneword.random import stream

Kind = Literal["signal", "noise"]
SIGNAL: Kind = "signal"
NOISE: Kind = "noise"

_IRREGULAR = {"won't": "will", "can't": "can", "shan't": "shall", "cannot": "can"}

_DIGITS = re.compile(r"(?<![\w.,:/$£€-])\d+(?![\w/-])(?![.,:]\d)")
_ARTICLE = re.compile(r"\b(an?)\s+$", re.IGNORECASE)
_SHORTEST = 5  # letters of a word in which a typo is plainly one


@dataclass(frozen=True)
class Edit:
    """A text and its edited version; `where` is the first character in which they differ."""

    type: str
    kind: Kind
    text: str
    edited: str
    where: int


@dataclass(frozen=True)
class Place:
    """text[start:end] may become any of `options`."""

    start: int
    end: int
    options: tuple[str, ...]


@dataclass(frozen=True)
class Rule:
    """A type of edit: its kind, and where in a text it applies."""

    type: str
    kind: Kind
    places: Callable[[str], Iterator[Place]]


def edits_by(text: str, rule: Rule, *, seed: int, most: int = 1) -> list[Edit]:
    """At most `most` edits at different places, drawn with the seed; none where the rule finds no place."""
    places = [place for place in rule.places(text) if place.options]
    draw = stream(seed, "edit", rule.type, text)
    found = []
    for k in draw.permutation(len(places))[:most]:
        place = places[k]
        option = place.options[int(draw.integers(len(place.options)))]
        new = text[: place.start] + option + text[place.end :]
        found.append(Edit(rule.type, rule.kind, text, new, difference(text, new)[0]))
    return found


def difference(text: str, edited: str) -> tuple[int, int, int]:
    """(start, end, new end): text[start:end] became edited[start:new end]; whole words, as few as possible."""
    shorter = min(len(text), len(edited))
    start = next((i for i in range(shorter) if text[i] != edited[i]), shorter)
    rest = shorter - start
    same = next((i for i in range(rest) if text[-1 - i] != edited[-1 - i]), rest)
    end, new_end = len(text) - same, len(edited) - same
    while (
        start and _in_word(text[start - 1]) and (_in_word(text[start:end][:1]) or _in_word(edited[start:new_end][:1]))
    ):
        start -= 1
    while _in_word(text[end : end + 1]) and (_in_word(text[start:end][-1:]) or _in_word(edited[start:new_end][-1:])):
        end, new_end = end + 1, new_end + 1
    both = _last_words_in_common(text[start:end], edited[start:new_end])  # "the thrust" became "thrust": "the " went
    return start, end - both, new_end - both


def _last_words_in_common(one: str, other: str) -> int:
    """The length of the shorter text if the longer ends with it as whole words, else 0."""
    short, long = sorted((one, other), key=len)
    alike = long.endswith(short) and len(short) < len(long)
    return len(short) if alike and not _in_word(long[-len(short) - 1]) else 0


def _in_word(letter: str) -> bool:
    return letter.isalnum() or letter in ("'", "’")


# Rules ----------------------------------------------------------------------------------------------------------------


def swapped(text: str, *lists: str) -> Iterator[Place]:
    """Swap words of the lists. Only words in lower case or at the start of a sentence: others may be names."""
    known = swaps(*lists)
    for word in words(text):
        if word.lower not in known or not (word.text.islower() or word.begins):
            continue
        if phrases().isdisjoint((f"{word.before} {word.lower}", f"{word.lower} {word.after}")):
            options = tuple(cased(other, word.text) for other in known[word.lower] if fits_article(other, word.before))
            yield Place(word.start, word.end, options)


# Signal ---------------------------------------------------------------------------------------------------------------


def negations(text: str) -> Iterator[Place]:
    """Insert "not" after an auxiliary, or remove a "not"; "won't" becomes "will"."""
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
    """Change a number: the last two digits of a year, else the first digit; or swap a number word."""
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
    """Replace a first name by another of the same list."""
    known = swaps("women", "men")
    for word in words(text):
        name = word.text.removesuffix("'s").removesuffix("’s")
        if name in known:
            yield Place(word.start, word.start + len(name), known[name])


def antonyms(text: str) -> Iterator[Place]:
    """Replace a word by its opposite."""
    return swapped(text, "antonyms")


# Noise ----------------------------------------------------------------------------------------------------------------


def synonyms(text: str) -> Iterator[Place]:
    """Replace a word by a synonym."""
    return swapped(text, "synonyms")


def stop_words(text: str) -> Iterator[Place]:
    """Remove a dispensable word: an article, "just", "very", the "that" after "I think"."""
    for word in words(text):
        if not word.text.islower() or not word.before or not word.after:
            continue
        if _goes(word) or (word.text == "that" and word.before in listed("saying")):
            yield Place(word.start - 1, word.end, ("",))


def _goes(word: Word) -> bool:
    """Whether the word can be removed without loss and the article before it, if any, fits the next word."""
    if word.text not in listed("dispensable") or word.after in listed("amounts"):
        return False
    if word.before in listed("less") or word.before.endswith(("n't", "'d")):
        return False
    return f"{word.text} {word.after}" not in phrases() and fits_article(word.after, word.before)


def typos(text: str) -> Iterator[Place]:
    """Swap two neighbouring letters, but not the first letter."""
    for word in words(text):
        letters = word.text
        if len(letters) < _SHORTEST or not (letters.isalpha() and letters[1:].islower()):
            continue
        swaps = (
            letters[:i] + letters[i + 1] + letters[i] + letters[i + 2 :]
            for i in range(1, len(letters) - 1)
            if letters[i] != letters[i + 1]
        )
        yield Place(word.start, word.end, tuple(new for new in swaps if new.lower() not in listed("other_words")))


def punctuation(text: str) -> Iterator[Place]:
    """Remove a comma or the last full stop, or insert a comma before "and", "but", "which".

    No full stop is added at the end: a text may be cut in the middle of a sentence.
    """
    for at, letter in enumerate(text):
        if letter == "," and at > 0 and text[at - 1].isalpha() and text[at + 1 : at + 2].isspace():
            yield Place(at, at + 1, ("",))
    for word in words(text):
        if word.text in listed("joining") and word.before:
            end = len(text[: word.start].rstrip())  # of the word before, however wide the gap
            yield Place(end, end, (",",))
    end = len(text.rstrip())
    if text[end - 1 : end] == "." and text[end - 2 : end - 1].isalpha():
        yield Place(end - 1, end, ("",))


def cases(text: str) -> Iterator[Place]:
    """Write a word in lower case as Capitalised or UPPER."""
    for word in words(text):
        if len(word.text) > 2 and word.text.islower():
            yield Place(word.start, word.end, (word.text.capitalize(), word.text.upper()))


RULES = (
    Rule("negation", SIGNAL, negations),
    Rule("number", SIGNAL, numbers),
    Rule("name", SIGNAL, names),
    Rule("antonym", SIGNAL, antonyms),
    Rule("synonym", NOISE, synonyms),
    Rule("stop word", NOISE, stop_words),
    Rule("typo", NOISE, typos),
    Rule("punctuation", NOISE, punctuation),
    Rule("case", NOISE, cases),
)
TYPES = tuple(rule.type for rule in RULES)


def rules_of(types: Sequence[str] | None) -> tuple[Rule, ...]:
    """The rules of these types of edits; all of them by default. Raises UnknownNameError for an unknown type."""
    for name in types or ():
        if name not in TYPES:
            raise UnknownNameError(f"expected edits out of {', '.join(TYPES)}, got {name!r}{did_you_mean(name, TYPES)}")
    return tuple(rule for rule in RULES if types is None or rule.type in types)
