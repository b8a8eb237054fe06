"""Every word of a text under a trained model: its sup, its first order, real words beside it, every layer and head."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, final

import numpy as np
import torch
from jaxtyping import Float

from oneword.maps.jacobian import ESTIMATED, estimated_gains2
from oneword.maps.sinks import sinks_said, word_sinks
from oneword.maps.transformer import TransformerFeatures
from oneword.maps.transformer_probe import TransformerProbe
from oneword.progress import Progress, part
from oneword.report.words.table import Subject
from oneword.sup.task import Task
from oneword.sup.verb import measure_at
from oneword.text.context import Context
from oneword.words.cost import Costs, model_costs
from oneword.words.job import ModelJob, Stages, TrainedSubject, window_of, words_for
from oneword.words.layers import across_heads, across_layers, noise_floor, row_norms
from oneword.words.measured import Measured, Rows
from oneword.words.request import Request


@final
@dataclass(frozen=True, eq=False)
class ModelSubject(TrainedSubject):
    """One of the outputs of a trained model."""

    @property
    def what(self) -> str:
        """Which of the model's outputs is measured, in words."""
        chosen = self.phi.selection
        if chosen.module is not None:
            return f"module {chosen.module}"
        head = "" if chosen.head is None else f", head {chosen.head}"
        return f"{chosen.output.name}{head}" + (f", layer {chosen.layer}" if chosen.output.has_layers else "")

    def read(self, text: str | Context) -> Context:
        return self.phi.encode(text) if isinstance(text, str) else self.phi.read(text)

    def job(self, number: int, text: str | Context, request: Request, name: str) -> TransformerJob:
        context = self.read(text)
        window = window_of(number, context, request)
        effort, words = request.effort_for(context.n), words_for(window, request, self.phi)
        return TransformerJob(self, window, request, words, effort, self.phi.at(context.X), name)


@final
@dataclass(eq=False)
class TransformerJob(ModelJob):
    """The measurement of one text; beside what all models have: layers, heads, attention sinks, and the noise floor."""

    probe: TransformerProbe
    layers: Rows = field(default_factory=list)
    heads: Rows = field(default_factory=list)
    norms: Float[np.ndarray, "layers n"] | None = None
    noise: float = math.nan

    @property
    def map(self) -> TransformerFeatures:
        return self.subject.phi

    @cached_property
    def costs(self) -> Costs:
        tries = 0 if self.tries is None else self.tries.left
        return model_costs(self.probe, self.text, list(self.window.positions), self.effort, tries)

    @property
    def _estimate_passes(self) -> float:
        return 1 + ESTIMATED

    def _estimate(self, progress: Progress) -> None:
        gains2 = estimated_gains2(self.map, self.probe.X, progress=progress)
        for i in self.window.positions:
            rows = list(self.text.rows[i])
            gain = math.sqrt(float(gains2[rows].sum())) / self.probe.norm
            self.estimated[i] = float(self._radius(torch.tensor([rows]))) * gain

    def _after_search(self) -> Stages:
        return {"layers": self._layers}

    def _layers(self, progress: Progress) -> Iterator[None]:
        assert self.found is not None, "layers come after the search"
        phi, found = self.map, self.found
        rows = across_layers(phi, self.text, found.deltas, progress)
        self.layers = (
            self._searched_layers(rows, progress)
            if self.effort.per_layer
            else [row | {"how": f"at the change of {self.subject.what}"} for row in rows]
        )
        self.norms = row_norms(phi, self.text.X)
        sinks = word_sinks(self.text, self.norms)
        self.layers = [row | {"sink": bool(sinks[row["layer"], row["position"]])} for row in self.layers]
        if self.request.together == 1:
            self.heads = across_heads(phi, self.text, found.position, found.delta)
        self.noise = noise_floor(phi, self.text.X)
        yield from ()

    def _searched_layers(self, rows: Rows, progress: Progress) -> Rows:
        """How far each word moves each layer, searched for every layer; `rows` hold what the output's change does."""
        phi, search, seed = self.map, self.effort.model_search, self.request.seed
        at = {(row["position"], row["layer"]): row["value"] for row in rows}
        searched = []
        for layer in range(phi.layers + 1):
            alone = phi.select(layer=layer, output=phi.selection.layer_output)
            task = Task(self.within, 1, self.searched, search, False, 0, seed, part(progress, 0, 0))
            own = measure_at(alone, alone.at(self.text.X), self.text, task, time.monotonic()).per_word
            for position, word, value in own[["position", "word", "value"]].itertuples(index=False):
                # The output's own Δ is a candidate for every layer, too.
                best = max(value, at[position, layer])
                searched.append({"position": position, "word": word, "layer": layer, "value": best, "how": "searched"})
            progress("layers", (layer + 1) / (phi.layers + 1))
        return sorted(searched, key=lambda row: (row["position"], row["layer"]))

    def _facts(self) -> Subject:
        subject = self.subject
        return Subject(self.window.text, subject.by, subject.title, "model", subject.what, noise=self.noise)

    def _tables(self) -> Measured:
        here = {"text": self.window.text, "by": self.subject.by}
        return Measured(layers=[here | row for row in self.layers], heads=[here | row for row in self.heads])

    def _more(self, i: int, row: Mapping[str, Any]) -> dict[str, Any]:
        value = row["value"]
        return {"below_noise": value is not None and value <= self.noise}

    def _notes(self) -> Iterator[str]:
        yield from super()._notes()
        sinks = "" if self.norms is None else sinks_said([self.text], [self.norms])
        if sinks:
            chosen = self.map.selection
            alike = chosen.module is None and chosen.output.unit_rows
            remedy = "" if alike else "; the output rows counts every word alike"
            yield f"{self.subject.by}: attention sinks, whose rows outweigh all others: {sinks}{remedy}"

    @property
    def _first_note(self) -> str:
        return "" if self.gains or not self.estimated else f"first order is estimated from {ESTIMATED} gradients, "
