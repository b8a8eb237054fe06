"""Sensitivity: what a measurement found, which of its numbers is which kind of bound, and how it was made."""

from __future__ import annotations

import hashlib
import json
import math
import operator
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from oneword.checks import described, shown
from oneword.errors import FileFormatError, RangeError, TextError, UnknownNameError, did_you_mean
from oneword.files import read_regular, write_own, write_whole
from oneword.report import table
from oneword.search.base import Status
from oneword.sets import coverage

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

FORMAT = "oneword.sensitivity/3"


@dataclass(frozen=True, eq=False, repr=False)
class Sensitivity:
    """The word sensitivity of one map at one text.

    | field | paper | meaning |
    |---|---|---|
    | `value` | S_φ(X), Eq. 1 | attained by `delta`: a lower bound ("searched"), or the sup over all tried ("exact") |
    | `upper` | | no allowed change exceeds it; None where no bound is known (`certificate` says why) |
    | `upper_kind` | | "certificate": covers the allowed changes; "ceiling": any change of any size; "exact"; "none" |
    | `positions` | i | the words whose change attains `value`; `rows` are their rows of X |
    | `delta` | Δ | (d,) for one row, (m, d) for several |
    | `baseline` | | mean over random allowed changes at `positions` (NaN: none drawn), or over all of a finite set |
    | `per_word` | | one line a word, changed alone: word, rows, value, upper, baseline (and replacement, distance) |
    | `deltas` | | where vectors were searched: the best change of each word by itself, by position; not kept in files |
    | `substitutions` | | of a finite set of words: what each of them does everywhere; else None |
    | `provenance` | | map, text, constraint, seed, versions, dtype, device, wall time; `tried`: pairs, words left out |
    """

    value: float
    upper: float | None
    baseline: float
    positions: tuple[int, ...]
    rows: tuple[int, ...]
    delta: Float[Tensor, "*m d"]
    per_word: pd.DataFrame
    kind: str
    status: Status
    certificate: str
    provenance: Mapping[str, Any]
    upper_kind: str = "none"
    substitutions: Substitutions | None = None
    deltas: Mapping[int, Float[Tensor, "*m d"]] = field(default_factory=dict, repr=False)

    @property
    def position(self) -> int:
        """The changed word, or the first of several in the order of the text."""
        return self.positions[0]

    @property
    def word(self) -> str:
        """The changed word, or the changed words in the order of the text."""
        names = dict(zip(self.per_word["position"].tolist(), self.per_word["word"].tolist(), strict=True))
        return " ".join(str(names[i]) for i in sorted(self.positions))

    @property
    def replacement(self) -> str | None:
        """The word that changes most, where words were tried; None where the new word is a vector."""
        if self.substitutions is None:
            return None
        return str(self.per_word.set_index("position")["replacement"][self.position])

    def replacements(self, position: int, top: int = 10) -> pd.DataFrame:
        """The words that change most in the place of the one at `position`: replacement, value, distance (‖Δ‖/√d)."""
        return self._tried.top(position, top)

    def of(self, position: int, word: str) -> float:
        """S when the word at `position` becomes `word`."""
        return self._tried.of(position, word)

    def quantile(self, position: int, word: str) -> float:
        """The share of all words tried at `position` that change no more than `word` does."""
        return self._tried.quantile(position, word)

    @property
    def _tried(self) -> Substitutions:
        if self.substitutions is None:
            raise RangeError("expected a result over words, got one over vectors: measure within=Vocabulary.of(…)")
        return self.substitutions

    @property
    def ratio(self) -> float:
        """upper/value: 1 would mean that both are the sup."""
        return math.nan if self.upper is None or self.value == 0 else self.upper / self.value

    def to_pandas(self) -> pd.DataFrame:
        """A copy of `per_word`."""
        return self.per_word.copy()

    def summary(self) -> dict[str, Any]:
        """One line of a table of many measurements."""
        about = dict(self.provenance["map"])
        return {
            "map": about.pop("map"),
            **about,
            "n": self.provenance["n"],
            "d": self.provenance["d"],
            "value": self.value,
            "upper": self.upper,
            "upper_kind": self.upper_kind,
            "positions": self.positions,
            "word": self.word,
            "baseline": self.baseline,
            "kind": self.kind,
            "status": str(self.status),
            "seconds": self.provenance["seconds"],
        }

    def plot(self) -> Figure:
        """The words and their sensitivities: value, certificate and random changes."""
        from oneword.report.words.chart import per_word

        return per_word(self.per_word, title=self._headline())

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write `path` (JSON) and, beside it, the arrays (safetensors); each file appears whole or not at all.

        Links are replaced, not followed. Raises FileFormatError if a file cannot be written.
        """
        path = Path(path)
        arrays = path.with_name(path.name + ".safetensors")
        tensors = {"delta": self.delta.detach().cpu().contiguous()}
        if self.substitutions is not None:
            tensors |= {name: torch.from_numpy(array) for name, array in self.substitutions.to_arrays().items()}
        content = save(tensors)
        data = self.to_dict() | {"arrays": arrays.name}
        data["sha256"] = _checksum(data, content)
        write_own(arrays, content)
        write_whole(path, json.dumps(data, indent=1, allow_nan=False).encode())
        return path

    def to_dict(self) -> dict[str, Any]:
        """Everything but the arrays, ready for JSON."""
        return {
            "format": FORMAT,
            "value": self.value,
            "upper": self.upper,
            "baseline": None if math.isnan(self.baseline) else self.baseline,
            "kind": self.kind,
            "status": self.status.name,
            "certificate": self.certificate,
            "upper_kind": self.upper_kind,
            "positions": list(self.positions),
            "word": self.word,
            "rows": list(self.rows),
            "per_word": table.to_records(self.per_word),
            "provenance": dict(self.provenance),
            "substitutions": None if self.substitutions is None else self.substitutions.to_dict(),
        }

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Sensitivity:
        """Read what `save` wrote.

        Raises FileFormatError if a file cannot be read, or is not what was written.
        """
        if not isinstance(path, str | os.PathLike):
            raise FileFormatError(f"expected the name of a result, got {shown(path)}: give the file that save wrote")
        path = Path(path)
        try:
            data = json.loads(read_regular(path))
            if data["format"] != FORMAT:
                raise FileFormatError(f"expected a file of format {FORMAT}, got {data['format']!r} in {path}")
            content = read_regular(path.with_name(data["arrays"]))
            if data.pop("sha256") != _checksum(data, content):
                got = "another checksum: save it again"
                raise FileFormatError(f"expected {path.name} and {data['arrays']} as it was written, got {got}")
            arrays = load(content)
            delta = arrays.pop("delta")
            tried = data["substitutions"]
            same = ("value", "upper", "kind", "certificate", "upper_kind", "provenance")
            return cls(
                **{name: data[name] for name in same},
                baseline=math.nan if data["baseline"] is None else data["baseline"],
                positions=tuple(data["positions"]),
                rows=tuple(data["rows"]),
                delta=delta,
                per_word=table.from_records(data["per_word"]),
                status=Status[data["status"]],
                substitutions=Substitutions.from_parts(tried, {k: v.numpy() for k, v in arrays.items()})
                if tried
                else None,
            )
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError, SafetensorError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or described(error)
            raise FileFormatError(f"expected a result written by Sensitivity.save, got {path} ({reason})") from None

    def _headline(self) -> str:
        """Map, size, and what the numbers are a sup over."""
        about = self.provenance
        kind = f"{about['map']['map']} ({about['map']['score']})" if "score" in about["map"] else about["map"]["map"]
        able, words = len(self.per_word), about["words"]
        which = "" if able == about["text_words"] else f", {able} of {about['text_words']} words may change"
        together = "" if words == 1 else f", {words} words at once"
        return f"{kind}, n = {about['n']}, d = {about['d']}, {about['within']['shown']}{which}{together}"

    def _parts(self) -> tuple[str, list[str]]:
        sign = "=" if self.kind == "exact" else "≥"
        bracket = f"S {sign} {self.value:.4f}"
        if self.upper is not None and self.kind != "exact":
            ratio = f" ({self.ratio:.2f}×)" if math.isfinite(self.ratio) else ""
            if self.upper_kind == "ceiling" and self.upper > 0:
                ratio = f" (ceiling for changes of any size; {self.value / self.upper:.0%} of it reached)"
            bracket += f", S ≤ {self.upper:.4f}{ratio}"
        at = f"at {self.word!r} (position {', '.join(map(str, self.positions))})"
        if self.replacement is not None:
            at += f" → {self.replacement!r}"
        lines = [bracket, at, *([] if self.kind == "exact" else [f"{self.kind}, {self.status}"]), self.certificate]
        if self.status in (Status.STEP_LIMIT, Status.UNCONFIRMED, Status.ZERO_GRADIENT, Status.ROUNDING):
            lines.append(self.status.remedy)
        if "tried" in self.provenance:
            lines += coverage.lines(self.provenance["tried"])
        below = self.provenance.get("rounding", {}).get("positions_below", [])
        if below and self.status is not Status.ROUNDING:
            lines.append(f"{len(below)} of {len(self.per_word)} words below the rounding floor, value 0")
        if len(self.positions) > 1:
            lines.append("below: each word alone")
        return self._headline(), lines

    def __repr__(self) -> str:
        head, lines = self._parts()
        return f"Sensitivity({head}: {'; '.join(lines)})"

    def __rich__(self) -> RenderableType:
        return table.rich(self.per_word, *self._parts())

    def _repr_html_(self) -> str:
        return table.html(self.per_word, *self._parts())


def numbers(values: Tensor) -> list[float]:
    """A tensor as plain numbers."""
    out: list[float] = values.detach().to(torch.float64).cpu().tolist()
    return out


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
        groups = about["groups"]
        return cls(
            names=MappingProxyType({i: names[groups[str(i)]] for i in tokens}),
            values={position: arrays[f"values.{position}"] for position in tokens},
            distances={position: arrays[f"distances.{position}"] for position in tokens},
            tokens=MappingProxyType(tokens),
        )


def _checksum(data: Mapping[str, Any], arrays: bytes) -> str:
    """Of the content of both files: as JSON, not as the bytes of its file."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode() + b"\n" + arrays).hexdigest()


def _count(count: object) -> int:
    try:
        whole = operator.index(count)  # type: ignore[arg-type]
    except TypeError:
        whole = -1
    if whole < 0:
        raise RangeError(f"expected how many words to list, a whole number of at least 0, got {count!r}")
    return whole
