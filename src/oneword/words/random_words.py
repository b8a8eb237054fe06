"""Random real words in the place of each word, beside the worst change that a search finds there."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import torch
from torch import Tensor

from oneword.bounds.certificate import Certify
from oneword.maps.base import FeatureMap, Probe
from oneword.memory import batch_size
from oneword.progress import Progress, silent
from oneword.random import stream
from oneword.result import Sensitivity
from oneword.search.base import Search
from oneword.search.defaults import DefaultSearch
from oneword.sets.constraints import Constraint
from oneword.sets.vocabulary import Replacements
from oneword.sup.task import Task
from oneword.sup.verb import measure_at
from oneword.text.context import Context


def random_words(
    probe: Probe,
    text: Context,
    positions: Sequence[int],
    words: Replacements,
    count: int,
    *,
    seed: int = 0,
    memory: int = 1 << 30,
    progress: Progress = silent,
) -> dict[int, dict[str, float]]:
    """Relative changes by `count` random words at each position, by word; none where no word has as many tokens."""
    rows: list[tuple[int, ...]] = []
    new: list[Tensor] = []
    owner: list[tuple[int, str]] = []
    for form, members in words.written(text, positions):
        for i in members:
            own = text.rows[i]
            names = form.names.get(len(own), ())
            if not names or not count:
                continue
            size = min(count, len(names))
            drawn = stream(seed, "random words", i).choice(len(names), size=size, replace=False)
            new += form.rows(torch.tensor(own), probe.d, probe.X.dtype, torch.from_numpy(drawn)).to(probe.X.device)
            rows += [own] * size
            owner += [(i, names[k]) for k in drawn]
    found: dict[int, dict[str, float]] = {i: {} for i in positions}
    for size in sorted({len(own) for own in rows}):  # candidates of one batch change as many rows
        some = [k for k, own in enumerate(rows) if len(own) == size]
        at_once = batch_size(probe.bytes_per_candidate(size), memory)
        for first in range(0, len(some), at_once):
            part = some[first : first + at_once]
            y = torch.stack([new[k] for k in part])
            at = torch.tensor([rows[k] for k in part], device=probe.X.device)
            with torch.no_grad():
                change2 = probe.change2(y, at)
            for k, value in zip(part, change2.tolist(), strict=True):
                i, name = owner[k]
                found[i][name] = math.sqrt(max(value, 0.0)) / probe.norm
            progress("random words", (first + len(part)) / len(some))
    return found


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
    progress: Progress = silent,
) -> tuple[Sensitivity, dict[int, dict[str, float]]]:
    """The sup at each of these words, and the changes that `count` random real words make there."""
    random = random_words(probe, text, spots, words, count, seed=seed, memory=search.memory, progress=progress)
    task = Task(within, 1, list(spots), search, Certify.plain(), 1, seed, progress)
    return measure_at(phi, probe, text, task, time.monotonic()), random
