"""The parameters of one measurement, and which words of a text it concerns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from oneword.bounds.certificate import Certify
from oneword.checks import check_function, shown, whole_number
from oneword.errors import RangeError
from oneword.maps.base import Probe
from oneword.progress import Progress, silent
from oneword.search.base import Search
from oneword.search.defaults import DefaultSearch
from oneword.sets.constraints import Constraint
from oneword.sets.vocabulary import Replacements
from oneword.text.context import Context

MOST_RANDOM = 10_000_000  # random changes of each word


@dataclass(frozen=True)
class Task:
    """The parameters of one measurement, as `sensitivity` takes them; None and "quick" are what suits the map."""

    within: Constraint | Replacements | None = None
    words: int = 1
    positions: Sequence[int] | None = None
    search: Search | Literal["quick"] | None = None
    certify: Certify | Literal[False] = Certify()  # noqa: RUF009
    baseline: int = 64
    seed: int = 0
    progress: Progress = silent

    def __post_init__(self) -> None:
        if self.search is None or (isinstance(self.search, str) and self.search == "quick"):
            object.__setattr__(self, "search", DefaultSearch(quick=self.search is not None))
        check_function("progress", self.progress)
        for name in ("words", "baseline", "seed"):
            object.__setattr__(self, name, whole_number(name, getattr(self, name)))
        if self.positions is not None:
            object.__setattr__(self, "positions", numbered(self.positions))
        if self.within is not None and not isinstance(self.within, Constraint | Replacements):
            raise RangeError(
                "expected within= a Ball, a Sphere or a Vocabulary (also Words, Vectors, a Constraint of one's own), "
                f"got {shown(self.within)}: give one of these"
            )
        if not isinstance(self.search, Search):
            raise RangeError(f'expected search= an Ascent or another Search, "quick" or None, got {shown(self.search)}')
        if self.certify is not False and not isinstance(self.certify, Certify):
            raise RangeError(f"expected certify= a Certify or False, got {shown(self.certify)}")
        if not 0 <= self.baseline <= MOST_RANDOM:
            raise RangeError(f"expected baseline from 0 to {MOST_RANDOM:,}, got {self.baseline}")

    @property
    def searching(self) -> Search:
        """The search, once None and "quick" are resolved."""
        assert isinstance(self.search, Search)
        return self.search

    def set_for(self, probe: Probe, text: Context) -> Constraint | Replacements:
        """What may change; for a map that has words of its own, as it reads them."""
        if isinstance(self.within, Replacements):
            return self.within.encoded_by(text.encoder)
        return probe.allowed(self.within)


def check_words(words: int, able: float) -> None:
    """Refuse that more words change at once than may change."""
    if not 1 <= words <= able:
        raise RangeError(f"expected words out of 1 … {able}, the words that may change, got {words}")


def numbered(positions: object) -> list[int]:
    """Positions as a list of whole numbers; RangeError for anything else."""
    if not isinstance(positions, Iterable):
        raise RangeError(f"expected positions as a list, got {shown(positions)}: write positions=[…]")
    return [whole_number("positions", i) for i in positions]


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
