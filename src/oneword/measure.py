"""The verb: S_φ(X) = sup over positions i and allowed new words of ‖φ(X^i(Δ)) − φ(X)‖/‖φ(X)‖ (Eq. 1)."""

from __future__ import annotations

import hashlib
import math
import operator
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from typing import Any, Literal, TypedDict, Unpack, cast, overload

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from oneword._version import __version__
from oneword.bounds.certificate import Certify, certificate
from oneword.errors import RangeError
from oneword.maps.base import FeatureMap, ModuleFeatures, Probe
from oneword.perturb import Ball, Constraint
from oneword.result import Sensitivity, numbers
from oneword.search.ascent import Ascent, ascend
from oneword.search.several import choose_words
from oneword.search.status import Status
from oneword.text.context import Context, as_context

Text = Context | Tensor | np.ndarray | Sequence[Sequence[float]]
Map = FeatureMap | nn.Module | Callable[[Tensor], Tensor]
Report = Callable[[str, float], None]  # what is going on, and the fraction of it done


class Options(TypedDict, total=False):
    """The keyword arguments of `sensitivity`, for type checkers."""

    within: Constraint
    words: int
    positions: Sequence[int] | None
    search: Ascent
    certify: Certify | Literal[False]
    baseline: int
    seed: int
    progress: Report | None


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
    within: Constraint = Ball(),  # noqa: B008
    words: int = 1,
    positions: Sequence[int] | None = None,
    search: Ascent = Ascent(),  # noqa: B008
    certify: Certify | Literal[False] = Certify(),  # noqa: B008
    baseline: int = 64,
    seed: int = 0,
    progress: Report | None = None,
) -> Sensitivity | pd.DataFrame:
    """How much can one word change?

    | argument | meaning |
    |---|---|
    | `phi` | a FeatureMap, or any differentiable nn.Module or callable X ↦ φ(X) |
    | `x` | a Context, an n × d array, or a list of those (→ a table, one line a text) |
    | `within` | what may change: Ball() is the paper's ‖Δ‖ ≤ √d |
    | `words` | how many words change at once; more than one are chosen greedily among `positions` |
    | `positions` | the words that may change; all by default |
    | `search` | Ascent() or Ascent.quick() |
    | `certify` | Certify(target, seconds), Certify.plain(), or False for no upper bound |
    | `baseline` | random changes a word, for comparison; 0 draws none |
    | `progress` | called with (stage, fraction done) while the work goes on |
    """
    task = _Task(within, words, positions, search, certify, baseline, seed, progress or (lambda stage, done: None))
    if isinstance(x, list) and x and isinstance(x[0], Context | Tensor | np.ndarray):
        return pd.DataFrame([_measure(phi, as_context(text), task).summary() for text in x])
    return _measure(phi, as_context(cast(Text, x)), task)


@dataclass(frozen=True)
class _Task:
    """What was asked for."""

    within: Constraint
    words: int
    positions: Sequence[int] | None
    search: Ascent
    certify: Certify | Literal[False]
    baseline: int
    seed: int
    say: Report

    def __post_init__(self) -> None:
        for name in ("words", "baseline", "seed"):
            object.__setattr__(self, name, _whole(name, getattr(self, name)))
        if self.positions is not None:
            if isinstance(self.positions, int | float):
                raise RangeError(f"expected positions as a list, got {self.positions}: write positions=[…]")
            object.__setattr__(self, "positions", [_whole("positions", i) for i in self.positions])
        for name, kind in (("within", Constraint), ("search", Ascent)):
            if not isinstance(getattr(self, name), kind):
                raise RangeError(f"expected {name}= a {kind.__name__}, got {getattr(self, name)!r}")
        if self.certify is not False and not isinstance(self.certify, Certify):
            raise RangeError(f"expected certify= a Certify or False, got {self.certify!r}")
        if self.baseline < 0:
            raise RangeError(f"expected baseline ≥ 0, got {self.baseline}")


def _whole(name: str, value: object) -> int:
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise RangeError(f"expected whole numbers for {name}, got {value!r}") from None


@dataclass(frozen=True, eq=False)
class _Change:
    """A change of some words and what it attains, relative to ‖φ(X)‖."""

    positions: tuple[int, ...]
    value: float
    y: Float[Tensor, "rows d"]
    status: Status
    search: Ascent
    baseline: float


def _measure(phi: Map, text: Context, task: _Task) -> Sensitivity:
    started = time.monotonic()
    phi = phi if isinstance(phi, FeatureMap) else ModuleFeatures(phi)
    probe = phi.at(text.X)
    spots = _spots(text, probe, task.positions)
    if not 1 <= task.words <= len(spots):
        raise RangeError(f"expected words out of 1 … {len(spots)}, the words that may change, got {task.words}")

    each = _each_word(probe, text, spots, task)
    best = max(each, key=lambda change: change.value) if task.words == 1 else _jointly(probe, text, each, task)
    searched = time.monotonic()
    upper, uppers, how = _certified(probe, text, each, best, task)
    ended = time.monotonic()
    rows = tuple(row for i in best.positions for row in text.rows[i])
    delta = (best.y - probe.X[list(rows)]).detach()
    table = pd.DataFrame(
        {
            "position": spots,
            "word": [text.words[i] for i in spots],
            "rows": [text.rows[i] for i in spots],
            "value": [change.value for change in each],
            "upper": [uppers.get(i, math.nan) for i in spots],
            "baseline": [change.baseline for change in each],
        }
    )
    return Sensitivity(
        value=best.value,
        upper=upper,
        baseline=best.baseline,
        positions=best.positions,
        rows=rows,
        delta=delta[0] if len(rows) == 1 else delta,
        per_word=table,
        kind="searched",
        status=best.status,
        certificate=how,
        provenance=_provenance(phi, text, probe, task)
        | {"search": asdict(best.search)}
        | {"seconds": ended - started, "certificate_seconds": ended - searched},
    )


def _spots(text: Context, probe: Probe, positions: Sequence[int] | None) -> list[int]:
    """The words that may change, in order."""
    able = [i for i, rows in enumerate(text.rows) if set(rows) <= set(probe.positions)]
    if positions is None:
        return able
    asked = sorted(set(positions))
    wrong = [i for i in asked if i not in able]
    if wrong or not asked:
        allowed = f"0 … {len(text.words) - 1}" if len(able) == len(text.words) else str(able)
        raise RangeError(f"expected positions out of {allowed}, got {wrong if wrong else 'none'}")
    return asked


def _by_size(text: Context, spots: Sequence[int]) -> list[list[int]]:
    """Words that own the same number of rows are searched together."""
    groups: dict[int, list[int]] = {}
    for i in spots:
        groups.setdefault(len(text.rows[i]), []).append(i)
    return list(groups.values())


def _rows(text: Context, probe: Probe, words: Sequence[int]) -> Int[Tensor, "p m"]:
    return torch.tensor([text.rows[i] for i in words], device=probe.X.device)


def _each_word(probe: Probe, text: Context, spots: list[int], task: _Task) -> list[_Change]:
    """The best change of every word by itself, in the order of `spots`."""
    changes: dict[int, _Change] = {}
    for members in _by_size(text, spots):
        found = ascend(
            probe,
            _rows(text, probe, members),
            task.within,
            task.search,
            baseline=task.baseline,
            seed=task.seed,
            progress=partial(task.say, "search"),
        )
        values = numbers(found.change2.sqrt() / probe.norm)
        random = numbers(found.baseline2.sqrt().mean(1) / probe.norm)  # NaN where none were drawn
        for i, value, mean, y in zip(members, values, random, found.y, strict=True):
            changes[i] = _Change((i,), value, y, found.status, found.search, mean)
    return [changes[i] for i in spots]


def _jointly(probe: Probe, text: Context, each: list[_Change], task: _Task) -> _Change:
    """Several words at once: chosen greedily, then searched together."""
    of_rows = {text.rows[change.positions[0]]: change for change in each}
    starts = {rows: change.y for rows, change in of_rows.items()}
    say = partial(task.say, "choosing words")
    chosen, y = choose_words(probe, list(starts), starts, task.words, task.within, task.search.memory, say)
    new_rows = dict(zip(chosen, y.split([len(word) for word in chosen]), strict=True))
    chosen.sort(key=lambda word: of_rows[word].positions)
    rows = torch.tensor([[row for word in chosen for row in word]], device=probe.X.device)
    # Beside the words changed one after the other: the best word alone, so that more words never do less.
    best = max(chosen, key=lambda word: of_rows[word].value)
    alone = [new_rows[word] if word == best else probe.X[list(word)] for word in chosen]
    alone[chosen.index(best)] = of_rows[best].y
    together = torch.cat([new_rows[word] for word in chosen])
    found = ascend(
        probe,
        rows,
        task.within,
        task.search,
        starts=torch.stack([together, torch.cat(alone)])[None],
        baseline=task.baseline,
        seed=task.seed,
        progress=partial(task.say, "search, all at once"),
    )
    positions = tuple(of_rows[word].positions[0] for word in chosen)
    value, random = numbers(found.change2.sqrt() / probe.norm), numbers(found.baseline2.sqrt().mean(1) / probe.norm)
    return _Change(positions, value[0], found.y[0], found.status, found.search, random[0])


def _certified(
    probe: Probe, text: Context, each: list[_Change], best: _Change, task: _Task
) -> tuple[float | None, dict[int, float], str]:
    """Upper bounds: of the result, and of each word where only one changes."""
    if task.certify is False:
        return None, {}, "no certificate: not asked for"
    # What is relative to ‖φ(X)‖ inherits the rounding of that norm.
    norm = probe.norm / (1 + 100 * torch.finfo(probe.X.dtype).eps)
    certify = partial(certificate, effort=task.certify, progress=partial(task.say, "certificate"))
    if task.words > 1:
        rows = torch.tensor([[row for i in best.positions for row in text.rows[i]]], device=probe.X.device)
        sizes = sorted((len(text.rows[change.positions[0]]) for change in each), reverse=True)
        any_rows = sum(sizes[: task.words]) if task.words < len(each) else None
        attained = torch.tensor([best.value * probe.norm], dtype=torch.float64)
        made = certify(probe, rows, task.within, attained, any_rows=any_rows)
        return None if made.upper is None else float(made.upper[0]) / norm, {}, made.how
    value = {change.positions[0]: change.value for change in each}
    uppers: dict[int, float] = {}
    hows: list[str] = []
    for members in _by_size(text, list(value)):
        attained = torch.tensor([value[i] * probe.norm for i in members], dtype=torch.float64)
        made = certify(probe, _rows(text, probe, members), task.within, attained)
        hows.append(made.how)
        if made.upper is None:
            return None, {}, made.how
        uppers |= dict(zip(members, numbers(made.upper / norm), strict=True))
    return max(uppers.values()), uppers, ", ".join(dict.fromkeys(hows))


def _provenance(phi: FeatureMap, text: Context, probe: Probe, task: _Task) -> dict[str, Any]:
    certify = task.certify
    seconds = certify.seconds if certify and math.isfinite(certify.seconds) else None
    asked = {"target": certify.target, "seconds": seconds} if certify else None
    return {
        "map": dict(phi.describe()),
        "text": dict(text.source),
        "n": probe.n,
        "d": probe.d,
        "within": task.within.describe(),
        "words": task.words,
        "positions": "all" if task.positions is None else list(task.positions),
        "text_words": len(text.words),
        "fingerprint": _fingerprint(text.X),
        "words_chosen": "greedily" if task.words > 1 else "every one tried",
        "search_asked_for": asdict(task.search),
        "certify": asked,
        "baseline": task.baseline,
        "seed": task.seed,
        "dtype": str(probe.X.dtype).removeprefix("torch."),
        "device": str(probe.X.device),
        "threads": torch.get_num_threads(),
        "versions": {
            "oneword": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "scipy": version("scipy"),
            "numba": version("numba"),
            "python": platform.python_version(),
        },
    }


def _fingerprint(X: Float[Tensor, "n d"]) -> str:
    """Tells two texts apart whose source says no more than "an array"."""
    return hashlib.sha256(X.detach().double().cpu().contiguous().numpy().tobytes()).hexdigest()[:16]
