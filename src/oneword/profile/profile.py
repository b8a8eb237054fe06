"""One model at one text: every word's sup, its first-order value, real words beside it, and every layer and head."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import pandas as pd

from oneword.bounds.certificate import Certify
from oneword.errors import RangeError
from oneword.maps.transformer import TransformerFeatures
from oneword.maps.transformer_probe import TransformerProbe
from oneword.profile.layers import across_heads, across_layers
from oneword.profile.noise import noise_floor
from oneword.profile.random_words import random_words
from oneword.progress import Progress
from oneword.report.profile.profiled import Profiled
from oneword.result import Sensitivity, numbers
from oneword.search.base import Search
from oneword.search.defaults import DefaultSearch
from oneword.search.shortlist import Shortlist, shortlist
from oneword.sets.constraints import Constraint
from oneword.sets.coverage import Coverage
from oneword.sets.vocabulary import Replacements, Vocabulary
from oneword.sup.task import Task, by_size, rows_of
from oneword.sup.verb import measure_at
from oneword.text.context import Context

# How much of the whole each stage takes, for a bar with the time left. What is quick comes first: a person who waits
# sees the words in colour at once.
_STAGES = {"random words": 0.05, "first order": 0.2, "search": 0.5, "layers": 0.05, "real words": 0.2}


@dataclass(frozen=True)
class Effort:
    """How hard a profile works.

    | field | meaning |
    |---|---|
    | `search` | of the sup at every word |
    | `random_words` | random real words tried at each word |
    | `best_words` | how many of the most sensitive words get a search for their worst real replacement |
    | `shortlist` | how that search spends its forward passes |
    | `per_layer` | whether every layer is searched by itself, instead of reporting its value at the objective's Δ |
    | `searched` | how many words get a sup at all, those that a random word moves most; None: every word |
    """

    search: Search = DefaultSearch()  # noqa: RUF009
    random_words: int = 1
    best_words: int = 2
    shortlist: Shortlist = field(default_factory=lambda: Shortlist(most=128))
    per_layer: bool = False
    searched: int | None = None


@dataclass(frozen=True, eq=False)
class Profile:
    """What was found: the tables of words, layers and heads, and the measurement of the sup itself."""

    tables: Profiled
    result: Sensitivity = field(repr=False)


def profile(
    phi: TransformerFeatures,
    text: str | Context,
    *,
    within: Constraint | None = None,
    positions: Sequence[int] | None = None,
    words: Replacements | None = None,
    effort: Effort = Effort(),  # noqa: B008
    seed: int = 0,
    report: Progress = lambda stage, done: None,
    show: Callable[[Profiled], None] = lambda so_far: None,
) -> Profile:
    """Everything about one model at one text. `words` are the real ones to try: the vocabulary unless given.

    Special tokens do not change unless `positions` name them. `show` is given the tables after each stage, with gaps
    where a later one will fill them.
    """
    context = phi.encode(text) if isinstance(text, str) else phi.read(text)
    spots = [i for i, s in enumerate(context.special) if not s] if positions is None else sorted(set(positions))
    if not spots or not 0 <= spots[0] <= spots[-1] < len(context.words):
        raise RangeError(f"expected positions out of 0 … {len(context.words) - 1}, got {spots or 'none'}")
    clock = _Clock(report)
    probe = phi.at(context.X)
    within = probe.allowed(within)
    real = Vocabulary.of(phi.encoder) if words is None else words.encoded_by(phi.encoder)
    if words is not None:  # a list of which nothing fits is refused before the work
        Coverage.of(real, [(context, {i: i for i in spots})]).check(real)
    draft = _Draft(phi, context, spots)
    with clock.stage("random words") as say:
        memory = effort.search.memory
        draft.random = random_words(
            probe, context, spots, real, effort.random_words, seed=seed, memory=memory, progress=say
        )
    show(draft.tables())
    spots = draft.leading(effort.searched)
    with clock.stage("first order") as say:
        probe.say = say
        draft.first = _first_order(probe, context, spots, within)
    show(draft.tables())
    with clock.stage("search") as say:
        task = Task(within, 1, spots, effort.search, Certify.plain(), 1, seed, lambda stage, done: say(done))
        draft.found = found = measure_at(phi, probe, context, task, time.monotonic())
    show(draft.tables())
    with clock.stage("layers") as say:
        draft.layers = _layers(phi, context, found, spots, within, effort, seed, say)
        draft.heads = pd.DataFrame(across_heads(phi, context, found.position, found.delta))
        draft.noise = noise_floor(phi, context.X)
    show(draft.tables())
    with clock.stage("real words") as say:
        draft.best = _best_words(probe, context, found, real, effort, seed, say)
    about = {"seconds by stage": clock.seconds, "real words": real.describe()}
    return Profile(draft.tables(about), found)


@dataclass
class _Draft:
    """What is known so far."""

    phi: TransformerFeatures
    text: Context
    spots: list[int]
    random: dict[int, dict[str, float]] = field(default_factory=dict)
    first: dict[int, float] = field(default_factory=dict)
    found: Sensitivity | None = None
    layers: pd.DataFrame = field(default_factory=pd.DataFrame)
    heads: pd.DataFrame = field(default_factory=pd.DataFrame)
    noise: float = math.nan
    best: dict[int, tuple[float, str, str]] = field(default_factory=dict)

    def leading(self, count: int | None) -> list[int]:
        """The words that a random word moves most, in the order of the text."""
        order = sorted(self.spots, key=lambda i: -max(self.random[i].values(), default=0.0))
        return sorted(order[:count])

    def tables(self, about: Mapping[str, Any] = MappingProxyType({})) -> Profiled:
        words = self._words()
        return Profiled(
            self.phi.name,
            self.text.text or " ".join(self.text.words),
            objective(self.phi),
            self.noise,
            words,
            self.layers,
            self.heads,
            {**self._provenance(), **about},
            tuple(_notes(words)),
        )

    def _provenance(self) -> dict[str, Any]:
        if self.found is None:
            return {}
        return {**self.found.provenance, "certificate": self.found.certificate}

    def _words(self) -> pd.DataFrame:
        sups = {} if self.found is None else self.found.per_word.set_index("position").to_dict("index")
        lines = []
        for i in self.spots:
            start, end = self.text.spans[i] or (None, None)
            tried = self.random[i]
            value, word, kind = self.best.get(i, (math.nan, None, None))
            top = max(tried, key=tried.__getitem__, default=None)
            if top is not None and value < tried[top]:  # a random word did more than those of the shortlist
                value, word = tried[top], top
            sup = sups.get(i, {"value": math.nan, "upper": math.nan, "baseline": math.nan})
            lines.append(
                {
                    "position": i,
                    "word": self.text.words[i],
                    "start": start,
                    "end": end,
                    "tokens": len(self.text.rows[i]),
                    "sup": sup["value"],
                    "upper": sup["upper"],
                    "first_order": self.first.get(i, math.nan),
                    "random_ball": sup["baseline"],
                    "random_word": math.fsum(tried.values()) / len(tried) if tried else math.nan,
                    "best_word": value,
                    "replacement": word,
                    "kind": kind,
                    "below_noise": sup["value"] <= self.noise,
                }
            )
        return pd.DataFrame(lines).astype({"start": "Int64", "end": "Int64", "replacement": object, "kind": object})


def objective(phi: TransformerFeatures) -> str:
    """What is measured, in words."""
    asked = phi.selection
    if asked.module is not None:
        return f"module {asked.module}"
    head = "" if asked.head is None else f", head {asked.head}"
    return f"{asked.output.name}{head}" + (f", layer {asked.layer}" if asked.output.has_layers else "")


@dataclass
class _Clock:
    """Progress of the whole out of the progress of its stages, and how long each took."""

    report: Progress
    done: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[Any]:
        started, share = time.monotonic(), _STAGES[name]
        self.report(name, self.done)
        yield lambda part: self.report(name, self.done + share * part)
        self.done += share
        self.seconds[name] = round(time.monotonic() - started, 3)
        self.report(name, self.done)


def _first_order(probe: TransformerProbe, text: Context, spots: list[int], within: Constraint) -> dict[int, float]:
    """r‖J_i‖/‖φ‖ of each word: what its best change of length r would do if φ were linear."""
    found: dict[int, float] = {}
    for members in by_size(text, spots):
        rows = rows_of(text, probe, members)
        radius = within.reach(probe.X[rows]).square().sum(1).sqrt()  # of all rows of a word together
        found |= dict(zip(members, numbers(radius * probe.gains(rows).norm / probe.norm), strict=True))
    return found


def _layers(
    phi: TransformerFeatures,
    text: Context,
    found: Sensitivity,
    spots: list[int],
    within: Constraint,
    effort: Effort,
    seed: int,
    say: Any,
) -> pd.DataFrame:
    at = f"at the change of {objective(phi)}"
    lines = pd.DataFrame(across_layers(phi, text, found.deltas, say)).assign(how=at)
    if not effort.per_layer:
        return lines
    parts = []
    for layer in range(phi.layers + 1):
        alone = phi.select(layer=layer, output=phi.selection.layer_output)
        task = Task(within, 1, spots, effort.search, False, 0, seed, lambda stage, done: None)
        own = measure_at(alone, alone.at(text.X), text, task, time.monotonic()).per_word
        parts.append(own[["position", "word", "value"]].assign(layer=layer, how="searched"))
        say((layer + 1) / (phi.layers + 1))
    searched = pd.concat(parts).merge(
        lines.drop(columns=["word", "how"]), on=["position", "layer"], suffixes=("", "_at")
    )
    # The objective's own Δ is a candidate for every layer, too.
    searched["value"] = searched[["value", "value_at"]].max(axis=1)
    return searched[["position", "word", "layer", "value", "how"]].sort_values(["position", "layer"], ignore_index=True)


def _best_words(
    probe: TransformerProbe,
    text: Context,
    found: Sensitivity,
    words: Replacements,
    effort: Effort,
    seed: int,
    say: Any,
) -> dict[int, tuple[float, str, str]]:
    """The worst real word found at the most sensitive words: value, word, and how it was found."""
    order = found.per_word.sort_values("value", ascending=False, kind="stable")["position"].tolist()
    able = [(form, i) for form, members in words.fitting(text, order) for i in members]
    able.sort(key=lambda pair: order.index(pair[1]))
    best: dict[int, tuple[float, str, str]] = {}
    chosen = able[: effort.best_words]
    for count, (form, i) in enumerate(chosen):
        part = partial(lambda before, stage, done: say((before + done) / len(chosen)), count)
        listed = shortlist(probe, text.rows[i], form, effort.shortlist, seed=seed, progress=part)
        best[i] = (listed.value, listed.word, "exact" if listed.exhaustive else "shortlist")
    return best


def _notes(table: pd.DataFrame) -> Iterator[str]:
    known = int(table["sup"].notna().sum())
    if 0 < known < len(table):
        yield f"searched: {known} of {len(table)} words, those that a random word moves most"
    several = int((table["tokens"] > 1).sum())
    if several:
        yield f"{several} words have several tokens; only real words of as many tokens could take their place"
    searched = int((table["kind"] == "shortlist").sum())
    if searched:
        yield f"best word: the {searched} most sensitive words only, from a gradient shortlist"
