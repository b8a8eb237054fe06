"""A cell: one measurement, small enough to be made again, with everything in its spec that decides its numbers.

Cells are frozen and checked when they are made. Their key is a hash of the spec, so equal specs are the same cell, in
whatever order, process or run they come up.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar

from oneword.checks import shown, whole_number
from oneword.errors import RangeError, UnknownNameError, did_you_mean
from oneword.experiments.own_maps import OwnMap
from oneword.maps.activations import ACTIVATIONS
from oneword.maps.registry import MAPS
from oneword.result import Sensitivity

# Raised when the same spec comes to mean other numbers: cells of an earlier format are then made again.
FORMAT = 3

WORDS = ("gaussian", "clustered", "corpus")


@dataclass(frozen=True, kw_only=True)
class Cell(ABC):
    """What every kind of cell has."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def title(self) -> str:
        """For messages."""

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """Do the work: the rows of the table, in an order that never changes."""

    @abstractmethod
    def estimate_bytes(self) -> int:
        """Memory that `rows` needs at its peak, roughly, the interpreter and its libraries included."""

    @abstractmethod
    def estimate_cost(self) -> float:
        """Seconds that `rows` takes on one core, roughly."""

    def inputs(self) -> dict[str, str] | None:
        """Fingerprints of what the cell reads, if it knows; None leaves the question to its encoder and corpus."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """The spec, ready for JSON."""
        spec = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"kind": self.kind} | {
            name: list(value) if isinstance(value, tuple) else value.fingerprint if isinstance(value, OwnMap) else value
            for name, value in spec.items()
            if name != "own" or value is not None  # so that the keys of all other cells are what they were
        }

    @cached_property
    def key(self) -> str:
        """The name of the cell: the same for the same spec, everywhere."""
        spec = {"format": FORMAT, **self.to_dict()}
        text = json.dumps(spec, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _set(self, **values: Any) -> None:
        """Only while the cell is made: values in the one form that the key is made from."""
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _set_whole(self, **least: int) -> None:
        """The same for whole numbers, each with its lower limit."""
        self._set(**{name: whole(name, getattr(self, name), lowest) for name, lowest in least.items()})


@dataclass(frozen=True, kw_only=True)
class TextCell(Cell):
    """A cell about a map and texts.

    | field | meaning |
    |---|---|
    | `map` | a name of `maps.registry.MAPS`, or the name of a map of one's own |
    | `own` | that map of one's own; in a file its fingerprint |
    | `n`, `d` | words of a text, and their dimension |
    | `words_from` | Gaussian words, clustered words, or a corpus |
    | `encoder`, `corpus` | as Encoder.load and Corpus.load take them, for words from a corpus |
    | `k`, `activation` | of rf and drf: n·d and relu unless given |
    | `depths` | of drf: one draw of the deepest map, and rows for each depth |
    | `trial`, `seed` | which draw of text and weights |
    | `memory` | bytes that a batch may take; part of the spec, because batch sizes change the last bits |
    """

    map: str
    n: int
    d: int
    words_from: str = "gaussian"
    encoder: str | None = None
    corpus: str | None = None
    k: int | None = None
    activation: str | None = None
    depths: tuple[int, ...] = ()
    trial: int = 0
    seed: int = 0
    memory: int = 1 << 30
    own: OwnMap | None = None

    def __post_init__(self) -> None:
        if self.own is None:
            choice("map", self.map, MAPS)
        choice("words_from", self.words_from, WORDS)
        self._set_whole(n=2, d=1, trial=0, seed=0, memory=1 << 20)
        if self.words_from == "corpus":
            self._set(encoder=name_or_path("encoder", self.encoder or "minilm"))
            self._set(corpus=name_or_path("corpus", self.corpus or "imdb-embedded"))
        else:
            self._refuse("words_from = corpus", encoder=self.encoder, corpus=self.corpus)
        if self.layered:
            self._set(k=self.n * self.d if self.k is None else whole("k", self.k, 1))
            self._set(activation=choice("activation", self.activation or "relu", ACTIVATIONS))
        else:
            self._refuse("map = rf or drf", k=self.k, activation=self.activation)
        self._set(depths=tuple(sorted({whole("depths", depth, 1) for depth in several("depths", self.depths)})))
        if self.own is not None or not MAPS[self.map].has_depth:
            self._refuse("map = drf", depths=self.depths)
        elif not self.depths:
            raise RangeError("expected the depths of drf, got none: give depths, for example [2, 4, 8]")

    @property
    def layered(self) -> bool:
        return self.own is None and MAPS[self.map].has_blocks

    @property
    def title(self) -> str:
        return f"{self.kind} of {self.map} at n = {self.n}, d = {self.d}, trial {self.trial} ({self.words_from} words)"

    def common(self) -> dict[str, Any]:
        """The columns that say what a row is about."""
        names = ("map", "words_from", "n", "d", "k", "activation", "trial", "seed")
        return {name: getattr(self, name) for name in names}

    @staticmethod
    def _refuse(needed: str, **given: object) -> None:
        for name, value in given.items():
            if value not in (None, ()):
                raise RangeError(f"expected {name} with {needed} only, got {name} = {value}: leave it out")


def searched(found: Sensitivity) -> dict[str, Any]:
    """The columns that say what a search found."""
    names = ("value", "upper", "position", "word", "certificate")
    return {name: getattr(found, name) for name in names} | {"status": str(found.status)}


def choice(name: str, value: object, known: Iterable[str]) -> str:
    """The value, if it is one of the known names."""
    names = [str(name) for name in known]
    if isinstance(value, str) and value in names:
        return value
    raise UnknownNameError(f"expected {name} out of {', '.join(names)}, got {shown(value)}{did_you_mean(value, names)}")


def whole(name: str, value: object, least: int, most: int = (1 << 63) - 1) -> int:
    """A whole number of that range."""
    number = whole_number(name, value)
    if not least <= number <= most:
        above = "" if most == (1 << 63) - 1 else f" and ≤ {most}"
        raise RangeError(f"expected {name} a whole number ≥ {least}{above}, got {shown(value)}")
    return number


def real(name: str, value: object, least: float, most: float = math.inf) -> float:
    """A finite number of that range."""
    try:
        number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    except OverflowError:  # a whole number of hundreds of digits
        number = math.inf
    if not (least <= number <= most and math.isfinite(number)):
        above = f" and ≤ {most:g}" if math.isfinite(most) else ""
        raise RangeError(f"expected {name} a number ≥ {least:g}{above}, got {shown(value)}")
    return number


def several(name: str, values: object) -> Sequence[Any]:
    """A list."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise RangeError(f"expected {name} as a list, got {shown(values)}: write [{shown(values)}]")
    return values


def name_or_path(name: str, value: object) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value:
        raise RangeError(f"expected {name} as a name or a path, got {shown(value)}")
    return value
