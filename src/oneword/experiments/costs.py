"""What a cell will take, roughly: for ordering cells, for the time left, and to refuse what cannot fit.

Counts of multiply-adds and of bytes read, with constants measured on one core in float64. Times are right within a
factor of about two; memory is estimated from above.
"""

from __future__ import annotations

from oneword.experiments.cell import TextCell
from oneword.maps.base import SHORT
from oneword.maps.registry import MAPS
from oneword.maps.scores import SCORES, GroupedScore
from oneword.memory import batch_size

BASE_BYTES = 600_000_000  # the interpreter with torch, numba, pandas and an encoder
FLOPS = 1.2e10  # multiply-adds a second in matrix products, twice
READ = 5e9  # bytes a second where each number is used once
DRAW = 1.2e-8  # seconds for a normal number
OVERHEAD = 0.05


def search_cost(cell: TextCell, positions: int, *, quick: bool = False, changed: int = 1, baseline: int = 0) -> float:
    """Seconds to search this many positions, all depths together."""
    seconds = _layered_cost(cell, positions, quick, baseline) if cell.layered else _attended(cell, positions, quick)
    # Words chosen greedily: each choice tries all positions and settles the words so far.
    return OVERHEAD + seconds * (1 if changed == 1 else 1 + 0.5 * changed)


def search_bytes(cell: TextCell, positions: int, *, baseline: int = 0) -> int:
    """Bytes at the peak of a search over this many positions."""
    if cell.k is None:
        starts = positions * _starts(cell.n)
        each = 16 * cell.n**2 + 6 * cell.n * cell.d if _rescored(cell) else 24 * cell.n + 8 * cell.d
        batch = min(cell.memory, starts * 8 * each)
        return BASE_BYTES + 8 * (8 * cell.n**2 + 8 * cell.n * cell.d + 3 * cell.d**2) + 64 * starts * cell.d + batch
    depth = max(cell.depths, default=1)
    block = cell.k * cell.d * 8
    together = min(positions, batch_size(block, cell.memory))  # blocks are held within the budget, or one of them
    batch = min(cell.memory, together * (4 + baseline) * 48 * cell.k * depth)
    layers = 8 * cell.k**2 * depth if depth > 1 else 0  # all but the first, and what a certificate makes of one
    return BASE_BYTES + block * (2 + 4 * together // 3) + batch + layers


def certificate_cost(cell: TextCell, positions: int, target: float | None) -> float:
    """Seconds for upper bounds; branch and bound only for softmax attention and a target."""
    if target is None:
        return 0.0
    if cell.k is None:
        return 0.5 + 0.01 * positions if cell.map == "attention" and target > 0 else 0.01
    norms = 4 * cell.k**3 * (max(cell.depths, default=1) - 1) / FLOPS
    return positions * cell.k * cell.d * (DRAW + cell.d / FLOPS) + norms


def fit_bytes(cell: TextCell, N: int, samples: int) -> int:
    """Bytes to pre-train on N texts: the texts, their features and Gram matrix, and batches of features."""
    D = cell.n * cell.d
    p = cell.k or D
    batch = min(cell.memory, N * 8 * (4 * max(p, D) + 3 * cell.n**2))
    return 8 * ((N + samples) * D * 2 + 2 * N * p + 4 * N**2 + 3 * samples * p) + batch


def fit_cost(cell: TextCell, N: int, samples: int) -> float:
    """Seconds to pre-train on N texts and to project the features of new ones."""
    D = cell.n * cell.d
    p = cell.k or D
    if cell.layered:
        layers = sum(depth - 1 for depth in cell.depths)
        features = D * p * DRAW + (N + samples) * (D * p + layers * p**2) / FLOPS
    else:
        features = (N + samples) * 2 * D * (cell.d + cell.n) / FLOPS
    return features + (N**2 * (p + 10 * N) + 8 * samples * N * p) * max(1, len(cell.depths)) / FLOPS


def learning_cost(cell: TextCell, positions: int) -> float:
    """Seconds for one search of a new sample, which has fewer starts and steps."""
    return search_cost(cell, positions) * (0.4 if cell.layered else 0.15)


def _starts(n: int) -> int:
    return 120 + n if n <= SHORT else 40


def _rescored(cell: TextCell) -> bool:
    """Whether each candidate makes the weights of all rows anew, as for sparsemax."""
    known = MAPS.get(cell.map)
    return known is not None and known.score_name is not None and not isinstance(SCORES[known.score_name], GroupedScore)


def _attended(cell: TextCell, positions: int, quick: bool) -> float:
    climbed = positions * (12 if quick else 4.5 * _starts(cell.n))  # starts are thinned out on the way
    leading = min(positions, 20)
    polished = 0 if quick else leading * (40 * 30 + 8 * 120 if cell.n <= SHORT else 3 * 150)
    # Sparsemax: weights and outputs of all rows, and a sort that costs as much as a hundred more columns.
    rescored = 3 * cell.n**2 * (cell.d + 100) if _rescored(cell) else 0
    return (climbed + polished) * (5 * cell.n * cell.d + cell.d**2 + rescored) * 2 / FLOPS


def _layered_cost(cell: TextCell, positions: int, quick: bool, baseline: int) -> float:
    assert cell.k is not None
    block = cell.k * cell.d
    drawn = (2 * cell.n if positions > 1 else 1) + 2 * positions
    steps = 0 if quick else 150 * min(positions, 4)  # of polishing, two candidates each
    candidates = positions * (8 if quick else 16) + 2 * steps + positions * baseline
    first = drawn * block * DRAW + (positions * block * cell.d + 2 * candidates * block) / FLOPS
    first += 2 * steps * 8 * block / READ
    layers = [depth - 1 for depth in cell.depths]
    deeper = sum(layers) * cell.k**2 * (4 * candidates + 120 * positions) / FLOPS
    return first * max(1, len(layers)) + deeper + max(layers, default=0) * cell.k**2 * DRAW
