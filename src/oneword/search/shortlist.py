"""The worst real word for a map whose every candidate is a forward pass: gradients say which few words to try.

Some random words are tried first, with the gradient of ‖φ(X^i) − φ(X)‖² at each. Every word tried with its gradient
then predicts all others to first order, and the nearer it is the more it counts. The most promising few are tried, the
best of them with its gradient, and so on in rounds. What is reported was evaluated: a lower bound on the best word,
and exact where the set is small enough to try all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from oneword.errors import RangeError
from oneword.maps.base import Probe
from oneword.memory import batch_size
from oneword.progress import Progress, silent
from oneword.random import stream
from oneword.sets.vocabulary import Replacements

KEPT = 10  # words of the list


@dataclass(frozen=True)
class Shortlist:
    """How forward passes are spent; a backward pass counts as one more.

    | field | meaning |
    |---|---|
    | `share` | of the words: at most as many passes … |
    | `least`, `most` | … but no fewer and no more than these; up to `least` words all are tried |
    | `first` | random words that are tried first, with their gradients |
    | `round` | words tried before the prediction is made anew, with the gradient of the best one |
    | `nearness` | how much more a tried word counts for words that are near it |
    """

    share: float = 0.1
    least: int = 64
    most: int = 200
    first: int = 2
    round: int = 8
    nearness: float = 9.0

    def __post_init__(self) -> None:
        if not (0 < self.share <= 1 and 1 <= self.least <= self.most and self.first >= 1 and self.round >= 1):
            raise RangeError(f"expected 0 < share ≤ 1, 1 ≤ least ≤ most, first ≥ 1 and round ≥ 1, got {self}")


@dataclass(frozen=True, eq=False)
class Listed:
    """The best words found, with their values, best first; how many passes it took, and whether all were tried."""

    best: tuple[tuple[str, float], ...]
    passes: int
    exhaustive: bool

    @property
    def word(self) -> str:
        return self.best[0][0]

    @property
    def value(self) -> float:
        return self.best[0][1]


def shortlist(
    probe: Probe,
    rows: tuple[int, ...],
    words: Replacements,
    effort: Shortlist = Shortlist(),  # noqa: B008
    *,
    seed: int = 0,
    memory: int = 1 << 28,
    progress: Progress = silent,
) -> Listed:
    """The word that changes most in the place of the one with these rows."""
    names = words.names[len(rows)]
    Y = words.rows(torch.tensor(rows), probe.d, probe.X.dtype).to(probe.X.device)
    tried = _Tried(probe, torch.tensor(rows, device=Y.device), Y, memory)
    budget = min(effort.most, max(effort.least, int(effort.share * len(Y))))
    if budget >= len(Y):
        tried.evaluate(torch.arange(len(Y)))
    else:
        drawn = stream(seed, "shortlist", *rows).choice(len(Y), size=effort.first, replace=False)
        tried.differentiate(torch.from_numpy(drawn))
        near = _nearness(Y)
        while (left := budget - tried.passes) > 0:
            promising = tried.predicted(near, effort.nearness)
            tried.evaluate(promising.argsort(descending=True, stable=True)[: min(effort.round, left)])
            if budget - tried.passes > 2:
                tried.differentiate(tried.best_without_gradient())
            progress("real words", tried.passes / budget)
    order = tried.change2.argsort(descending=True, stable=True)[: min(KEPT, int(tried.known.sum()))].tolist()
    best = tuple((names[v], math.sqrt(max(float(tried.change2[v]), 0.0)) / probe.norm) for v in order)
    return Listed(best, tried.passes, budget >= len(Y))


class _Tried:
    """What is known so far: values of tried words (−∞ elsewhere), and gradients at some of them."""

    def __init__(self, probe: Probe, rows: Tensor, Y: Float[Tensor, "words m d"], memory: int) -> None:
        self.probe, self.rows, self.Y = probe, rows, Y
        self.batch = batch_size(probe.bytes_per_candidate(len(rows)), memory)
        self.change2 = torch.full((len(Y),), -torch.inf, dtype=Y.dtype, device=Y.device)
        self.at = torch.zeros(0, dtype=torch.long, device=Y.device)
        self.gradients = Y.new_zeros((0, Y[0].numel()))
        self.passes = 0

    def evaluate(self, some: Tensor) -> None:
        for part in some.split(self.batch):
            with torch.no_grad():
                self.change2[part] = self.probe.change2(self.Y[part], self.rows.expand(len(part), -1))
            self.passes += len(part)

    def differentiate(self, some: Tensor) -> None:
        """Values with gradients: a pass forwards and one backwards each."""
        for part in some.split(self.batch):
            value, gradient = self.probe.value_and_gradient(self.Y[part], self.rows.expand(len(part), -1))
            self.change2[part] = value
            self.at = torch.cat([self.at, part])
            self.gradients = torch.cat([self.gradients, gradient.flatten(1)])
            self.passes += 2 * len(part)

    def predicted(self, near: Float[Tensor, "words words"], sharpness: float) -> Float[Tensor, " words"]:
        """Tangents at the words with gradients, weighted by nearness; −∞ for words that were tried."""
        flat = self.Y.flatten(1)
        offset = self.change2[self.at] - (flat[self.at] * self.gradients).sum(1)
        tangents = flat @ self.gradients.mT + offset
        weights = torch.softmax(sharpness * (near @ near[self.at].mT), 1)
        out = (weights * tangents).sum(1)
        return torch.where(self.known, torch.full_like(out, -torch.inf), out)

    @property
    def known(self) -> Bool[Tensor, " words"]:
        return self.change2 > -torch.inf

    def best_without_gradient(self) -> Int[Tensor, " one"]:
        known = self.change2.clone()
        known[self.at] = -torch.inf
        return known.argmax()[None]


def _nearness(Y: Float[Tensor, "words m d"]) -> Float[Tensor, "words w"]:
    """Unit vectors whose inner products say how near two words are: what they have in common is taken out."""
    flat = Y.flatten(1)
    centred = flat - flat.mean(0)
    return centred / centred.norm(dim=1, keepdim=True).clamp_min(torch.finfo(Y.dtype).tiny)
