"""Which search suits a map, where nobody asks for one: registered by the type of the map's Probe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

from oneword.maps.attention_probe import AttentionProbe
from oneword.maps.base import SHORT, Probe
from oneword.maps.multihead_probe import MultiHeadProbe
from oneword.maps.random import LayeredProbe
from oneword.maps.transformer_probe import ModelProbe
from oneword.search.ascent import Ascent
from oneword.search.base import MEMORY, Batch, Found, Rows, Search, default_search
from oneword.search.frugal import FrugalAscent
from oneword.sets.constraints import Constraint


@final
@dataclass(frozen=True)
class DefaultSearch(Search):
    """The search that suits the map, whichever that is; `quick`: one that takes a fraction of the time."""

    quick: bool = False
    memory: int = MEMORY

    def run(self, probe: Probe, rows: Rows, within: Constraint, **options: Any) -> Found:
        return default_search(probe, self.quick, self.memory).run(probe, rows, within, **options)

    def work(self, probe: Probe, sets: int) -> float:
        return default_search(probe, self.quick, self.memory).work(probe, sets)

    def settle(self, probe: Probe, rows: Rows, within: Constraint, starts: Batch) -> Found:
        return default_search(probe, self.quick, self.memory).settle(probe, rows, within, starts)


@Search.default_for(Probe)
def _of_any_map(probe: Probe, quick: bool, memory: int) -> Search:
    """In a hurry one start a position (the mean key for attention) and no polish."""
    return Ascent(random=0, keep=1, polish=0, finish=30, memory=memory) if quick else Ascent(memory=memory)


@Search.default_for(AttentionProbe)
@Search.default_for(MultiHeadProbe)
def _of_attention(probe: AttentionProbe | MultiHeadProbe, quick: bool, memory: int) -> Search:
    """Short texts under sharp attention have many maxima of nearly the same height, and starts cost little there."""
    if quick or probe.n > SHORT:
        return _of_any_map(probe, quick, memory)
    return Ascent(random=32, keep=40, memory=memory)


@Search.default_for(LayeredProbe)
def _of_layers(probe: LayeredProbe, quick: bool, memory: int) -> Search:
    """Nearly linear in Δ: what counts is the leading singular vectors, and those are known within a few per cent."""
    if quick:
        return Ascent(random=0, steps=2, keep=1, polish=0, finish=4, memory=memory)
    return Ascent(random=0, steps=4, keep=2, leading=4, fallback=16, memory=memory)


@Search.default_for(ModelProbe)
def _of_models(probe: ModelProbe, quick: bool, memory: int) -> Search:
    return FrugalAscent.suited_to(probe.n, quick=quick, memory=memory)
