"""The sup of a trained model with its ceiling, and what random real words do at the same places."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from oneword.bounds.certificate import Certify
from oneword.maps.base import FeatureMap, Probe
from oneword.profile.random_words import random_words
from oneword.result import Sensitivity
from oneword.search.base import Search
from oneword.search.defaults import DefaultSearch
from oneword.sets.constraints import Constraint
from oneword.sets.vocabulary import Replacements
from oneword.sup.task import Task
from oneword.sup.verb import measure_at
from oneword.text.context import Context


def sup_and_words(
    phi: FeatureMap,
    probe: Probe,
    text: Context,
    spots: Sequence[int],
    words: Replacements,
    count: int,
    *,
    within: Constraint | None = None,
    search: Search = DefaultSearch(),  # noqa: B008
    seed: int = 0,
    say: Callable[[str, float], None] = lambda stage, done: None,
) -> tuple[Sensitivity, dict[int, dict[str, float]]]:
    """The sup at each of these words, and the changes that `count` random real words make there."""
    random = random_words(
        probe,
        text,
        spots,
        words,
        count,
        seed=seed,
        memory=search.memory,
        progress=lambda done: say("random words", done),
    )
    task = Task(within, 1, list(spots), search, Certify.plain(), 1, seed, lambda stage, done: say("search", done))
    return measure_at(phi, probe, text, task, time.monotonic()), random
