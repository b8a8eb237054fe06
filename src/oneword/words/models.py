"""Every word of a text under a trained model: its sup, its first order, real words beside it, every layer and head.

What is quick comes first, so that a person who waits sees the words in colour at once.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from oneword.bounds.certificate import Certify
from oneword.errors import RangeError
from oneword.maps.transformer import TransformerFeatures
from oneword.maps.transformer_probe import TransformerProbe
from oneword.progress import Progress, part
from oneword.report.words.table import Subject
from oneword.result import Sensitivity, numbers
from oneword.search.shortlist import KEPT, Listed, shortlist
from oneword.sets.constraints import Constraint
from oneword.sets.coverage import Coverage
from oneword.sets.vocabulary import Replacements
from oneword.sup.task import Task, by_size, rows_of
from oneword.sup.verb import measure_at
from oneword.text.context import Context
from oneword.words.effort import Effort
from oneword.words.layers import across_heads, across_layers, noise_floor
from oneword.words.measured import Measured, joint_row
from oneword.words.random_words import random_words
from oneword.words.request import Request

# The share of the whole that each stage takes, for a bar with the time left.
_STAGES = {"random words": 0.05, "first order": 0.2, "search": 0.5, "layers": 0.05, "real words": 0.2}


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


def measure_model(
    subject: ModelSubject,
    number: int,
    text: str | Context,
    request: Request,
    name: str,
    progress: Progress,
    show: Callable[[Measured], None],
) -> Measured:
    """One model at one text. `show` is given what is known after each stage; `name` is that of the result."""
    context = subject.read(text)
    spots = _spots(context, request)
    words = request.real_words(subject.phi.encoder)
    if request.words is not None and words is not None:  # a list of which nothing fits is refused first
        Coverage.of(words, [(context, {i: i for i in spots})]).check(words)
    probe = subject.phi.at(context.X)
    draft = _Draft(subject, number, context, spots, name)
    stages, effort, within = _Stages(progress), request.effort_for(context.n), request.model_constraint()
    with stages.next("random words") as stage:
        memory = effort.model_search.memory
        if words is not None:
            draft.random = random_words(
                probe, context, spots, words, effort.random_words, seed=request.seed, memory=memory, progress=stage
            )
    show(draft.measured())
    searched = draft.most_moved(effort.searched)
    with stages.next("first order") as stage:
        draft.first = _first_order(probe, context, searched, within, stage)
    show(draft.measured())
    with stages.next("search") as stage:
        task = Task(within, request.together, searched, effort.model_search, Certify.plain(), 1, request.seed, stage)
        draft.found = found = measure_at(subject.phi, probe, context, task, time.monotonic())
    show(draft.measured())
    with stages.next("layers") as stage:
        draft.layers = _layers(subject, context, found, searched, request, effort, stage)
        if request.together == 1:
            draft.heads = across_heads(subject.phi, context, found.position, found.delta)
        draft.noise = noise_floor(subject.phi, context.X)
    show(draft.measured())
    with stages.next("real words") as stage:
        if words is not None:
            draft.ranked = _best_words(probe, context, found, words, effort, request.seed, stage)
            draft.ranked = {i: _merged(listed, draft.random[i]) for i, listed in draft.ranked.items()}
    draft.about = {"seconds by stage": stages.seconds} | ({} if words is None else {"real words": words.describe()})
    return draft.measured()


def _spots(context: Context, request: Request) -> list[int]:
    """The words that may change; special tokens only where they are asked for."""
    if request.positions is None:
        return [i for i, special in enumerate(context.special) if request.special or not special]
    spots = sorted(set(request.positions))
    if not spots or not 0 <= spots[0] <= spots[-1] < len(context.words):
        raise RangeError(f"expected positions out of 0 … {len(context.words) - 1}, got {spots or 'none'}")
    return spots


@dataclass(eq=False)
class _Draft:
    """What is known so far."""

    subject: ModelSubject
    number: int
    text: Context
    spots: list[int]
    name: str
    random: dict[int, dict[str, float]] = field(default_factory=dict)
    first: dict[int, float] = field(default_factory=dict)
    found: Sensitivity | None = None
    layers: list[dict[str, Any]] = field(default_factory=list)
    heads: list[dict[str, Any]] = field(default_factory=list)
    noise: float = math.nan
    ranked: dict[int, Listed] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)

    def most_moved(self, count: int | None) -> list[int]:
        """The words that a random word moves most, in the order of the text; all unless there is a `count`."""
        order = sorted(self.spots, key=lambda i: -max(self.random.get(i, {}).values(), default=0.0))
        return sorted(order[:count])

    def measured(self) -> Measured:
        """Rows of every table, with gaps where a later stage will fill them."""
        found, by = self.found, self.subject.by
        here = {"text": self.number, "by": by}
        return Measured(
            words=list(self._rows()),
            replacements=list(self._ranks()),
            layers=[here | row for row in self.layers],
            heads=[here | row for row in self.heads],
            joint=[] if found is None or len(found.positions) == 1 else [joint_row(found, self.number, by, None)],
            subjects=[self._facts()],
            results={} if found is None else {self.name: found},
            notes=list(self._notes()),
        )

    def _facts(self) -> Subject:
        found = self.found
        return Subject(
            self.number,
            self.subject.by,
            self.subject.title,
            "model",
            self.subject.what,
            within="" if found is None else str(found.provenance["within"]["shown"]),
            certificate="" if found is None else found.certificate,
            noise=self.noise,
            about={} if found is None else {**found.provenance, **self.about},
        )

    def _rows(self) -> Iterator[dict[str, Any]]:
        found = self.found
        sups = {} if found is None else found.per_word.set_index("position").to_dict("index")
        for i in self.spots:
            start, end = self.text.spans[i] or (None, None)
            tried, best = self.random.get(i, {}), self._best(i)
            sup = sups.get(i, {"value": math.nan, "upper": math.nan, "baseline": math.nan})
            yield {
                **self._place(i),
                "start": start,
                "end": end,
                "tokens": len(self.text.rows[i]),
                "n": self.text.n,
                "value": sup["value"],
                "upper": sup["upper"],
                "upper_kind": None if found is None or found.upper is None else found.upper_kind,
                "first_order": self.first.get(i, math.nan),
                "random": sup["baseline"],
                "random_word": math.fsum(tried.values()) / len(tried) if tried else math.nan,
                "below_noise": sup["value"] <= self.noise,
                **best,
            }

    def _best(self, i: int) -> dict[str, Any]:
        """The best real word, where words were looked for: of the shortlist, or a random one that did more."""
        if i not in self.ranked:
            return {}
        listed = self.ranked[i]
        kind = "exact" if listed.exhaustive else "shortlist"
        return {"best_word": listed.value, "replacement": listed.word, "kind": kind, "candidates": listed.passes}

    def _ranks(self) -> Iterator[dict[str, Any]]:
        for i, listed in self.ranked.items():
            for rank, (word, value) in enumerate(listed.best, 1):
                yield {**self._place(i), "rank": rank, "replacement": word, "value": value, "distance": math.nan}

    def _place(self, i: int) -> dict[str, Any]:
        word = self.text.words[i]
        at = {"text": self.number, "window": 0, "position": i, "index": i, "word": word}
        return at | {"by": self.subject.by, "seed": None}

    def _notes(self) -> Iterator[str]:
        known, by = len(self.found.per_word) if self.found is not None else 0, self.subject.by
        if 0 < known < len(self.spots):
            yield (
                f"{by}: searched at {known} of {len(self.spots)} words, those that a random word moves most "
                "(effort thorough: all)"
            )
        several = sum(len(self.text.rows[i]) > 1 for i in self.spots)
        if several and self.random:
            yield f"{by}: {several} words have several tokens; only real words of as many tokens could replace them"
        listed = sum(not each.exhaustive for each in self.ranked.values())
        if listed:
            yield f"{by}: best word of the {listed} most sensitive words only, from a gradient shortlist"


@dataclass
class _Stages:
    """Progress of the whole out of the progress of its stages, and how long each took."""

    progress: Progress
    done: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def next(self, name: str) -> Iterator[Progress]:
        started, after = time.monotonic(), self.done + _STAGES[name]
        self.progress(name, self.done)
        yield part(self.progress, self.done, after, name)
        self.done = after
        self.seconds[name] = round(time.monotonic() - started, 3)
        self.progress(name, self.done)


def _first_order(
    probe: TransformerProbe, text: Context, spots: list[int], within: Constraint, progress: Progress
) -> dict[int, float]:
    """r‖J_i‖/‖φ‖ of each word: what its best change of length r would do if φ were linear."""
    found: dict[int, float] = {}
    for members in by_size(text, spots):
        rows = rows_of(text, probe, members)
        radius = within.reach(probe.X[rows]).square().sum(1).sqrt()  # of all rows of a word together
        found |= dict(
            zip(members, numbers(radius * probe.gains(rows, progress=progress).norm / probe.norm), strict=True)
        )
    return found


def _layers(
    subject: ModelSubject,
    text: Context,
    found: Sensitivity,
    spots: list[int],
    request: Request,
    effort: Effort,
    progress: Progress,
) -> list[dict[str, Any]]:
    """How far each word moves each layer: at the change found for the output, or searched for every layer."""
    phi = subject.phi
    rows = across_layers(phi, text, found.deltas, progress)
    if not effort.per_layer:
        return [row | {"how": f"at the change of {subject.what}"} for row in rows]
    at = {(row["position"], row["layer"]): row["value"] for row in rows}
    searched = []
    for layer in range(phi.layers + 1):
        alone = phi.select(layer=layer, output=phi.selection.layer_output)
        task = Task(
            request.model_constraint(), 1, spots, effort.model_search, False, 0, request.seed, part(progress, 0, 0)
        )
        own = measure_at(alone, alone.at(text.X), text, task, time.monotonic()).per_word
        for position, word, value in own[["position", "word", "value"]].itertuples(index=False):
            # The output's own Δ is a candidate for every layer, too.
            best = max(value, at[position, layer])
            searched.append({"position": position, "word": word, "layer": layer, "value": best, "how": "searched"})
        progress("layers", (layer + 1) / (phi.layers + 1))
    return sorted(searched, key=lambda row: (row["position"], row["layer"]))


def _best_words(
    probe: TransformerProbe,
    text: Context,
    found: Sensitivity,
    words: Replacements,
    effort: Effort,
    seed: int,
    progress: Progress,
) -> dict[int, Listed]:
    """The worst real words found at the most sensitive words, and how they were found."""
    order = found.per_word.sort_values("value", ascending=False, kind="stable")["position"].tolist()
    able = [(form, i) for form, members in words.fitting(text, order) for i in members]
    able.sort(key=lambda pair: order.index(pair[1]))
    best: dict[int, Listed] = {}
    chosen = able[: effort.best_words]
    for count, (form, i) in enumerate(chosen):
        here = part(progress, count / len(chosen), (count + 1) / len(chosen))
        best[i] = shortlist(probe, text.rows[i], form, effort.shortlist, seed=seed, progress=here)
    return best


def _merged(listed: Listed, random: dict[str, float]) -> Listed:
    """A random word may have done more than those of the shortlist."""
    both = {**random, **dict(listed.best)}
    return replace(listed, best=tuple(sorted(both.items(), key=lambda pair: -pair[1])[:KEPT]))
