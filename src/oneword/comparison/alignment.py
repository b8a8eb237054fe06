"""The words of two texts matched: which are the same, which one takes the place of another, which come or go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Literal

from oneword.text.context import Context

How = Literal["equal", "replace", "delete", "insert"]
Key = tuple[bool, str]  # a special token is no word that is spelled like one


@dataclass(frozen=True)
class Pair:
    """Word `a` of the first text beside word `b` of the second; None where one of them has no counterpart."""

    a: int | None
    b: int | None
    how: How

    def swapped(self) -> Pair:
        """The same, seen from the other text."""
        other: dict[How, How] = {"delete": "insert", "insert": "delete"}
        return replace(self, a=self.b, b=self.a, how=other.get(self.how, self.how))


def pair_words(a: Context, b: Context) -> tuple[Pair, ...]:
    """Every word of both texts once, in their order; case counts, special tokens match each other.

    Where several words take the place of several others, they are paired off from the first; what is left has no
    counterpart.
    """
    first, second = (list(zip(text.special, text.words, strict=True)) for text in (a, b))
    if first <= second:
        return _matched(first, second)
    # difflib prefers the first text where matches are equally long: the texts in one order, whichever was given first.
    return tuple(pair.swapped() for pair in _matched(second, first))


def _matched(a: Sequence[Key], b: Sequence[Key]) -> tuple[Pair, ...]:
    pairs: list[Pair] = []
    for tag, a0, a1, b0, b1 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        both = min(a1 - a0, b1 - b0)
        pairs += [Pair(a0 + k, b0 + k, "equal" if tag == "equal" else "replace") for k in range(both)]
        pairs += [Pair(i, None, "delete") for i in range(a0 + both, a1)]
        pairs += [Pair(None, j, "insert") for j in range(b0 + both, b1)]
    return tuple(pairs)
