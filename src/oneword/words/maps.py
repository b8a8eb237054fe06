"""Every word of a text under a map: S over the allowed changes, the best real word, and random ones beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from oneword.maps.base import FeatureMap
from oneword.maps.registry import draw, has_blocks, title
from oneword.progress import Progress
from oneword.random import stream
from oneword.report.words.table import Subject
from oneword.result import Sensitivity
from oneword.sets.constraints import Constraint
from oneword.sets.coverage import Coverage
from oneword.sets.vocabulary import Replacements, Vocabulary, Words
from oneword.sup.verb import sensitivity
from oneword.text.context import spread_positions
from oneword.words.effort import Effort
from oneword.words.measured import Measured, joint_row
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


def measure_map(
    subject: MapSubject,
    window: Window,
    seed: int,
    request: Request,
    words: Replacements | None,
    name: str,
    progress: Progress,
) -> Measured:
    """One map with one draw of its weights at one window; `name` is that of the result."""
    return _Job(subject, window, seed, request, words, request.effort_for(window.context.n)).run(name, progress)


@dataclass(frozen=True, eq=False)
class _Job:
    subject: MapSubject
    window: Window
    seed: int
    request: Request
    words: Replacements | None
    effort: Effort

    def run(self, name: str, progress: Progress) -> Measured:
        context, request = self.window.context, self.request
        phi = self.subject.phi(self.window, self.seed, self.effort)
        ball = sensitivity(
            phi,
            context,
            within=self._within,
            words=request.together,
            positions=self._positions,
            search=self.effort.search_of(self.subject.blocks),
            certify=self.effort.certify,
            baseline=self.effort.baseline,
            seed=self.seed,
            progress=progress,
        )
        exact, tried = self._real_words(phi, progress)
        seed = None if self.subject.own is not None else self.seed
        about = {"map": ball.provenance["map"]} if self.subject.own is not None else {}
        facts = Subject(
            self.window.text,
            self.subject.by,
            self.subject.title,
            "map",
            within=str(ball.provenance["within"]["shown"]),
            certificate=ball.certificate,
            about=about,
        )
        return Measured(
            words=list(self._rows(ball, exact, "exact" if tried is self.words else "sample", seed)),
            replacements=[] if exact is None else list(self._ranks(exact, seed)),
            joint=[joint_row(ball, self.window.text, self.subject.by, seed)] if request.together > 1 else [],
            subjects=[facts],
            results={name: ball},
        )

    @property
    def _within(self) -> Constraint | None:
        """The allowed changes; one's own map says which suit it, unless others were asked for."""
        if self.subject.own is not None and self.request.within is None:
            return None
        return self.request.map_constraint(self.window.context.d)

    def _rows(
        self, ball: Sensitivity, exact: Sensitivity | None, kind: str, seed: int | None
    ) -> Iterator[dict[str, Any]]:
        context = self.window.context
        best = {} if exact is None else exact.per_word.set_index("position").to_dict("index")
        tried = None if exact is None else exact.substitutions
        within = self._within
        radius = math.nan if within is None else float(within.reach(context.X).max()) / math.sqrt(context.d)
        for line in ball.per_word.to_dict("records"):
            i = int(line["position"])
            start, end = context.spans[i] or (None, None)
            word = best.get(i, {})
            row = {
                **self._place(i),
                "start": start,
                "end": end,
                "tokens": len(context.rows[i]),
                "n": context.n,
                "by": self.subject.by,
                "seed": seed,
                "value": line["value"],
                "upper": line["upper"],
                "upper_kind": ball.upper_kind if ball.upper is not None else None,
                "radius": radius,
                "random": line["baseline"],
                "below_noise": False,
            }
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

    def _ranks(self, exact: Sensitivity, seed: int | None) -> Iterator[dict[str, Any]]:
        tried = exact.substitutions
        assert tried is not None, "words were tried"
        for i in sorted(tried.values):
            about = {**self._place(i), "by": self.subject.by, "seed": seed}
            for rank, v in enumerate(tried.leading(i, self.request.top), 1):
                value, distance = float(tried.values[i][v]), float(tried.distances[i][v])
                new = {"rank": rank, "replacement": tried.names[i][v], "value": value, "distance": distance}
                yield about | new

    def _place(self, i: int) -> dict[str, Any]:
        window = self.window
        return {
            "text": window.text,
            "window": window.number,
            "position": i,
            "index": window.indices[i],
            "word": window.context.words[i],
        }

    @property
    def _positions(self) -> list[int]:
        able, most = self.window.positions, self.effort.block_words
        return spread_positions(able, most if self.subject.blocks and most is not None else len(able))

    def _real_words(self, phi: FeatureMap, progress: Progress) -> tuple[Sensitivity | None, Replacements | None]:
        words = self.words
        if words is None:
            return None, None
        # One's own map may need a forward pass for every word.
        most = self.effort.candidates_of(self.subject.blocks or self.subject.own is not None)
        if most is not None and isinstance(words, Vocabulary | Words):
            words = _some(words, most, self.request.seed)
        # A word of two tokens has no counterpart among words of one.
        context = self.window.context
        able = [i for _, members in words.fitting(context, self._positions) for i in members]
        if not able:
            return None, None
        found = sensitivity(phi, context, within=words, positions=able, baseline=0, progress=progress)
        return found, words


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
