"""What every allowed word does in the place of each word of a text: the whole outcome of an exhaustive search."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from oneword.errors import RangeError, UnknownNameError


@dataclass(frozen=True, eq=False)
class Substitutions:
    """Relative changes by new word, for each position that was searched.

    | field | meaning |
    |---|---|
    | `names` | the new words, by the number of their tokens |
    | `values` | for each position, S of every word with as many tokens as the old one |
    | `distances` | ‖Δ‖/√d of the same |
    | `tokens` | for each position, how many tokens its word has |
    """

    names: Mapping[int, tuple[str, ...]] = field(repr=False)
    values: Mapping[int, Float[np.ndarray, " words"]] = field(repr=False)
    distances: Mapping[int, Float[np.ndarray, " words"]] = field(repr=False)
    tokens: Mapping[int, int]

    def top(self, position: int, count: int = 10) -> pd.DataFrame:
        """The replacements that change most, largest first."""
        values = self._values(position)
        order = np.argsort(-values, kind="stable")[:count]
        names = self.names[self.tokens[position]]
        return pd.DataFrame(
            {
                "replacement": [names[v] for v in order],
                "value": values[order],
                "distance": self.distances[position][order],
            }
        )

    def of(self, position: int, word: str) -> float:
        """S when the word at this position becomes `word`."""
        return float(self._values(position)[self._index(position, word)])

    def quantile(self, position: int, word: str) -> float:
        """The share of all replacements there that change no more than `word` does."""
        return float(np.mean(self._values(position) <= self.of(position, word)))

    def _values(self, position: int) -> Float[np.ndarray, " words"]:
        if position not in self.values:
            raise RangeError(f"expected a position that was searched, one of {sorted(self.values)}, got {position}")
        return self.values[position]

    def _index(self, position: int, word: str) -> int:
        m = self.tokens[position]
        if word not in self._numbers[m]:
            near = difflib.get_close_matches(word, self.names[m], n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise UnknownNameError(
                f"expected one of the {len(self.names[m]):,} words of {m} token{'s'[: m > 1]} that were tried, "
                f"got {word!r}{hint}"
            )
        return self._numbers[m][word]

    @cached_property
    def _numbers(self) -> Mapping[int, Mapping[str, int]]:
        return {m: {name: v for v, name in reversed(list(enumerate(names)))} for m, names in self.names.items()}

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a file: one array a position."""
        kinds = {"values": self.values, "distances": self.distances}
        return {f"{kind}.{position}": array for kind, group in kinds.items() for position, array in group.items()}

    def to_dict(self) -> dict[str, Any]:
        """What the arrays do not say, ready for JSON."""
        return {
            "names": {str(m): list(names) for m, names in self.names.items()},
            "tokens": {str(position): m for position, m in self.tokens.items()},
        }

    @classmethod
    def from_parts(cls, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Substitutions:
        """Back from a file."""
        tokens = {int(position): int(m) for position, m in about["tokens"].items()}
        return cls(
            names=MappingProxyType({int(m): tuple(names) for m, names in about["names"].items()}),
            values={position: arrays[f"values.{position}"] for position in tokens},
            distances={position: arrays[f"distances.{position}"] for position in tokens},
            tokens=MappingProxyType(tokens),
        )
