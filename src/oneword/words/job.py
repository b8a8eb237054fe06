"""What measurements of trained models have in common: a first answer, and then one stage after the other.

A first answer comes soon, from a few gradients and random words. The stages that follow are the same for all subjects,
but for those in which a subject looks at what only it has.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from oneword.bounds.certificate import Certify
from oneword.errors import RangeError
from oneword.maps.base import FeatureMap
from oneword.maps.transformer import TransformerFeatures
from oneword.maps.transformer_probe import ModelProbe
from oneword.progress import Progress, part, shares
from oneword.report.words.table import Subject
from oneword.result import Sensitivity, numbers
from oneword.search.shortlist import KEPT, Listed, shortlist
from oneword.sets.coverage import Coverage
from oneword.sets.vocabulary import Replacements
from oneword.sup.task import Task, by_size, check_words, rows_of
from oneword.sup.verb import measure_at
from oneword.text.context import Context
from oneword.words.cost import Costs, first_words
from oneword.words.effort import Effort
from oneword.words.measured import Measured, Origin
from oneword.words.random_words import RandomWords
from oneword.words.request import Request
from oneword.words.windows import Window

Stages = dict[str, Callable[[Progress], Iterator[None]]]  # by name, in the order in which they are done

LOOKS = 4  # at what random words did, while they are tried


@dataclass(frozen=True, eq=False)
class TrainedSubject(ABC):
    """A trained model, and what of it is measured."""

    phi: TransformerFeatures
    by: str = ""
    title: str = ""

    def __post_init__(self) -> None:
        for name in ("by", "title"):
            object.__setattr__(self, name, getattr(self, name) or self.phi.name)

    @property
    @abstractmethod
    def what(self) -> str:
        """What is measured, in words."""

    @abstractmethod
    def job(self, number: int, text: str | Context, request: Request, name: str) -> ModelJob:
        """The measurement of one text; `name` is that of the result."""


def window_of(number: int, context: Context, request: Request) -> Window:
    """A text as one window: the words that may change, special tokens only where they are asked for."""
    if request.positions is None:
        spots = [i for i, special in enumerate(context.special) if request.special or not special]
    else:
        spots = sorted(set(request.positions))
        if not spots or not 0 <= spots[0] <= spots[-1] < len(context.words):
            raise RangeError(f"expected positions out of 0 … {len(context.words) - 1}, got {spots or 'none'}")
    return Window(number, 0, context, tuple(range(len(context.words))), tuple(spots))


def words_for(window: Window, request: Request, phi: TransformerFeatures) -> Replacements | None:
    """The real words to try; a list of which nothing fits is refused before the work."""
    words = request.real_words(phi.encoder)
    if request.words is not None and words is not None:
        Coverage.of(words, [(window.context, {i: i for i in window.positions})]).check(words)
    return words


@dataclass(eq=False)
class ModelJob(ABC):
    """One measurement, and what is known so far.

    `first` gives a first answer, `run` goes on to the last one; `measured` are the rows that are known.
    """

    subject: TrainedSubject
    window: Window
    request: Request
    words: Replacements | None
    effort: Effort
    probe: ModelProbe
    name: str
    estimated: dict[int, float] = field(default_factory=dict)  # first order, for a first answer
    gains: dict[int, float] = field(default_factory=dict)  # first order
    found: Sensitivity | None = None
    ranked: dict[int, Listed] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.text, self.within = self.window.context, self.request.model_constraint()
        self.origin = Origin(self.window, self.subject.by)
        check_words(self.request.together, min(len(self.window.positions), self.effort.searched or math.inf))

    @property
    @abstractmethod
    def map(self) -> FeatureMap:
        """What the Probe was made of."""

    @property
    @abstractmethod
    def costs(self) -> Costs:
        """Seconds by stage; `first` is what comes before them."""

    @abstractmethod
    def _estimate(self, progress: Progress) -> None:
        """First order at every word, as well as a first answer needs it: into `estimated`."""

    def _before_search(self) -> Stages:
        """Stages that only this subject has, and that say which words are worth a search."""
        return {}

    def _after_search(self) -> Stages:
        """Stages that only this subject has, at what the search found."""
        return {}

    @abstractmethod
    def _facts(self) -> Subject:
        """What this subject is, and what its numbers rest on."""

    def _rank(self, i: int) -> float:
        """Which words matter most, before they are searched: those that a random word moves most."""
        return max(self.random.get(i, {}).values(), default=0.0)

    @cached_property
    def tries(self) -> RandomWords | None:
        """Random words at every word; None where there are no real words to try."""
        if self.words is None:
            return None
        count, how = self.effort.random_words, {"seed": self.request.seed, "memory": self.effort.model_search.memory}
        return RandomWords(self.probe, self.text, self.window.positions, self.words, count, **how)

    @property
    def random(self) -> dict[int, dict[str, float]]:
        """What random words did so far, by position and word."""
        return {} if self.tries is None else self.tries.found

    def first(self, progress: Progress) -> None:
        """A first answer: first order at every word, estimated, and random words where it is largest."""
        count = first_words(self.probe.n, len(self.window.positions))
        gradients, words = shares(progress, [self._estimate_passes, count])
        self._estimate(gradients)
        if self.tries is not None:
            self.tries.first(self.estimated)
            self.tries.run(first_words(self.probe.n, self.tries.left), words)

    @property
    @abstractmethod
    def _estimate_passes(self) -> float:
        """What `_estimate` costs, in forward passes."""

    def run(self, progress: Progress) -> Iterator[None]:
        """What is left, stage by stage; each pause is a place to look at what is known."""
        stages: Stages = {
            "random words": self._random_words,
            **self._before_search(),
            "first order": self._first_order,
            "search": self._search,
            **self._after_search(),
            "real words": self._best_words,
        }
        heard, seconds = shares(progress, [self.costs[name] for name in stages]), dict[str, float]()
        for (name, stage), onward in zip(stages.items(), heard, strict=True):
            started = time.monotonic()
            onward(name, 0.0)
            for _ in stage(part(onward, 0.0, 1.0, name)):
                yield
            seconds[name] = round(time.monotonic() - started, 3)
            onward(name, 1.0)
            if stage != self._best_words:
                yield
        words = {} if self.words is None else {"real words": self.words.describe()}
        self.about = {"seconds by stage": seconds} | words
        yield

    # Stages

    def _random_words(self, progress: Progress) -> Iterator[None]:
        if self.tries is None:
            return
        most = -(-self.tries.left // LOOKS)
        for onward in shares(progress, [1.0] * LOOKS):
            if self.tries.left:
                self.tries.run(most, onward)
                if self.tries.left:
                    yield

    @cached_property
    def searched(self) -> list[int]:
        """The words that rank highest, in the order of the text; all unless the effort has a number."""
        most = {i: self._rank(i) for i in self.window.positions}
        return sorted(sorted(most, key=lambda i: -most[i])[: self.effort.searched])

    def _radius(self, rows: Int[Tensor, "p m"]) -> Float[Tensor, " p"]:
        """The largest ‖Δ‖ allowed, of all rows of a word together."""
        return self.within.reach(self.probe.X[rows]).square().sum(1).sqrt()

    def _first_order(self, progress: Progress) -> Iterator[None]:
        """r‖J_i‖/‖φ‖ of each word: what its best change of length r would do if φ were linear."""
        probe, found = self.probe, dict[int, float]()
        for members in by_size(self.text, self.searched):
            rows = rows_of(self.text, probe, members)
            values = numbers(self._radius(rows) * probe.gains(rows, progress=progress).norm / probe.norm)
            found |= zip(members, values, strict=True)
        self.gains = found
        yield from ()

    def _search(self, progress: Progress) -> Iterator[None]:
        words, search, seed = self.request.together, self.effort.model_search, self.request.seed
        task = Task(self.within, words, self.searched, search, Certify.plain(), 1, seed, progress)
        self.found = measure_at(self.map, self.probe, self.text, task, time.monotonic())
        yield from ()

    def _best_words(self, progress: Progress) -> Iterator[None]:
        """The worst real words found at the most sensitive words; a random word may have done more than those."""
        if self.words is None:
            return
        assert self.found is not None, "real words come after the search"
        order = self.found.per_word.sort_values("value", ascending=False, kind="stable")["position"].tolist()
        able = [(form, i) for form, members in self.words.fitting(self.text, order) for i in members]
        able.sort(key=lambda pair: order.index(pair[1]))
        chosen = able[: self.effort.best_words]
        for count, (form, i) in enumerate(chosen):
            here = part(progress, count / len(chosen), (count + 1) / len(chosen))
            listed = shortlist(
                self.probe, self.text.rows[i], form, self.effort.shortlist, seed=self.request.seed, progress=here
            )
            both = self.random[i] | dict(listed.best)
            self.ranked[i] = self._kept(i, replace(listed, best=_best_first(both)[:KEPT]))
            if count + 1 < len(chosen):
                yield

    def _kept(self, i: int, listed: Listed) -> Listed:
        """What is kept of the real words found in the place of word i."""
        return listed

    # Rows

    def measured(self) -> Measured:
        """Rows of every table, with gaps where a later stage will fill them."""
        found, facts = self.found, self._facts()
        if found is not None:
            within, about = str(found.provenance["within"]["shown"]), {**facts.about, **found.provenance, **self.about}
            facts = replace(facts, within=within, certificate=found.certificate, about=about)
        ranks = {i: [(*each, math.nan) for each in listed.best] for i, listed in self.ranked.items()}
        return (
            Measured(
                words=list(self._rows()),
                replacements=[row for i, best in ranks.items() for row in self.origin.ranks(i, best)],
                joint=[] if found is None or len(found.positions) == 1 else [self.origin.joint(found)],
                subjects=[facts],
                results=[] if found is None else [(self.name, found)],
                notes=list(self._notes()),
            )
            + self._tables()
        )

    def _tables(self) -> Measured:
        """The rows of tables that only this subject has."""
        return Measured()

    def _rows(self) -> Iterator[dict[str, Any]]:
        found, random = self.found, self.random
        sups = {} if found is None else found.per_word.set_index("position").to_dict("index")
        for i in self.window.positions:
            tried, sup = random.get(i, {}), sups.get(i, {})
            row = self.origin.row(i, found, sup) | {
                "first_order": (self.gains or self.estimated).get(i),
                "random_word": math.fsum(tried.values()) / len(tried) if tried else None,
            }
            if i in self.ranked and self.ranked[i].best:  # of the shortlist, or a random word that did more
                listed = self.ranked[i]
                kind = "exact" if listed.exhaustive else "shortlist"
                best = {"best_word": listed.value, "replacement": listed.word, "kind": kind}
                row |= best | {"candidates": listed.passes}
            yield row | self._more(i, row)

    def _more(self, i: int, row: Mapping[str, Any]) -> dict[str, Any]:
        """Columns that only this subject has."""
        return {}

    def _notes(self) -> Iterator[str]:
        known, by, spots = len(self.found.per_word) if self.found else 0, self.subject.by, self.window.positions
        if self.found is None:
            tried = f"random words were tried at {sum(map(bool, self.random.values()))} of {len(spots)} words"
            yield f"{by}: a first answer: {self._first_note}{tried}; the search goes on"
        if 0 < known < len(spots):
            which = f"those that {self._ranked_by} (effort thorough: all)"
            yield f"{by}: searched at {known} of {len(spots)} words, {which}"
        several = sum(len(self.text.rows[i]) > 1 for i in spots)
        if several and self.words is not None:
            yield f"{by}: {several} words have several tokens; only real words of as many tokens could replace them"
        listed = sum(not each.exhaustive for each in self.ranked.values())
        if listed:
            yield f"{by}: best word of the {listed} most sensitive words only, from a gradient shortlist"

    @property
    def _first_note(self) -> str:
        """What first order is in a first answer, if it is an estimate."""
        return ""

    @property
    def _ranked_by(self) -> str:
        return "a random word moves most"


def _best_first(values: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    return tuple(sorted(values.items(), key=lambda pair: -pair[1]))
