"""The verb: S_φ(X) = sup over positions i and allowed new words of ‖φ(X^i(Δ)) − φ(X)‖/‖φ(X)‖ (Eq. 1)."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any, Literal, TypedDict, Unpack, cast, overload

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn

from oneword._version import versions
from oneword.bounds.certificate import Certify
from oneword.errors import RangeError
from oneword.maps.base import FeatureMap, ModuleFeatures, Probe
from oneword.progress import Progress, silent
from oneword.result import Sensitivity
from oneword.search.base import Search
from oneword.sets.constraints import Constraint
from oneword.sets.vocabulary import Replacements
from oneword.sup.replacements import tried
from oneword.sup.task import Task, spots_of
from oneword.sup.vectors import searched
from oneword.text.context import Context, as_context

Text = Context | Tensor | np.ndarray | Sequence[Sequence[float]]
Map = FeatureMap | nn.Module | Callable[[Tensor], Tensor]


class Options(TypedDict, total=False):
    """The keyword arguments of `sensitivity`, for type checkers."""

    within: Constraint | Replacements | None
    words: int
    positions: Sequence[int] | None
    search: Search | Literal["quick"] | None
    certify: Certify | Literal[False]
    baseline: int
    seed: int
    progress: Progress


@overload
def sensitivity(phi: Map, x: Text, **options: Unpack[Options]) -> Sensitivity: ...
@overload
def sensitivity(
    phi: Map, x: list[Context] | list[Tensor] | list[np.ndarray], **options: Unpack[Options]
) -> pd.DataFrame: ...
def sensitivity(
    phi: Map,
    x: Text | list[Context] | list[Tensor] | list[np.ndarray],
    *,
    within: Constraint | Replacements | None = None,
    words: int = 1,
    positions: Sequence[int] | None = None,
    search: Search | Literal["quick"] | None = None,
    certify: Certify | Literal[False] = Certify(),  # noqa: B008
    baseline: int = 64,
    seed: int = 0,
    progress: Progress = silent,
) -> Sensitivity | pd.DataFrame:
    """How much can one word change?

    | argument | meaning |
    |---|---|
    | `phi` | a FeatureMap, or any differentiable nn.Module or callable X ↦ φ(X) |
    | `x` | a Context, an n × d array, or a list of those (→ a table, one line a text) |
    | `within` | what may change: Ball() is ‖Δ‖ ≤ √d (in trained models ‖x_i‖), Vocabulary.of(encoder) real words |
    | `words` | how many words change at once; more than one are chosen greedily among `positions` |
    | `positions` | the words that may change; all by default |
    | `search` | None: what suits the map; "quick": the same in a fraction of the time; or an Ascent(…) |
    | `certify` | Certify(target, work, seconds), Certify.plain(), or False for no upper bound |
    | `baseline` | random changes a word, for comparison; 0 draws none |
    | `progress` | called with (stage, fraction done) while the work goes on |
    """
    task = Task(within, words, positions, search, certify, baseline, seed, progress)
    if isinstance(x, list) and x and isinstance(x[0], Context | Tensor | np.ndarray):
        return pd.DataFrame([_measure(phi, as_context(text), task).summary() for text in x])
    return _measure(phi, as_context(cast(Text, x)), task)


def _measure(phi: Map, text: Context, task: Task) -> Sensitivity:
    started = time.monotonic()
    phi = phi if isinstance(phi, FeatureMap) else ModuleFeatures(phi)
    text = phi.read(text)
    return measure_at(phi, phi.at(text.X), text, task, started)


def measure_at(phi: FeatureMap, probe: Probe, text: Context, task: Task, started: float) -> Sensitivity:
    """The same with a Probe that is there already, for those who have more questions to it."""
    within = task.set_for(probe, text)
    spots = spots_of(text, probe, task)
    if not 1 <= task.words <= len(spots):
        raise RangeError(f"expected words out of 1 … {len(spots)}, the words that may change, got {task.words}")
    if isinstance(within, Replacements):
        found = tried(probe, text, spots, within, task)
    else:
        found = searched(probe, text, spots, within, task)
    about = (
        _provenance(phi, text, probe, within, task) | dict(found.provenance) | {"seconds": time.monotonic() - started}
    )
    return replace(found, provenance=about)


def _provenance(
    phi: FeatureMap, text: Context, probe: Probe, within: Constraint | Replacements, task: Task
) -> dict[str, Any]:
    return {
        "map": dict(phi.describe()),
        "text": dict(text.source),
        "n": probe.n,
        "d": probe.d,
        "within": within.describe(),
        "words": task.words,
        "positions": "all" if task.positions is None else list(task.positions),
        "text_words": len(text.words),
        "fingerprint": _fingerprint(text.X),
        "words_chosen": "greedily" if task.words > 1 else "every one tried",
        "search_asked_for": task.searching.describe(),
        "certify": asdict(task.certify) if task.certify else None,
        "baseline": task.baseline,
        "seed": task.seed,
        "dtype": str(probe.X.dtype).removeprefix("torch."),
        "device": str(probe.X.device),
        "threads": torch.get_num_threads(),
        "versions": versions("torch", "numpy", "scipy", "numba"),
    }


def _fingerprint(X: Float[Tensor, "n d"]) -> str:
    """Tells two texts apart whose source says no more than "an array"."""
    return hashlib.sha256(X.detach().double().cpu().contiguous().numpy().tobytes()).hexdigest()[:16]
