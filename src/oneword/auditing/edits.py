"""One-word edits of a text: signal, which changes what it says, and noise, which does not.

A rule is a function from a text to the places where it applies, each with its possible replacements; `edits_by` picks
some of them at random. Everything else in the text stays the same, letter by letter. The rules are for plain English.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from oneword.random import stream

Kind = Literal["signal", "noise"]
SIGNAL: Kind = "signal"
NOISE: Kind = "noise"


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
    chosen = draw.permutation(len(places))[:most]
    return [_at(text, rule, places[k], int(draw.integers(len(places[k].options)))) for k in chosen]


def _at(text: str, rule: Rule, place: Place, option: int) -> Edit:
    new = text[: place.start] + place.options[option] + text[place.end :]
    return Edit(rule.type, rule.kind, text, new, difference(text, new)[0])


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
