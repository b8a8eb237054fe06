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
from oneword.errors import DTypeError, MapError, OnewordError, ShapeError
from oneword.maps import registry
from oneword.maps.base import FeatureMap, ModuleFeatures, Probe, blaming
from oneword.maps.transformer import TransformerFeatures
from oneword.progress import Progress, silent
from oneword.result import Sensitivity
from oneword.search.base import Search
from oneword.sets.constraints import Constraint
from oneword.sets.vocabulary import Replacements
from oneword.sup.replacements import tried
from oneword.sup.task import Task, check_words, spots_of
from oneword.sup.vectors import searched
from oneword.text.context import Context, as_context
from oneword.text.encoders import encode

Text = str | Context | Tensor | np.ndarray | Sequence[Sequence[float]]
Map = str | FeatureMap | nn.Module | Callable[[Tensor], Tensor]


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
    phi: Map, x: list[str] | list[Context] | list[Tensor] | list[np.ndarray], **options: Unpack[Options]
) -> pd.DataFrame: ...
def sensitivity(
    phi: Map,
    x: Text | list[str] | list[Context] | list[Tensor] | list[np.ndarray],
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
    | `phi` | a FeatureMap; any differentiable nn.Module or callable X ↦ φ(X); or a name: "attention", "rf", "drf-3", … with random weights, or a model ("minilm", a folder, a hub name), whose pooled vector is measured |
    | `x` | a text as a string, a Context or an n × d array; or a list of those (→ a table, one line a text). A string is encoded by the model, or else by the embedded encoder in the precision of the map |
    | `within` | what may change. None: what suits the map, Ball() for ‖Δ‖ ≤ √d, in trained models Ball(relative=1) for ‖Δ‖ ≤ ‖x_i‖. Also Sphere(), Vocabulary.of(encoder) for real words, Words, Vectors, a Constraint of one's own |
    | `words` | how many words change at once (1); more than one are chosen greedily among `positions` |
    | `positions` | the words that may change, by their numbers; None: all, [CLS] and [SEP] included unless `within` is a set of words |
    | `search` | None: what suits the map; "quick": the same in a fraction of the time; or a Search such as Ascent(random=32), which is run as it is |
    | `certify` | how hard to work on the upper bound: Certify(target=1.2, work=30, seconds=None), Certify.plain() for the closed form, False for none |
    | `baseline` | random changes of each word (64), for comparison; 0: none |
    | `seed` | of everything random (0), and of the weights of a map that is named |
    | `progress` | called with the stage and the fraction done while the work goes on; ignored by default |

    Returns a `Sensitivity`: `value` (attained), `upper` (certified, or None), one row a word in `per_word`, the change
    in `delta`, and how all of it was made in `provenance`. It shows itself in a notebook and in a terminal.

    Raises UnknownNameError for what is no map and for a name that neither a map nor a model has, MapError for a map of
    one's own that fails, TextError for a text without a word,
    ShapeError, DTypeError, NonFiniteError or ZeroNormError for a text that does not fit the map, RangeError for numbers
    out of range; all of them are `OnewordError`.

        >>> import oneword as ow
        >>> found = ow.sensitivity("attention", "I love her much", search="quick")
        >>> found.word
        'much'
        >>> found.value <= found.upper
        True
    """  # noqa: E501 (a table has one line an argument)
    task = Task(within, words, positions, search, certify, baseline, seed, progress)
    if isinstance(phi, str) and not registry.is_map(phi):
        phi = load_pooled(phi)
    if isinstance(x, list) and x and isinstance(x[0], str | Context | Tensor | np.ndarray):
        return pd.DataFrame([_measure(phi, text, task).summary() for text in x])
    return _measure(phi, cast(Text, x), task)


def load_pooled(name: str, **options: Any) -> TransformerFeatures:
    """The pooled vector of a model; where there is none of this name, a map may have been meant."""
    try:
        return TransformerFeatures.load(name, output="pooled", **options)
    except OnewordError as error:
        raise type(error)(f"{error}{registry.similar_to(name)}") from None


def _measure(phi: Map, x: Text, task: Task) -> Sensitivity:
    started = time.monotonic()
    if isinstance(phi, str):  # its weights fit the text
        text = encode(x) if isinstance(x, str) else as_context(x)
        phi = registry.draw(phi, text.n, text.d, seed=task.seed, dtype=text.X.dtype, device=text.X.device)
    else:
        phi = phi if isinstance(phi, FeatureMap) else ModuleFeatures(phi)
        text = phi.encode(x) if isinstance(x, str) else as_context(x)
    with blaming(phi, text.X):
        text = phi.read(text)
    return measure_at(phi, _prepared(phi, text.X, x), text, task, started)


def _prepared(phi: FeatureMap, X: Float[Tensor, "n d"], given: Text) -> Probe:
    """φ at X; where the two do not fit, the error speaks of what was given."""
    try:
        with blaming(phi, X):
            return phi.at(X)
    except (ShapeError, DTypeError, MapError) as error:
        wanted = phi.like.dtype
        if isinstance(given, str):
            raise type(error)(
                f"{error}; the string was encoded as this X: ow.encode(text, d=…) gives an array to make a map for"
            ) from error
        if X.dtype == wanted or isinstance(given, Tensor | Context) or not isinstance(error, DTypeError):
            raise
        name, array = str(wanted).replace("torch.", "numpy."), isinstance(given, np.ndarray)
        how = f"X.astype({name})" if array else f"numpy.array(X, {name})"
        raise DTypeError(
            f"expected a text in the map's {wanted}, got {'an array' if array else 'lists'} in {X.dtype}: convert it "
            f"with {how}, or give the map dtype={X.dtype}"
        ) from None


def measure_at(phi: FeatureMap, probe: Probe, text: Context, task: Task, started: float) -> Sensitivity:
    """The same with a Probe that is there already, for those who have more questions to it."""
    within = task.set_for(probe, text)
    spots = spots_of(text, probe, task)
    check_words(task.words, len(spots))
    with blaming(probe, probe.X):
        if isinstance(within, Replacements):
            found = tried(probe, text, spots, within, task)
        else:
            found = searched(probe, text, spots, within, task)
    about = {
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
    return replace(found, provenance=about | dict(found.provenance) | {"seconds": time.monotonic() - started})


def _fingerprint(X: Float[Tensor, "n d"]) -> str:
    """Tells two texts apart whose source says no more than "an array"."""
    return hashlib.sha256(X.detach().double().cpu().contiguous().numpy().tobytes()).hexdigest()[:16]
