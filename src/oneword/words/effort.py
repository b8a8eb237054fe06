"""How hard a measurement works: enough for a person who waits, and what it leaves out is noted.

A short text is answered within seconds, one of 250 tokens within a minute. What that leaves out (seeds, steps of the
search, refined certificates, neurons and words of rf, words of long texts in models) is named in `notes`; `thorough`
leaves out nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from oneword.bounds.certificate import Certify
from oneword.checks import shown
from oneword.errors import UnknownNameError
from oneword.maps.base import SHORT
from oneword.maps.registry import has_blocks
from oneword.search.ascent import Ascent
from oneword.search.base import Search
from oneword.search.defaults import DefaultSearch
from oneword.search.frugal import FrugalAscent
from oneword.search.shortlist import Shortlist

LEVELS = ("quick", "usual", "thorough")
MIDDLING = 160  # tokens; a whole vocabulary costs about n³: up to here it is searched in a few seconds
WHOLE = 128  # tokens: up to here a model is searched at every word
SOME = 24  # words searched in longer texts
MEMORY = 1 << 28  # bytes of a batch of a model: progress is told after each, so that nobody waits long


@dataclass(frozen=True)
class Effort:
    """What is spent on one subject at one text.

    | field | meaning |
    |---|---|
    | `search`, `certify` | of the sup over the allowed changes, for maps |
    | `baseline` | random changes of the allowed size, for comparison |
    | `candidates` | random words of the vocabulary that are tried; None: all, which is exact |
    | `neurons` | of rf and drf, at most; None: n·d, as in the paper |
    | `block_words` | words of the text that rf and drf measure, evenly spread; None: all |
    | `block_candidates` | `candidates` of rf and drf, for which every candidate costs k·d |
    | `block_search` | `search` of rf and drf, which are nearly linear in Δ: their known starts are good ones |
    | `model_search` | `search` of models, for which every candidate is a forward pass |
    | `searched` | words that a model searches, those that a random word moves most; None: every word |
    | `random_words` | random real words tried at each word of a model |
    | `best_words` | how many of the most sensitive words of a model get a search for their worst real replacement |
    | `shortlist` | how that search spends its forward passes |
    | `per_layer` | whether every layer of a model is searched, instead of evaluated at the change of the last one |
    """

    search: Search = DefaultSearch()  # noqa: RUF009
    certify: Certify = field(default_factory=Certify)
    baseline: int = 32
    candidates: int | None = None
    neurons: int | None = None
    block_words: int | None = None
    block_candidates: int | None = None
    block_search: Search = DefaultSearch(quick=True)  # noqa: RUF009
    model_search: Search = DefaultSearch(memory=MEMORY)  # noqa: RUF009
    searched: int | None = None
    random_words: int = 1
    best_words: int = 2
    shortlist: Shortlist = field(default_factory=lambda: Shortlist(most=128))
    per_layer: bool = False

    @classmethod
    def of(cls, level: str | Effort, tokens: int, certify: Certify | None = None) -> Effort:
        """The effort of this level for a text of so many tokens; `certify` replaces that of the level."""
        if isinstance(level, Effort):
            effort = level
        elif not isinstance(level, str) or level not in LEVELS:
            raise UnknownNameError(f"expected effort out of {', '.join(LEVELS)}, or an Effort, got {shown(level)}")
        else:
            effort = {"quick": cls.quick(), "usual": cls.usual(tokens), "thorough": cls.thorough()}[level]
        return effort if certify is None else replace(effort, certify=certify)

    @classmethod
    def usual(cls, tokens: int) -> Effort:
        """What suits a text of this many tokens."""
        if tokens <= SHORT:  # few words: more starts cost little
            search = Ascent(random=4, steps=12, keep=2, leading=SHORT, polish=30)
            return cls(search, Certify(work=3.0), neurons=1024, block_candidates=64)
        return replace(
            cls.quick(),
            certify=Certify(work=5.0),
            candidates=None if tokens <= MIDDLING else 10_000,
            block_words=12,
            block_candidates=64,
            searched=None if tokens <= WHOLE else SOME,
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
            model_search=DefaultSearch(quick=True, memory=MEMORY),
        )

    @classmethod
    def thorough(cls) -> Effort:
        """The full search of the library, certificates refined, every neuron, every word and every layer."""
        return cls(baseline=64, block_search=DefaultSearch(), random_words=8, best_words=8, per_layer=True)

    @classmethod
    def of_prompt(cls, level: str | Effort, tokens: int, certify: Certify | None = None) -> Effort:
        """The same for a prompt: leaving words out says which are worth a search, and its passes are dear."""
        effort = cls.of(level, tokens, certify)
        if level not in ("quick", "usual"):
            return effort
        few = {"quick": (3, 2, 48, 16), "usual": (8, 4, 96, 40)}[str(level)]
        searched, best_words, most, polish = few
        search = FrugalAscent(steps=4, leading=2, polish=polish, quick=True, memory=MEMORY)
        words = Shortlist(least=min(64, most), most=most)
        return replace(effort, model_search=search, searched=searched, best_words=best_words, shortlist=words)

    @staticmethod
    def seeds(tokens: int) -> int:
        """How many draws of the weights, where nobody says."""
        return 3 if tokens <= SHORT else 1

    def search_of(self, blocks: bool) -> Search:
        return self.block_search if blocks else self.search

    def candidates_of(self, blocks: bool) -> int | None:
        return self.block_candidates if blocks else self.candidates

    def notes(self, maps: Sequence[str], n: int, d: int, words: int) -> Iterator[str]:
        """What was left out, for these maps at a text of n tokens of which `words` words may change."""
        if maps and self.certify == Certify.plain():
            yield "certificates, where there are any, in closed form; effort thorough refines them"
        blocks = " and ".join(name for name in maps if has_blocks(name))
        if blocks and self.neurons is not None and self.neurons < n * d:
            yield f"{blocks}: {self.neurons:,} neurons, where the paper has n·d = {n * d:,}"
        if blocks and self.block_words is not None and self.block_words < words:
            yield f"{blocks}: {self.block_words} of {words} words, evenly spread"

    def notes_on_words(self, maps: Sequence[str], known: int) -> Iterator[str]:
        """Where the best word is a lower bound, since only some of the `known` words were tried."""
        tried: dict[int, list[str]] = {}
        for name in maps:
            most = self.candidates_of(has_blocks(name))
            if most is not None and most < known:
                tried.setdefault(most, []).append(name)
        for most, names in tried.items():
            yield (
                f"{', '.join(names)}: the best word is ≥, the best of {most:,} random words of {known:,} "
                "(effort thorough: all)"
            )
