"""How hard a survey works: enough for a person who waits, and said on every page.

A short text is answered within seconds, one of 250 tokens within half a minute. What that leaves out (seeds, steps of
the search, refined certificates, neurons and words of rf) is named in `notes`; `thorough` leaves out nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from oneword.bounds.certificate import Certify
from oneword.maps.base import SHORT
from oneword.maps.registry import has_blocks
from oneword.search.ascent import Ascent
from oneword.search.base import Search
from oneword.search.defaults import DefaultSearch

MIDDLING = 160  # tokens; a whole vocabulary costs about n³: up to here it is searched in a few seconds


@dataclass(frozen=True)
class Effort:
    """What is spent on one map, one seed and one window of a text.

    | field | meaning |
    |---|---|
    | `search`, `certify` | of S_ball |
    | `baseline` | random changes within the ball, for comparison |
    | `candidates` | random words of the vocabulary that are tried; None: all, which is exact |
    | `block_search` | `search` of rf and drf, which are nearly linear in Δ: their known starts are good ones |
    | `neurons` | of rf and drf, at most; None: n·d, as in the paper |
    | `block_words` | words of the text that rf and drf measure, evenly spread; None: all |
    | `block_candidates` | `candidates` of rf and drf, for which every candidate costs k·d |
    """

    search: Search
    certify: Certify
    baseline: int = 32
    candidates: int | None = None
    neurons: int | None = None
    block_words: int | None = None
    block_candidates: int | None = None
    block_search: Search = DefaultSearch(quick=True)  # noqa: RUF009

    @classmethod
    def usual(cls, tokens: int) -> Effort:
        """What suits a text of this many tokens."""
        if tokens <= SHORT:  # few words: more starts cost little
            search = Ascent(random=4, steps=12, keep=2, leading=SHORT, polish=30)
            return cls(search, Certify(work=3.0), neurons=1024, block_words=12, block_candidates=64)
        return cls(
            DefaultSearch(quick=True),
            Certify(work=5.0),
            baseline=8,
            candidates=None if tokens <= MIDDLING else 10_000,
            neurons=512,
            block_words=12,
            block_candidates=64,
        )

    @classmethod
    def quick(cls) -> Effort:
        """One start a word, the closed-form certificate."""
        return cls(
            DefaultSearch(quick=True),
            Certify.plain(),
            baseline=8,
            candidates=2_000,
            neurons=512,
            block_words=8,
            block_candidates=32,
        )

    @classmethod
    def thorough(cls, certify: Certify) -> Effort:
        """The full search of the library, certificates refined, every neuron and every word."""
        return cls(DefaultSearch(), certify, baseline=64, block_search=DefaultSearch())

    @staticmethod
    def seeds(tokens: int) -> int:
        """How many draws of the weights, where nobody says."""
        return 3 if tokens <= SHORT else 1

    def search_of(self, name: str) -> Search:
        return self.block_search if has_blocks(name) else self.search

    def candidates_of(self, name: str) -> int | None:
        return self.block_candidates if has_blocks(name) else self.candidates

    def notes(self, maps: tuple[str, ...], n: int, d: int, words: int) -> Iterator[str]:
        """What was left out, for these maps at a text of n tokens of which `words` words may change."""
        if self.certify == Certify.plain():
            yield "certificates in closed form; --thorough refines them"
        blocks = " and ".join(name for name in maps if has_blocks(name))
        if blocks and self.neurons is not None and self.neurons < n * d:
            yield f"{blocks}: {self.neurons:,} neurons, where the paper has n·d = {n * d:,}"
        if blocks and self.block_words is not None and self.block_words < words:
            yield f"{blocks}: {self.block_words} of {words} words, evenly spread"

    def notes_on_words(self, maps: tuple[str, ...], known: int) -> Iterator[str]:
        """Where S_word is a lower bound, since only some of the `known` words were tried."""
        tried: dict[int, list[str]] = {}
        for name in maps:
            most = self.candidates_of(name)
            if most is not None and most < known:
                tried.setdefault(most, []).append(name)
        for most, names in tried.items():
            yield f"{', '.join(names)}: S_word is ≥, the best of {most:,} random words of {known:,} (--thorough: all)"
