"""The worst real word for a map whose every candidate is a forward pass: gradients say which few words to try.

Some random words are tried first, with the gradient of ‖φ(X^i) − φ(X)‖² at each. Every word tried with its gradient
then predicts all others to first order, and the nearer it is the more it counts. The most promising are tried, the best
of them with gradients, and so on in rounds. What is reported was evaluated: a lower bound on the best word, and exact
where the set is small enough to try all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from oneword._random import stream
from oneword.errors import RangeError
from oneword.maps.base import Probe
from oneword.vocabulary import Replacements


@dataclass(frozen=True)
class Shortlist:
    """How forward passes are spent; a backward pass counts as one more.

    | field | meaning |
    |---|---|
    | `share` | of the words, at most this many passes … |
    | `least` | … but no fewer than this; up to here every word is tried |
    | `first` | share of the passes that goes to random words with their gradients |
    | `rounds` | how often the prediction is made anew |
    | `nearness` | how much more a tried word counts for words that are near it |
    """

    share: float = 0.1
    least: int = 128
    first: float = 0.2
    rounds: int = 6
    nearness: float = 15.0

    def __post_init__(self) -> None:
        if not (0 < self.share <= 1 and self.least >= 1 and 0 < self.first < 1 and self.rounds >= 1):
            raise RangeError(f"expected 0 < share ≤ 1, least ≥ 1, 0 < first < 1 and rounds ≥ 1, got {self}")


@dataclass(frozen=True, eq=False)
class Listed:
    """The best word found: its number, name and value; how many passes it took, and whether all words were tried."""

    index: int
    word: str
    value: float
    passes: int
    exhaustive: bool


def shortlist(
    probe: Probe,
    rows: tuple[int, ...],
    words: Replacements,
    effort: Shortlist = Shortlist(),  # noqa: B008
    *,
    seed: int = 0,
    memory: int = 1 << 28,
    progress: Callable[[float], None] = lambda done: None,
) -> Listed:
    """The word that changes most in the place of the one with these rows."""
    names = words.names[len(rows)]
    Y = words.rows(torch.tensor(rows), probe.d, probe.X.dtype).to(probe.X.device)
    tried = _Tried(probe, torch.tensor(rows, device=Y.device), Y, memory)
    budget = max(effort.least, int(effort.share * len(Y)))
    if budget >= len(Y):
        tried.evaluate(torch.arange(len(Y)))
    else:
        first = max(1, int(effort.first * budget / 2))
        drawn = stream(seed, "shortlist", *rows).choice(len(Y), size=first, replace=False)
        tried.differentiate(torch.from_numpy(drawn))
        near = _nearness(Y)
        for turn in range(effort.rounds):
            left = (budget - tried.passes) // (effort.rounds - turn)
            gradients = left // 6  # the best of the round are taken with their gradients: one pass more each
            promising = tried.predicted(near, effort.nearness)
            tried.evaluate(promising.argsort(descending=True, stable=True)[: left - gradients])
            tried.differentiate(tried.best_without_gradient(gradients), again=True)
            progress(tried.passes / budget)
    best = int(tried.change2.argmax())
    value = math.sqrt(max(float(tried.change2[best]), 0.0)) / probe.norm
    return Listed(best, names[best], value, tried.passes, budget >= len(Y))


class _Tried:
    """What is known so far: values of tried words (−∞ elsewhere), and gradients at some of them."""

    def __init__(self, probe: Probe, rows: Tensor, Y: Float[Tensor, "words m d"], memory: int) -> None:
        self.probe, self.rows, self.Y = probe, rows, Y
        self.batch = max(1, memory // probe.bytes_per_candidate(len(rows)))
        self.change2 = torch.full((len(Y),), -torch.inf, dtype=Y.dtype, device=Y.device)
        self.at = torch.zeros(0, dtype=torch.long, device=Y.device)
        self.gradients = Y.new_zeros((0, Y[0].numel()))
        self.passes = 0

    def evaluate(self, some: Tensor) -> None:
        for part in some.split(self.batch):
            with torch.no_grad():
                self.change2[part] = self.probe.change2(self.Y[part], self.rows.expand(len(part), -1))
            self.passes += len(part)

    def differentiate(self, some: Tensor, again: bool = False) -> None:
        """Values with gradients; of words tried before, only the backward pass is new: a cached graph could keep it."""
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
        return torch.where(self.change2 > -torch.inf, torch.full_like(out, -torch.inf), out)

    def best_without_gradient(self, count: int) -> Tensor:
        known = self.change2.clone()
        known[self.at] = -torch.inf
        return known.argsort(descending=True, stable=True)[:count]


def _nearness(Y: Float[Tensor, "words m d"]) -> Float[Tensor, "words w"]:
    """Unit vectors whose inner products say how near two words are: what they have in common is taken out."""
    flat = Y.flatten(1)
    centred = flat - flat.mean(0)
    return centred / centred.norm(dim=1, keepdim=True).clamp_min(torch.finfo(Y.dtype).tiny)
