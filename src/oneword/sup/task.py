"""What was asked for, and which words of a text it concerns."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from oneword.bounds.certificate import Certify
from oneword.errors import RangeError
from oneword.maps.base import Probe
from oneword.search.ascent import Ascent
from oneword.sets.constraints import Ball, Constraint, Sphere
from oneword.sets.vocabulary import Replacements
from oneword.text.context import Context

Report = Callable[[str, float], None]  # what is going on, and the fraction of it done


@dataclass(frozen=True)
class Task:
    """What was asked for."""

    within: Constraint | Replacements
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
        for name, kind in (("within", Constraint | Replacements), ("search", Ascent)):
            if not isinstance(getattr(self, name), kind):
                wanted = "a Ball, a Sphere or a Vocabulary (also Words, Vectors)" if name == "within" else "an Ascent"
                raise RangeError(f"expected {name}= {wanted}, got {getattr(self, name)!r}")
        if self.certify is not False and not isinstance(self.certify, Certify):
            raise RangeError(f"expected certify= a Certify or False, got {self.certify!r}")
        if self.baseline < 0:
            raise RangeError(f"expected baseline ≥ 0, got {self.baseline}")

    def suited_to(self, probe: Probe, text: Context) -> Task:
        """The same task for a map that has words and norms of its own."""
        within = self.within
        if isinstance(within, Replacements):
            return replace(self, within=within.encoded_by(text.encoder))
        if probe.own_norms and isinstance(within, Sphere) and within.norm is None:
            raise RangeError("expected Sphere(norm=…) or a Ball for a model whose words have norms of their own")
        return replace(self, within=Ball(relative=1.0)) if probe.own_norms and within == Ball() else self


def length2_of(probe: Probe, rows: Int[Tensor, "p m"]) -> Float[Tensor, " p"]:
    """What a squared ‖Δ‖ is relative to: d, or the rows' mean squared norm where words have norms of their own."""
    if probe.own_norms:
        return probe.X[rows].square().sum(-1).mean(-1)
    return torch.full((len(rows),), float(probe.d), dtype=probe.X.dtype, device=probe.X.device)


def _whole(name: str, value: object) -> int:
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise RangeError(f"expected whole numbers for {name}, got {value!r}") from None


def spots_of(text: Context, probe: Probe, task: Task) -> list[int]:
    """The words that may change, in order. What a tokenizer adds is no word that another could replace."""
    able = [i for i, rows in enumerate(text.rows) if set(rows) <= set(probe.positions)]
    if task.positions is None:
        return [i for i in able if not (text.special[i] and isinstance(task.within, Replacements))]
    asked = sorted(set(task.positions))
    wrong = [i for i in asked if i not in able]
    if wrong or not asked:
        allowed = f"0 … {len(text.words) - 1}" if len(able) == len(text.words) else str(able)
        raise RangeError(f"expected positions out of {allowed}, got {wrong if wrong else 'none'}")
    return asked


def by_size(text: Context, spots: Sequence[int]) -> list[list[int]]:
    """Words that own the same number of rows are searched together."""
    groups: dict[int, list[int]] = {}
    for i in spots:
        groups.setdefault(len(text.rows[i]), []).append(i)
    return list(groups.values())


def rows_of(text: Context, probe: Probe, words: Sequence[int]) -> Int[Tensor, "p m"]:
    return torch.tensor([text.rows[i] for i in words], device=probe.X.device)


def delta_of(probe: Probe, rows: tuple[int, ...], y: Float[Tensor, "rows d"]) -> Float[Tensor, "*m d"]:
    delta = (y - probe.X[list(rows)]).detach()
    return delta[0] if len(rows) == 1 else delta


def table_of(text: Context, spots: list[int], **columns: list[float] | pd.Series[Any]) -> pd.DataFrame:
    words = {"position": spots, "word": [text.words[i] for i in spots], "rows": [text.rows[i] for i in spots]}
    return pd.DataFrame(words | columns)
