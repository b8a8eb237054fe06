"""What every allowed word does in the place of each word of a text: the whole outcome of an exhaustive search."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from oneword.errors import RangeError, TextError, UnknownNameError, did_you_mean


@dataclass(frozen=True, eq=False)
class Substitutions:
    """Relative changes by new word, for each position that was searched.

    | field | meaning |
    |---|---|
    | `names` | for each position, the new words: as many tokens as the old one has, in the form they take there |
    | `values` | S of each of them |
    | `distances` | ‖Δ‖/√d of the same |
    | `tokens` | for each position, how many tokens its word has |
    """

    names: Mapping[int, tuple[str, ...]] = field(repr=False)
    values: Mapping[int, Float[np.ndarray, " words"]] = field(repr=False)
    distances: Mapping[int, Float[np.ndarray, " words"]] = field(repr=False)
    tokens: Mapping[int, int]

    def top(self, position: int, count: int = 10) -> pd.DataFrame:
        """The replacements that change most, largest first."""
        values, names = self._values(position), self.names[position]
        order = self.leading(position, count)
        return pd.DataFrame(
            {
                "replacement": [names[v] for v in order],
                "value": values[order],
                "distance": self.distances[position][order],
            }
        )

    def leading(self, position: int, count: int) -> Int[np.ndarray, " some"]:
        """Their places among `names`; of equal ones the first."""
        values, most = self._values(position), _count(count)
        if 0 < most < len(values):  # sorting all of them would take most of the time of a short search
            least = np.partition(values, len(values) - most)[len(values) - most]
            some = np.flatnonzero(values >= least)
            return some[np.argsort(-values[some], kind="stable")][:most]
        return np.argsort(-values, kind="stable")[:most]

    def of(self, position: int, word: str) -> float:
        """S when the word at this position becomes `word`."""
        return float(self._values(position)[self._index(position, word)])

    def quantile(self, position: int, word: str) -> float:
        """The share of all replacements there that change no more than `word` does."""
        return float(np.mean(self._values(position) <= self.of(position, word)))

    def _values(self, position: int) -> Float[np.ndarray, " words"]:
        try:
            return self.values[operator.index(position)]
        except (TypeError, KeyError):
            raise RangeError(
                f"expected a position that was searched, one of {sorted(self.values)}, got {position!r}"
            ) from None

    def _index(self, position: int, word: str) -> int:
        if not isinstance(word, str):
            raise TextError(f"expected one word as a string, got {word!r}: write .of({position}, 'good')")
        m, names = self.tokens[position], self.names[position]
        numbers = self._numbers[self._groups[position]]
        if word not in numbers:
            raise UnknownNameError(
                f"expected one of the {len(names):,} words of {m} token{'s'[: m > 1]} that were tried, "
                f"got {word!r}{did_you_mean(word, names)}"
            )
        return numbers[word]

    @cached_property
    def _groups(self) -> Mapping[int, str]:
        """Positions with the same new words, named by the number of tokens; a second set of that number has a dash."""
        named: dict[int, str] = {}  # by identity: the words of a vocabulary are one object, and many
        groups: dict[int, str] = {}
        for position, names in self.names.items():
            group = str(self.tokens[position])
            while group in named.values() and named.get(id(names)) != group:
                group += "'"
            groups[position] = named.setdefault(id(names), group)
        return groups

    @cached_property
    def _numbers(self) -> Mapping[str, Mapping[str, int]]:
        groups = {group: self.names[position] for position, group in self._groups.items()}
        return {group: {name: v for v, name in reversed(list(enumerate(names)))} for group, names in groups.items()}

    def to_arrays(self) -> dict[str, np.ndarray]:
        """For a file: one array a position."""
        kinds = {"values": self.values, "distances": self.distances}
        return {f"{kind}.{position}": array for kind, group in kinds.items() for position, array in group.items()}

    def to_dict(self) -> dict[str, Any]:
        """What the arrays do not say, ready for JSON."""
        return {
            "names": {group: list(self.names[position]) for position, group in self._groups.items()},
            "tokens": {str(position): m for position, m in self.tokens.items()},
            "groups": {str(position): group for position, group in self._groups.items()},
        }

    @classmethod
    def from_parts(cls, about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> Substitutions:
        """Back from a file."""
        tokens = {int(position): int(m) for position, m in about["tokens"].items()}
        names = {group: tuple(words) for group, words in about["names"].items()}
        groups = about.get("groups", {})  # older files have one set of words for each number of tokens
        return cls(
            names=MappingProxyType({i: names[groups.get(str(i), str(m))] for i, m in tokens.items()}),
            values={position: arrays[f"values.{position}"] for position in tokens},
            distances={position: arrays[f"distances.{position}"] for position in tokens},
            tokens=MappingProxyType(tokens),
        )


def _count(count: object) -> int:
    try:
        whole = operator.index(count)  # type: ignore[arg-type]
    except TypeError:
        whole = -1
    if whole < 0:
        raise RangeError(f"expected how many words to list, a whole number of at least 0, got {count!r}")
    return whole
