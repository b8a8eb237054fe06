"""Ask every word of every text: S over the ball, S over real words, and a random real word beside them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pandas as pd
import torch

from oneword.maps import registry
from oneword.maps.base import FeatureMap
from oneword.progress import Progress
from oneword.random import stream
from oneword.result import Sensitivity
from oneword.sets import coverage
from oneword.sets.coverage import Coverage
from oneword.sets.vocabulary import Replacements, Vocabulary, Words
from oneword.sup.verb import sensitivity
from oneword.survey.effort import Effort
from oneword.survey.question import Question
from oneword.survey.windows import Window, windows_of
from oneword.text.context import spread_positions
from oneword.text.encoders import Encoder


@dataclass(frozen=True, eq=False)
class Survey:
    """What was found.

    `words` is tidy: one line a text, word, map and seed.

    | column | meaning |
    |---|---|
    | `text`, `window`, `position` | which text, which window of it, which word of the window (as in the library) |
    | `index`, `word`, `start`, `end` | position in the whole text (# and --position), the word, where it stands |
    | `tokens`, `n` | tokens of the word, and of its window |
    | `S_ball`, `upper` | sup over the ball: searched (lower bound), certified (upper bound) |
    | `radius`, `random_ball` | the ball's ‖Δ‖/√d, and the mean over random changes of that size |
    | `S_word`, `replacement`, `distance` | the best real word, which it is, and its ‖Δ‖/√d |
    | `kind`, `candidates` | of S_word: exact over the words that fit, or a lower bound from some; how many were tried |
    | `random_word`, `random_distance` | mean over the candidates, and their mean ‖Δ‖/√d |

    `replacements` lists the best real words: one line a text, word, map, seed and rank. `results` are the measurements
    of S_ball themselves, by name. `notes` say what the numbers are and what was left out, `about["tried"]` which
    (position, word) pairs were tried, which words were not and why.
    """

    texts: tuple[str, ...]
    words: pd.DataFrame
    replacements: pd.DataFrame
    results: dict[str, Sensitivity]
    notes: tuple[str, ...]
    about: dict[str, Any]


def survey(
    texts: Sequence[str], encoder: Encoder, question: Question, report: Progress = lambda stage, done: None
) -> Survey:
    """Every word of every text that may change, under every map and seed."""
    windows = windows_of(texts, encoder, question)
    covered = _covered(windows, question)
    longest = max(window.context.n for window in windows)
    seeds = question.seeds or Effort.seeds(longest)
    question = replace(question, seeds=seeds)
    jobs = [
        (window, name, seed)
        for window in windows
        for name in question.maps
        for seed in range(question.seed, question.seed + seeds)
    ]
    lines: list[dict[str, Any]] = []
    ranks: list[dict[str, Any]] = []
    results: dict[str, Sensitivity] = {}
    for count, (window, name, seed) in enumerate(jobs):
        where = f"-text{window.text}" if len(texts) > 1 else ""
        part = f"-window{window.number}" if len(windows) > len(texts) else ""
        draw = f"-seed{seed}" if seeds > 1 else ""
        say = _onward(report, name + f"{where}{part}{draw}".replace("-", " "), count, len(jobs))
        found = _Job(window, name, seed, question).run(say)
        lines += found.lines()
        ranks += found.ranks()
        results[f"{name}{where}{part}{draw}"] = found.ball
    first = next(iter(results.values())).provenance
    about = {
        "encoder": encoder.describe(),
        "maps": list(question.maps),
        "seeds": list(range(question.seed, question.seed + seeds)),
        "within": question.within.describe(),
        "words": None if question.words is None else question.words.describe(),
        "tried": None if covered is None else covered.to_dict() | {"pairs": _pairs(lines, seeds)},
        "texts": len(texts),
        "windows": len(windows),
        "tokens at once, at most": longest,
        "special tokens": list(dict.fromkeys(_added(windows))),
        "special tokens change": any(window.context.special[i] for window in windows for i in window.positions),
        "d": first["d"],
        "dtype": first["dtype"],
        "device": first["device"],
        "versions": first["versions"],
    }
    table = pd.DataFrame(lines).astype({"index": "Int64", "start": "Int64", "end": "Int64", "candidates": "Int64"})
    tops = pd.DataFrame(ranks, columns=RANKED)
    notes = (*_notes(windows, question), *(() if covered is None else coverage.lines(covered.to_dict())))
    return Survey(tuple(texts), table, tops, results, notes, about)


RANKED = ["text", "window", "position", "index", "word", "map", "seed", "rank", "replacement", "value", "distance"]


def _covered(windows: Sequence[Window], question: Question) -> Coverage | None:
    """Which real words fit where; a list of one's own of which nothing fits is refused, as in the library."""
    if question.words is None:
        return None
    parts = [(window.context, {i: window.indices[i] for i in window.positions}) for window in windows]
    found = Coverage.of(question.words, parts)
    return found.check(question.words) if isinstance(question.words, Words) else found


def _pairs(lines: Sequence[dict[str, Any]], seeds: int) -> dict[str, int]:
    """(position, word) pairs tried, by map; every seed of the weights tries the same ones."""
    found: dict[str, int] = {}
    for line in lines:
        found[line["map"]] = found.get(line["map"], 0) + (line["candidates"] or 0)
    return {name: count // seeds for name, count in found.items()}


def _onward(report: Progress, title: str, job: int, jobs: int) -> Progress:
    """The progress of one job as a part of all; it never goes back, though stages begin anew."""
    furthest = 0.0

    def say(stage: str, done: float) -> None:
        nonlocal furthest
        furthest = max(furthest, {"search": 0.6 * done, "certificate": 0.6 + 0.1 * done}.get(stage, 0.7 + 0.3 * done))
        report(title, (job + min(furthest, 1.0)) / jobs)

    return say


@dataclass(frozen=True, eq=False)
class _Found:
    """Both measurements of one window; `exact` is None where no real word was tried."""

    job: _Job
    ball: Sensitivity
    exact: Sensitivity | None
    tried: Replacements | None

    def lines(self) -> Iterator[dict[str, Any]]:
        job, context = self.job, self.job.window.context
        best = {} if self.exact is None else self.exact.per_word.set_index("position").to_dict("index")
        tried = None if self.exact is None else self.exact.substitutions
        radius = float(job.question.within.reach(context.X).max()) / math.sqrt(context.d)
        for line in self.ball.per_word.to_dict("records"):
            i = int(line["position"])
            start, end = context.spans[i] or (None, None)
            word = best.get(i, {})
            named = word.get("replacement") is not None
            yield {
                **self._place(i),
                "start": start,
                "end": end,
                "tokens": len(context.rows[i]),
                "n": context.n,
                "map": job.name,
                "seed": job.seed,
                "S_ball": line["value"],
                "upper": line["upper"],
                "radius": radius,
                "random_ball": line["baseline"],
                "S_word": word["value"] if named else math.nan,
                "replacement": word.get("replacement"),
                "distance": word["distance"] if named else math.nan,
                "kind": self._kind if named else None,
                "candidates": len(tried.values[i]) if named and tried else None,
                "random_word": word["baseline"] if named else math.nan,
                "random_distance": float(tried.distances[i].mean()) if named and tried else math.nan,
            }

    def ranks(self) -> Iterator[dict[str, Any]]:
        tried = None if self.exact is None else self.exact.substitutions
        if tried is None:
            return
        for i in sorted(tried.values):
            about = {**self._place(i), "map": self.job.name, "seed": self.job.seed}
            for rank, v in enumerate(tried.leading(i, self.job.question.top), 1):
                value, distance = float(tried.values[i][v]), float(tried.distances[i][v])
                new = {"rank": rank, "replacement": tried.names[i][v], "value": value, "distance": distance}
                yield about | new

    @property
    def _kind(self) -> str:
        return "exact" if self.tried is self.job.question.words else "lower bound"

    def _place(self, i: int) -> dict[str, Any]:
        window = self.job.window
        return {
            "text": window.text,
            "window": window.number,
            "position": i,
            "index": window.indices[i],
            "word": window.context.words[i],
        }


@dataclass(frozen=True, eq=False)
class _Job:
    """One map with one draw of its weights at one window."""

    window: Window
    name: str
    seed: int
    question: Question

    def run(self, say: Progress) -> _Found:
        context, question = self.window.context, self.question
        phi = registry.draw(
            self.name,
            context.n,
            context.d,
            k=self._neurons,
            seed=self.seed,
            dtype=context.X.dtype,
            device=context.X.device,
        )
        ball = sensitivity(
            phi,
            context,
            within=question.within,
            positions=self._positions,
            search=self.effort.search_of(self.name),
            certify=self.effort.certify,
            baseline=self.effort.baseline,
            seed=self.seed,
            progress=say,
        )
        exact, tried = self._among_words(phi, say)
        return _Found(self, ball, exact, tried)

    @property
    def effort(self) -> Effort:
        return self.question.effort_for(self.window.context.n)

    @property
    def _neurons(self) -> int | None:
        most = self.effort.neurons
        return None if most is None else min(most, self.window.context.n * self.window.context.d)

    @property
    def _positions(self) -> list[int]:
        able, most = self.window.positions, self.effort.block_words
        return spread_positions(able, most if registry.has_blocks(self.name) and most is not None else len(able))

    def _among_words(self, phi: FeatureMap, say: Progress) -> tuple[Sensitivity | None, Replacements | None]:
        words = self.question.words
        if words is None:
            return None, None
        most = self.effort.candidates_of(self.name)
        if most is not None and isinstance(words, Vocabulary | Words):
            words = _some(words, most, self.question.seed)
        # A word of two tokens has no counterpart among words of one.
        context = self.window.context
        able = [i for _, members in words.fitting(context, self._positions) for i in members]
        if not able:
            return None, None
        found = sensitivity(phi, context, within=words, positions=able, baseline=0, progress=say)
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


def _added(windows: Sequence[Window]) -> Iterator[str]:
    """The words that the tokenizer put in."""
    for window in windows:
        yield from (word for word, added in zip(window.context.words, window.context.special, strict=True) if added)


def _notes(windows: Sequence[Window], question: Question) -> Iterator[str]:
    """What was left out; the longest window speaks for all."""
    window = max(windows, key=lambda each: each.context.n)
    context = window.context
    effort = question.effort_for(context.n)
    if len(windows) > len({each.text for each in windows}):
        yield f"longer texts were measured in windows of at most {question.window} tokens, each by itself"
    yield from effort.notes(question.maps, context.n, context.d, len(window.positions))
    if isinstance(question.words, Vocabulary | Words):
        yield from effort.notes_on_words(question.maps, question.words.count)
    if context.X.dtype == torch.float32:
        yield "searched in float32, certified in float64"
