"""Several words at once: which ones, chosen greedily, each time the word that adds most to those already changed.

The number of sets grows as n choose m, so the choice is a heuristic and the value a lower bound: a better set may
exist.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from oneword.maps.base import Probe
from oneword.progress import Progress, silent
from oneword.search.base import Search
from oneword.sets.constraints import Constraint

Word = tuple[int, ...]  # the rows of one word


def choose_words(
    probe: Probe,
    candidates: list[Word],
    alone: dict[Word, Float[Tensor, "rows d"]],
    m: int,
    within: Constraint,
    search: Search,
    progress: Progress = silent,
) -> tuple[list[Word], Float[Tensor, "rows d"]]:
    """m words and new rows for them. `alone` holds the best change of each word by itself, where the choice starts."""
    if m == len(candidates):
        return candidates, torch.cat([alone[word] for word in candidates])
    everything = tuple(sorted(row for word in candidates for row in word))
    near = probe.near(everything) if probe.rows_at_once(search.memory) >= len(everything) else probe
    chosen: list[Word] = []
    y = probe.X.new_zeros((0, probe.d))
    for count in range(m):
        best, best_value = candidates[0], -torch.inf
        for word, value in _additions(near, [w for w in candidates if w not in chosen], chosen, y, alone):
            if value > best_value:
                best, best_value = word, value
        chosen.append(best)
        y = torch.cat([y, alone[best]])
        if count:
            found = search.settle(near, _rows(chosen, probe)[None], within, y[None, None])
            y = found.y[0]
        progress("choosing words", (count + 1) / m)
    return chosen, y


def _additions(
    probe: Probe, words: list[Word], chosen: list[Word], y: Float[Tensor, "rows d"], alone: dict[Word, Tensor]
) -> list[tuple[Word, float]]:
    """The squared change with each further word, at its own best change, beside those chosen so far."""
    values = []
    for word in words:
        rows = _rows([*chosen, word], probe)
        with torch.no_grad():
            value = probe.change2(torch.cat([y, alone[word]])[None], rows[None])
        values.append((word, float(value)))
    return values


def _rows(words: list[Word], probe: Probe) -> Tensor:
    return torch.tensor([row for word in words for row in word], device=probe.X.device)
