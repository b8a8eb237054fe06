"""Edits of one word that leave what a text says: synonym, stop word, typo, punctuation, case."""

from __future__ import annotations

from collections.abc import Iterator

from oneword.auditing.edits import NOISE, Place, Rule
from oneword.auditing.english import Word, fits_article, words
from oneword.auditing.lexicon import listed, phrases, swapped

_SHORTEST = 5  # letters of a word in which a typo is plainly one


def synonyms(text: str) -> Iterator[Place]:
    """Another word for the same."""
    return swapped(text, "synonyms")


def stop_words(text: str) -> Iterator[Place]:
    """A word that can go: an article, "just", "very", the "that" after "I think"."""
    for word in words(text):
        if not word.text.islower() or not word.before or not word.after:
            continue
        if _goes(word) or (word.text == "that" and word.before in listed("saying")):
            yield Place(word.start - 1, word.end, ("",))


def _goes(word: Word) -> bool:
    """Whether nothing is lost without this word, and the article before it, if any, suits what follows."""
    if word.text not in listed("dispensable") or word.after in listed("amounts"):
        return False
    if word.before in listed("less") or word.before.endswith(("n't", "'d")):
        return False
    return f"{word.text} {word.after}" not in phrases() and fits_article(word.after, word.before)


def typos(text: str) -> Iterator[Place]:
    """Two neighbouring letters swapped, neither of them the first."""
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
    """A comma dropped, or put before "and", "but", "which"; the last full stop dropped.

    None is put at the end: a text that was cut there is not at the end of its sentence.
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
    """A word in lower case becomes Capitalised or UPPER."""
    for word in words(text):
        if len(word.text) > 2 and word.text.islower():
            yield Place(word.start, word.end, (word.text.capitalize(), word.text.upper()))


RULES = (
    Rule("synonym", NOISE, synonyms),
    Rule("stop word", NOISE, stop_words),
    Rule("typo", NOISE, typos),
    Rule("punctuation", NOISE, punctuation),
    Rule("case", NOISE, cases),
)
