"""Every word of a text under a map: S over the allowed changes, the best real word, and random ones beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import torch

from oneword.maps.base import FeatureMap, ModuleFeatures, blaming
from oneword.maps.registry import draw, has_blocks, title
from oneword.progress import Progress, shares
from oneword.random import stream
from oneword.report.words.table import Subject
from oneword.result import Sensitivity
from oneword.sets.constraints import Constraint
from oneword.sets.coverage import Coverage
from oneword.sets.vocabulary import Replacements, Vocabulary, Words
from oneword.sup.task import check_words
from oneword.sup.verb import sensitivity
from oneword.text.context import spread_positions
from oneword.words.cost import Costs, first_words, map_costs
from oneword.words.effort import Effort
from oneword.words.measured import Measured, Origin, Rows
from oneword.words.random_words import RandomWords
from oneword.words.request import Request
from oneword.words.windows import Window


@dataclass(frozen=True, eq=False)
class MapSubject:
    """A map: one of the registry, drawn anew for each seed and length, or one's own, as it is."""

    by: str
    title: str
    own: FeatureMap | Callable[[torch.Tensor], torch.Tensor] | None = None

    @classmethod
    def named(cls, name: str) -> MapSubject:
        """Raises `UnknownNameError` for a name that no map has."""
        return cls(name, title(name))

    @property
    def blocks(self) -> bool:
        """Whether a word costs as many numbers as there are neurons, as for rf and drf."""
        return self.own is None and has_blocks(self.by)

    def seeds(self, request: Request, count: int) -> list[int]:
        """One's own map has its weights; those of the registry are drawn from each seed."""
        return [request.seed] if self.own is not None else list(range(request.seed, request.seed + count))

    def phi(self, window: Window, seed: int, effort: Effort) -> Any:
        if self.own is not None:
            return self.own
        X, most = window.context.X, effort.neurons
        k = None if most is None else min(most, X.numel())
        return draw(self.by, window.context.n, window.context.d, k=k, seed=seed, dtype=X.dtype, device=X.device)


@dataclass(eq=False)
class MapJob:
    """One map with one draw of its weights at one window; `name` is that of the result.

    `first` gives a first answer, `run` the last one; `measured` are the rows that are known.
    """

    subject: MapSubject
    window: Window
    seed: int
    request: Request
    words: Replacements | None
    name: str
    keep: int = 0  # bytes of weights that may wait between the first answer and the last
    known: Measured = field(default_factory=Measured)
    _phi: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        check_words(self.request.together, len(self._positions))

    @property
    def costs(self) -> Costs:
        words = len(self._positions)
        return map_costs(self.window.context, words, self._effort, blocks=self.subject.blocks)

    def measured(self) -> Measured:
        return self.known

    def first(self, progress: Progress) -> None:
        """A first answer: what a random real word does in the place of each word."""
        subject, context = self.subject, self.window.context
        phi = subject.phi(self.window, self.seed, self._effort)
        phi = phi if isinstance(phi, FeatureMap) else ModuleFeatures(phi)
        tries = None
        with blaming(phi, context.X):
            probe = phi.at(context.X)
            able = [i for i in self._positions if set(context.rows[i]) <= set(probe.positions)]
            if self.words is not None:
                # Drawn apart from those of the search: they stand for all words until these were tried.
                tries = RandomWords(probe, context, able, self.words, 1, seed=self.request.seed)
                tries.run(None if subject.own is None else first_words(context.n, tries.left), progress)
        found, origin = {} if tries is None else tries.found, self._origin
        self.known = Measured(
            words=[
                origin.row(i, None, {}) | {"random_word": _mean(found.get(i, {})), "below_noise": False} for i in able
            ],
            subjects=[Subject(self.window.text, subject.by, subject.title, "map")],
            notes=[f"{subject.by}: a first answer, one random word in each place; the search goes on"],
        )
        if sum(w.numel() * w.element_size() for w in [*phi.parameters(), *phi.buffers()]) <= self.keep:
            self._phi = phi

    @property
    def _origin(self) -> Origin:
        return Origin(self.window, self.subject.by, self.seed if self.subject.own is None else None)

    def run(self, progress: Progress) -> Iterator[None]:
        """Measure it. There is nothing to look at before it is done."""
        progress = self._by_stage(progress)
        subject, window, effort = self.subject, self.window, self._effort
        phi = self._phi or subject.phi(window, self.seed, effort)
        self._phi = None
        ball = sensitivity(
            phi,
            window.context,
            within=self._within,
            words=self.request.together,
            positions=self._positions,
            search=effort.search_of(subject.blocks),
            certify=effort.certify,
            baseline=effort.baseline,
            seed=self.seed,
            progress=progress,
        )
        exact, kind = self._real_words(phi, progress)
        origin, drawn = self._origin, subject.own is None
        within, about = str(ball.provenance["within"]["shown"]), {} if drawn else {"map": ball.provenance["map"]}
        self.known = Measured(
            words=list(self._rows(origin, ball, exact, kind)),
            replacements=[] if exact is None else self._ranks(origin, exact),
            joint=[origin.joint(ball)] if self.request.together > 1 else [],
            subjects=[
                Subject(window.text, subject.by, subject.title, "map", "", within, ball.certificate, about=about)
            ],
            results=[(self.name, ball)],
        )
        yield

    @property
    def _effort(self) -> Effort:
        return self.request.effort_for(self.window.context.n)

    @property
    def _within(self) -> Constraint | None:
        """The allowed changes; one's own map says which suit it, unless others were asked for."""
        if self.subject.own is not None and self.request.within is None:
            return None
        return self.request.map_constraint(self.window.context.d)

    def _rows(
        self, origin: Origin, ball: Sensitivity, exact: Sensitivity | None, kind: str
    ) -> Iterator[dict[str, Any]]:
        context, within = self.window.context, self._within
        best = {} if exact is None else exact.per_word.set_index("position").to_dict("index")
        tried = None if exact is None else exact.substitutions
        radius = math.nan if within is None else float(within.reach(context.X).max()) / math.sqrt(context.d)
        for line in ball.per_word.to_dict("records"):
            i = int(line["position"])
            row = origin.row(i, ball, line) | {"radius": radius, "below_noise": False}
            word = best.get(i, {})
            if word.get("replacement") is not None and tried is not None:
                row |= {
                    "best_word": word["value"],
                    "replacement": word["replacement"],
                    "distance": word["distance"],
                    "kind": kind,
                    "candidates": len(tried.values[i]),
                    "random_word": word["baseline"],
                    "random_distance": float(tried.distances[i].mean()),
                }
            yield row

    def _ranks(self, origin: Origin, exact: Sensitivity) -> Rows:
        places = sorted(exact.per_word["position"].tolist())
        tops = {i: exact.replacements(i, self.request.top).itertuples(index=False, name=None) for i in places}
        return [row for i, top in tops.items() for row in origin.ranks(i, top)]

    @property
    def _positions(self) -> list[int]:
        able, most = self.window.positions, self._effort.block_words
        return spread_positions(able, most if self.subject.blocks and most is not None else len(able))

    def _by_stage(self, progress: Progress) -> Progress:
        """The stages of a map, each of which reports from 0 to 1, as shares of the whole."""
        costs = self.costs
        names = [name for name in costs if name != "first"]
        heard = dict(zip(names, shares(progress, [costs[name] for name in names]), strict=True))
        return lambda stage, done: heard.get(stage, heard[names[-1]])(stage, done)

    def _real_words(self, phi: FeatureMap, progress: Progress) -> tuple[Sensitivity | None, str]:
        """What real words do, and whether all of them were tried ("exact") or some ("sample")."""
        words, context = self.words, self.window.context
        # One's own map may need a forward pass for every word.
        most = self._effort.candidates_of(self.subject.blocks or self.subject.own is not None)
        if most is not None and isinstance(words, Vocabulary | Words):
            words = _some(words, most, self.request.seed)
        # A word of two tokens has no counterpart among words of one.
        fitting = () if words is None else words.fitting(context, self._positions)
        able = [i for _, members in fitting for i in members]
        if not able:
            return None, ""
        found = sensitivity(phi, context, within=words, positions=able, baseline=0, progress=progress)
        return found, "exact" if words is self.words else "sample"


def _mean(tried: Mapping[str, float]) -> float | None:
    return math.fsum(tried.values()) / len(tried) if tried else None


@lru_cache(maxsize=4)  # every seed of the weights meets the same words
def _some(words: Vocabulary | Words, most: int, seed: int) -> Vocabulary | Words:
    """Random ones of these words; themselves if they are no more."""
    if words.count <= most:
        return words
    names = [name for group in words.names.values() for name in group]
    chosen = [names[i] for i in sorted(stream(seed, "candidates").choice(len(names), size=most, replace=False))]
    if isinstance(words, Vocabulary):
        return Vocabulary.of(words.encoder, among=chosen)
    return Words.of(words.encoder, chosen)


def covered(windows: Sequence[Window], words: Replacements) -> Coverage:
    """Which real words fit where; a list of one's own of which nothing fits is refused, as in the library."""
    parts = [(window.context, {i: window.indices[i] for i in window.positions}) for window in windows]
    found = Coverage.of(words, parts)
    return found.check(words) if isinstance(words, Words) else found


def notes(
    windows: Sequence[Window], maps: Sequence[MapSubject], request: Request, words: Replacements | None
) -> Iterator[str]:
    """What was left out; the longest window speaks for all."""
    window = max(windows, key=lambda each: each.context.n)
    context, names = window.context, [subject.by for subject in maps if subject.own is None]
    effort = request.effort_for(context.n)
    if len(windows) > len({each.text for each in windows}):
        yield f"longer texts were measured in windows of at most {request.window} tokens, each by itself"
    yield from effort.notes(names, context.n, context.d, len(window.positions))
    if isinstance(words, Vocabulary | Words):
        yield from effort.notes_on_words(names, words.count)
    if context.X.dtype == torch.float32:
        yield "maps: searched in float32, certified in float64"
