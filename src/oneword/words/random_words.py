"""Random real words in the place of each word, beside the worst change that a search finds there."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

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


class RandomWords:
    """Random real words in the place of each word: `count` a position, none where no word has as many tokens.

    They are tried in batches, whose order changes no number, so that some may be tried before the others.
    """

    def __init__(
        self,
        probe: Probe,
        text: Context,
        positions: Sequence[int],
        words: Replacements,
        count: int,
        *,
        seed: int = 0,
        memory: int = 1 << 30,
    ) -> None:
        self.probe, self.positions = probe, positions
        self._rows: list[tuple[int, ...]] = []
        self._new: list[Tensor] = []
        self._owner: list[tuple[int, str]] = []
        for form, members in words.written(text, positions):
            for i in members:
                own = text.rows[i]
                names = form.names.get(len(own), ())
                if not names or not count:
                    continue
                size = min(count, len(names))
                drawn = stream(seed, "random words", i).choice(len(names), size=size, replace=False)
                self._new += form.rows(torch.tensor(own), probe.d, probe.X.dtype, torch.from_numpy(drawn)).to(
                    probe.X.device
                )
                self._rows += [own] * size
                self._owner += [(i, names[k]) for k in drawn]
        self._batches: list[list[int]] = []
        for size in sorted({len(own) for own in self._rows}):  # candidates of one batch change as many rows
            some = [k for k, own in enumerate(self._rows) if len(own) == size]
            at_once = batch_size(probe.bytes_per_candidate(size), memory)
            self._batches += [some[first : first + at_once] for first in range(0, len(some), at_once)]
        self._left = list(self._batches)
        self._values: dict[int, float] = {}

    @property
    def left(self) -> int:
        """How many words have not been tried yet."""
        return sum(map(len, self._left))

    @property
    def found(self) -> dict[int, dict[str, float]]:
        """Relative changes by the words tried so far, by position and word."""
        found: dict[int, dict[str, float]] = {i: {} for i in self.positions}
        for k in (k for batch in self._batches for k in batch if k in self._values):
            i, name = self._owner[k]
            found[i][name] = self._values[k]
        return found

    def first(self, rank: Mapping[int, float]) -> None:
        """Have the batches tried first that hold a position of high rank."""
        self._left.sort(key=lambda batch: -max(rank.get(self._owner[k][0], 0.0) for k in batch))

    def run(self, most: int | None = None, progress: Progress = silent) -> None:
        """Try those that are left: batches of about `most` words in all, at least one batch; None: all."""
        asked = self.left if most is None else min(most, self.left)
        done = 0
        while self._left and done < asked:
            batch = self._left.pop(0)
            y = torch.stack([self._new[k] for k in batch])
            at = torch.tensor([self._rows[k] for k in batch], device=self.probe.X.device)
            with torch.no_grad():
                change2 = self.probe.change2(y, at)
            for k, value in zip(batch, change2.tolist(), strict=True):
                self._values[k] = math.sqrt(max(value, 0.0)) / self.probe.norm
            done += len(batch)
            progress("random words", min(1.0, done / asked))


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
    random = RandomWords(probe, text, spots, words, count, seed=seed, memory=search.memory)
    random.run(progress=progress)
    task = Task(within, 1, list(spots), search, Certify.plain(), 1, seed, progress)
    return measure_at(phi, probe, text, task, time.monotonic()), random.found
