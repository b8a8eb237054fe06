"""Every word of a text under a trained model: its sup, its first order, real words beside it, every layer and head.

A first answer comes soon, from a few gradients and random words; then one stage after the other, the quickest first.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from oneword.bounds.certificate import Certify
from oneword.errors import RangeError
from oneword.maps.jacobian import ESTIMATED, estimated_gains2
from oneword.maps.sinks import sinks_said, word_sinks
from oneword.maps.transformer import TransformerFeatures
from oneword.maps.transformer_probe import TransformerProbe
from oneword.progress import Progress, part, shares
from oneword.report.words.table import Subject
from oneword.result import Sensitivity, numbers
from oneword.search.shortlist import KEPT, Listed, shortlist
from oneword.sets.coverage import Coverage
from oneword.sets.vocabulary import Replacements
from oneword.sup.task import Task, by_size, check_words, rows_of
from oneword.sup.verb import measure_at
from oneword.text.context import Context
from oneword.words.cost import Costs, first_words, model_costs
from oneword.words.effort import Effort
from oneword.words.layers import across_heads, across_layers, noise_floor, row_norms
from oneword.words.measured import Measured, Origin, Rows
from oneword.words.random_words import RandomWords
from oneword.words.request import Request
from oneword.words.windows import Window

LOOKS = 4  # at what random words did, while they are tried


@dataclass(frozen=True, eq=False)
class ModelSubject:
    """A trained model."""

    phi: TransformerFeatures
    by: str = ""
    title: str = ""

    def __post_init__(self) -> None:
        for name in ("by", "title"):
            object.__setattr__(self, name, getattr(self, name) or self.phi.name)

    @property
    def what(self) -> str:
        """Which of the model's outputs is measured, in words."""
        chosen = self.phi.selection
        if chosen.module is not None:
            return f"module {chosen.module}"
        head = "" if chosen.head is None else f", head {chosen.head}"
        return f"{chosen.output.name}{head}" + (f", layer {chosen.layer}" if chosen.output.has_layers else "")

    def read(self, text: str | Context) -> Context:
        return self.phi.encode(text) if isinstance(text, str) else self.phi.read(text)


def model_job(subject: ModelSubject, number: int, text: str | Context, request: Request, name: str) -> ModelJob:
    """One model at one text; `name` is that of the result."""
    context = subject.read(text)
    spots = _spots(context, request)
    words = request.real_words(subject.phi.encoder)
    if request.words is not None and words is not None:  # a list of which nothing fits is refused first
        Coverage.of(words, [(context, {i: i for i in spots})]).check(words)
    window = Window(number, 0, context, tuple(range(len(context.words))), tuple(spots))
    return ModelJob(subject, window, request, words, request.effort_for(context.n), subject.phi.at(context.X), name)


def _spots(context: Context, request: Request) -> list[int]:
    """The words that may change; special tokens only where they are asked for."""
    if request.positions is None:
        return [i for i, special in enumerate(context.special) if request.special or not special]
    spots = sorted(set(request.positions))
    if not spots or not 0 <= spots[0] <= spots[-1] < len(context.words):
        raise RangeError(f"expected positions out of 0 … {len(context.words) - 1}, got {spots or 'none'}")
    return spots


@dataclass(eq=False)
class ModelJob:
    """One measurement, and what is known so far.

    `first` gives a first answer, `run` goes on to the last one; `measured` are the rows that are known.
    """

    subject: ModelSubject
    window: Window
    request: Request
    words: Replacements | None
    effort: Effort
    probe: TransformerProbe
    name: str
    estimated: dict[int, float] = field(default_factory=dict)  # first order, from a few gradients
    gains: dict[int, float] = field(default_factory=dict)  # first order
    found: Sensitivity | None = None
    layers: Rows = field(default_factory=list)
    heads: Rows = field(default_factory=list)
    norms: Float[np.ndarray, "layers n"] | None = None
    noise: float = math.nan
    ranked: dict[int, Listed] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.text, self.within = self.window.context, self.request.model_constraint()
        self.origin = Origin(self.window, self.subject.by)
        check_words(self.request.together, min(len(self.window.positions), self.effort.searched or math.inf))

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

    @cached_property
    def costs(self) -> Costs:
        tries = 0 if self.tries is None else self.tries.left
        return model_costs(self.probe, self.text, list(self.window.positions), self.effort, tries)

    def first(self, progress: Progress) -> None:
        """A first answer: first order at every word, estimated, and random words where it is largest."""
        gradients, words = shares(progress, [1 + ESTIMATED, first_words(self.probe.n, len(self.window.positions))])
        gains2 = estimated_gains2(self.subject.phi, self.probe.X, progress=gradients)
        for i in self.window.positions:
            rows = list(self.text.rows[i])
            gain = math.sqrt(float(gains2[rows].sum())) / self.probe.norm
            self.estimated[i] = float(self._radius(torch.tensor([rows]))) * gain
        if self.tries is not None:
            self.tries.first(self.estimated)
            self.tries.run(first_words(self.probe.n, self.tries.left), words)

    def run(self, progress: Progress) -> Iterator[None]:
        """What is left, stage by stage; each pause is a place to look at what is known."""
        stages: dict[str, Callable[[Progress], Iterator[None]]] = {
            "random words": self._random_words,
            "first order": self._first_order,
            "search": self._search,
            "layers": self._layers,
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
        """The words that a random word moves most, in the order of the text; all unless the effort has a number."""
        random = self.random
        most = {i: max(random.get(i, {}).values(), default=0.0) for i in self.window.positions}
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
        self.found = measure_at(self.subject.phi, self.probe, self.text, task, time.monotonic())
        yield from ()

    def _layers(self, progress: Progress) -> Iterator[None]:
        assert self.found is not None, "layers come after the search"
        phi, found = self.subject.phi, self.found
        rows = across_layers(phi, self.text, found.deltas, progress)
        self.layers = (
            self._searched_layers(rows, progress)
            if self.effort.per_layer
            else [row | {"how": f"at the change of {self.subject.what}"} for row in rows]
        )
        self.norms = row_norms(phi, self.text.X)
        sinks = word_sinks(self.text, self.norms)
        self.layers = [row | {"sink": bool(sinks[row["layer"], row["position"]])} for row in self.layers]
        if self.request.together == 1:
            self.heads = across_heads(phi, self.text, found.position, found.delta)
        self.noise = noise_floor(phi, self.text.X)
        yield from ()

    def _searched_layers(self, rows: Rows, progress: Progress) -> Rows:
        """How far each word moves each layer, searched for every layer; `rows` hold what the output's change does."""
        phi, search, seed = self.subject.phi, self.effort.model_search, self.request.seed
        at = {(row["position"], row["layer"]): row["value"] for row in rows}
        searched = []
        for layer in range(phi.layers + 1):
            alone = phi.select(layer=layer, output=phi.selection.layer_output)
            task = Task(self.within, 1, self.searched, search, False, 0, seed, part(progress, 0, 0))
            own = measure_at(alone, alone.at(self.text.X), self.text, task, time.monotonic()).per_word
            for position, word, value in own[["position", "word", "value"]].itertuples(index=False):
                # The output's own Δ is a candidate for every layer, too.
                best = max(value, at[position, layer])
                searched.append({"position": position, "word": word, "layer": layer, "value": best, "how": "searched"})
            progress("layers", (layer + 1) / (phi.layers + 1))
        return sorted(searched, key=lambda row: (row["position"], row["layer"]))

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
            self.ranked[i] = replace(listed, best=tuple(sorted(both.items(), key=lambda pair: -pair[1])[:KEPT]))
            if count + 1 < len(chosen):
                yield

    # Rows

    def measured(self) -> Measured:
        """Rows of every table, with gaps where a later stage will fill them."""
        found, subject = self.found, self.subject
        here = {"text": self.window.text, "by": subject.by}
        facts = Subject(self.window.text, subject.by, subject.title, "model", subject.what, noise=self.noise)
        if found is not None:
            within, about = str(found.provenance["within"]["shown"]), {**found.provenance, **self.about}
            facts = replace(facts, within=within, certificate=found.certificate, about=about)
        ranks = {i: [(*each, math.nan) for each in listed.best] for i, listed in self.ranked.items()}
        return Measured(
            words=list(self._rows()),
            replacements=[row for i, best in ranks.items() for row in self.origin.ranks(i, best)],
            layers=[here | row for row in self.layers],
            heads=[here | row for row in self.heads],
            joint=[] if found is None or len(found.positions) == 1 else [self.origin.joint(found)],
            subjects=[facts],
            results=[] if found is None else [(self.name, found)],
            notes=list(self._notes()),
        )

    def _rows(self) -> Iterator[dict[str, Any]]:
        found, random = self.found, self.random
        sups = {} if found is None else found.per_word.set_index("position").to_dict("index")
        for i in self.window.positions:
            tried, sup = random.get(i, {}), sups.get(i, {})
            row = self.origin.row(i, found, sup) | {
                "first_order": (self.gains or self.estimated).get(i),
                "random_word": math.fsum(tried.values()) / len(tried) if tried else None,
                "below_noise": sup.get("value", math.nan) <= self.noise,
            }
            if i in self.ranked:  # the best real word: of the shortlist, or a random one that did more
                listed = self.ranked[i]
                kind = "exact" if listed.exhaustive else "shortlist"
                best = {"best_word": listed.value, "replacement": listed.word, "kind": kind}
                row |= best | {"candidates": listed.passes}
            yield row

    def _notes(self) -> Iterator[str]:
        known, by, spots = len(self.found.per_word) if self.found else 0, self.subject.by, self.window.positions
        if self.found is None:
            tried = f"random words were tried at {sum(map(bool, self.random.values()))} of {len(spots)} words"
            order = "" if self.gains or not self.estimated else f"first order is estimated from {ESTIMATED} gradients, "
            yield f"{by}: a first answer: {order}{tried}; the search goes on"
        if 0 < known < len(spots):
            yield (
                f"{by}: searched at {known} of {len(spots)} words, those that a random word moves most "
                "(effort thorough: all)"
            )
        sinks = "" if self.norms is None else sinks_said([self.text], [self.norms])
        if sinks:
            chosen = self.subject.phi.selection
            alike = chosen.module is None and chosen.output.unit_rows
            remedy = "" if alike else "; the output rows counts every word alike"
            yield f"{by}: attention sinks, whose rows outweigh all others: {sinks}{remedy}"
        several = sum(len(self.text.rows[i]) > 1 for i in spots)
        if several and self.words is not None:
            yield f"{by}: {several} words have several tokens; only real words of as many tokens could replace them"
        listed = sum(not each.exhaustive for each in self.ranked.values())
        if listed:
            yield f"{by}: best word of the {listed} most sensitive words only, from a gradient shortlist"
