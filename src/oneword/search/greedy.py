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
        left = [word for word in candidates if word not in chosen]
        best = max(left, key=lambda word: _change2(near, [*chosen, word], torch.cat([y, alone[word]])))
        chosen.append(best)
        y = torch.cat([y, alone[best]])
        if count:
            found = search.settle(near, _rows(chosen, probe)[None], within, y[None, None])
            y = found.y[0]
        progress("choosing words", (count + 1) / m)
    return chosen, y


def _change2(probe: Probe, words: list[Word], y: Float[Tensor, "rows d"]) -> float:
    """The squared change when the rows of these words become y."""
    with torch.no_grad():
        return float(probe.change2(y[None], _rows(words, probe)[None]))


def _rows(words: list[Word], probe: Probe) -> Tensor:
    return torch.tensor([row for word in words for row in word], device=probe.X.device)
