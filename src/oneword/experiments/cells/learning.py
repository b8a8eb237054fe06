"""Learning a one-word change: a pre-trained model learns new texts, and one word of each is changed (T4, T5)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from oneword.errors import RangeError
from oneword.experiments import costs
from oneword.experiments.cell import TextCell, choice, real, several, whole
from oneword.experiments.draws import draw_labelled, draw_maps, trial_seed
from oneword.learning import Interpolator, NewSample, Objective, Training, WordChange
from oneword.learning.new_sample import SearchOptions
from oneword.random import stream

LOWEST = "lowest-alignment"


@dataclass(frozen=True, kw_only=True)
class LearningCell(TextCell):
    """One model and some new samples, each learnt alone.

    | field | meaning |
    |---|---|
    | `N` | texts to pre-train on |
    | `samples` | new texts; each has rows for every training and objective |
    | `trainings` | "fine-tuned" (T4), "retrained" (T5) |
    | `objectives` | by what Δ is chosen: "loss", "features", "alignment"; and "lowest-alignment", the least F |
    | `frontier` | limits g on γ, for the least error within each; none by default |
    | `positions` | "all" may change, or so many that are drawn for each sample |
    """

    kind: ClassVar[str] = "learning"

    N: int
    samples: int = 10
    trainings: tuple[str, ...] = tuple(Training)
    objectives: tuple[str, ...] = (*Objective, LOWEST)
    frontier: tuple[float, ...] = ()
    positions: int | str = "all"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_whole(N=1, samples=1)
        for name, known in (("trainings", tuple(Training)), ("objectives", (*Objective, LOWEST))):
            asked = [choice(name, value, known) for value in several(name, getattr(self, name))]
            self._set(**{name: tuple(str(value) for value in known if value in asked)})
        limits = {real("frontier", g, 0) for g in several("frontier", self.frontier)}
        if 0 in limits:
            raise RangeError("expected limits g > 0 for the frontier, got 0: leave it out")
        self._set(frontier=tuple(sorted(limits)))
        if not self.trainings or not (self.objectives or self.frontier):
            raise RangeError("expected a training, and an objective or a frontier, got none: give at least one of each")
        if self.positions != "all":
            self._set(positions=whole("positions", self.positions, 1, self.n))

    def estimate_bytes(self) -> int:
        return costs.search_bytes(self, self._count) + costs.fit_bytes(self, self.N, self.samples)

    def estimate_cost(self) -> float:
        searches = (len(self.objectives) + len(self.frontier) / 2) * len(self.trainings)
        search = self.samples * searches * costs.learning_cost(self, self._count)
        return costs.fit_cost(self, self.N, self.samples) + search

    @property
    def _count(self) -> int:
        return self.n if isinstance(self.positions, str) else self.positions

    def rows(self) -> list[dict[str, Any]]:
        drawn = draw_labelled(self, self.N + self.samples)
        X, labels = drawn.X, drawn.labels
        sizes = {"N": self.N, "positions": str(self.positions), "dropped": drawn.dropped}
        common = {**self.common(), **drawn.names, **sizes}
        out: list[dict[str, Any]] = []
        for depth, phi in draw_maps(self):
            trained = Interpolator.fit(phi, X[: self.N], labels[: self.N], memory=self.memory)
            model = {"depth": depth, "condition": trained.condition, "lambda_min_over_k": trained.lambda_min_over_k}
            new = trained.new_samples(X[self.N :], labels[self.N :])
            for index in range(self.samples):
                sample = new.pop(0)  # so that what it holds is freed
                changes = self._changes(sample, index)
                out += [{**common, **model, "sample": index, **change.summary()} for change in changes]
        return out

    def _changes(self, sample: NewSample, index: int) -> Iterator[WordChange]:
        options = SearchOptions(
            positions=self._positions(index), memory=self.memory, seed=trial_seed(self, "search", index)
        )
        for training in self.trainings:
            for objective in self.objectives:
                if objective == LOWEST:
                    yield sample.lowest_alignment(training, **options)
                else:
                    yield sample.find_change(objective, training, **options)
            if self.frontier:
                yield from sample.frontier(training, self.frontier, **options)

    def _positions(self, index: int) -> list[int] | None:
        if isinstance(self.positions, str):
            return None
        draw = stream(self.seed, "positions", self.trial, self.n, self.d, index)
        return sorted(draw.choice(self.n, self.positions, replace=False).tolist())
