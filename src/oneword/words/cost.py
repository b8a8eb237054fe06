"""What measurements cost, in seconds on two cores: roughly, so that progress keeps time and the time left is known."""

from __future__ import annotations

from collections.abc import Mapping

from oneword.chat.odds import OddsProbe
from oneword.maps.jacobian import DENSE, ESTIMATED
from oneword.maps.transformer_probe import TransformerProbe
from oneword.search.defaults import DefaultSearch
from oneword.search.shortlist import KEPT, Shortlist
from oneword.sup.task import by_size
from oneword.text.context import Context, spread_positions
from oneword.words.effort import Effort
from oneword.words.layers import BATCHES, PADDINGS

SPEED = 1.2e11  # floating-point operations a second
FIRST = 4096  # tokens that random words of a first answer may send through a model, in all
_GRADIENT = 2.1  # a pass with its gradient, in passes without
_POWER = 60  # passes for a word whose gain is found by power iteration
_LONG = 250  # tokens of the text for which the seconds of maps were measured
_ALL = 30_000  # words of a vocabulary

Costs = Mapping[str, float]  # seconds by stage


def pass_seconds(probe: TransformerProbe | OddsProbe) -> float:
    """One forward pass of a model."""
    phi, n = probe.phi, probe.n
    weights = sum(w.numel() for w in phi.model.parameters() if w.ndim == 2)
    weights -= max((w.numel() for w in phi.model.parameters() if w.ndim == 2), default=0)  # the table of embeddings
    return n * (2 * weights + 4 * phi.layers * n * probe.d) / SPEED * (2 if probe.X.element_size() == 8 else 1)


def first_words(n: int, words: int) -> int:
    """How many random words a first answer tries in a text of n tokens."""
    return min(words, max(1, FIRST // n))


def model_costs(probe: TransformerProbe, text: Context, positions: list[int], effort: Effort, tries: int) -> Costs:
    """Of a model with `tries` random words in all; `first` is what comes before the rest."""
    once = pass_seconds(probe)
    searched = spread_positions(positions, min(len(positions), effort.searched or len(positions)))
    climbs = sum(effort.model_search.work(probe, len(members)) for members in by_size(text, searched))
    dense = probe.clean.numel() <= DENSE
    first = first_words(probe.n, tries)
    passes = {
        "first": 1 + ESTIMATED + first,
        "random words": tries - first,
        "first order": probe.clean.numel() if dense else _POWER * len(searched),
        "search": _GRADIENT * climbs,
        "layers": len(searched) + sum(BATCHES) + len(PADDINGS) + 2,
        "real words": min(effort.best_words, len(searched)) * _passes(effort.shortlist),
    }
    if effort.per_layer:
        passes["layers"] += (probe.phi.layers + 1) * _GRADIENT * climbs
    return {stage: count * once for stage, count in passes.items()}


def prompt_costs(probe: OddsProbe, positions: list[int], effort: Effort, tries: int) -> Costs:
    """Of a prompt: what comes before the changed word is not read again, which saves half of most passes."""
    once, words = pass_seconds(probe) / 2, len(positions)
    searched = min(words, effort.searched or words)
    first = first_words(probe.n, tries)
    passes = {
        "first": words + _GRADIENT + first,
        "random words": tries - first,
        "first order": 0.0,
        "search": _GRADIENT * effort.model_search.work(probe, searched),
        "words left out": 0.0,
        "real words": min(effort.best_words, searched) * (_passes(effort.shortlist) + KEPT),
    }
    return {stage: count * once for stage, count in passes.items()}


def _passes(effort: Shortlist) -> float:
    return min(effort.most, max(effort.least, effort.share * _ALL))


def map_costs(context: Context, words: int, effort: Effort, *, blocks: bool) -> Costs:
    """Of a map with random weights at a text of which `words` words may change."""
    long, tried = context.n / _LONG, effort.candidates_of(blocks) or _ALL
    if blocks:
        neurons = min(effort.neurons or context.X.numel(), context.X.numel()) / 512
        first, certificate, each = 0.6 * long * neurons, 0.8 * long * neurons, 1.3e-4 * neurons
        return {"first": first, "search": 0.1, "certificate": certificate, "vocabulary": each * tried * words}
    return {
        "first": 0.05 + 0.1 * long,
        "search": 0.6 * long**2 * (1 if effort.search == DefaultSearch(quick=True) else 8),
        "certificate": 0.3 * long + 0.5 * effort.certify.work * min(1.0, long),
        "vocabulary": 0.1 + 3.7 * tried / 10_000 * long**2.5,
    }
