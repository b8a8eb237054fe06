"""What an audit is asked: which edits, at which lengths, against which noise."""

from __future__ import annotations

from dataclasses import dataclass

from oneword.auditing.rules import chosen
from oneword.errors import RangeError
from oneword.experiments.cell import real, whole

LENGTHS = (16, 32, 64, 128, 256)
TEXTS = 60  # two models of six layers in less than five minutes, even on one core


@dataclass(frozen=True)
class Question:
    """
    | field | meaning |
    |---|---|
    | `lengths` | tokens, special ones included, to which each text is cut at the border of a word |
    | `texts` | how many texts at most, drawn with the seed |
    | `types` | rules that make edits; None: all |
    | `each` | edits of each type, text and length, at most |
    | `share` | of texts in which a signal is to be heard, for the advice on chunks |
    | `quantile` | of a text's noise edits: the level above which a signal is heard; 0.5: the typical noise edit |
    | `resamples` | of the bootstrap over texts |
    | `top` | worst examples kept for each type |
    """

    lengths: tuple[int, ...] = LENGTHS
    texts: int = TEXTS
    types: tuple[str, ...] | None = None
    each: int = 1
    share: float = 0.95
    quantile: float = 0.5
    resamples: int = 1999
    top: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        lengths = tuple(sorted({whole("lengths", n, 4) for n in self.lengths}))
        if not lengths:
            raise RangeError("expected at least one length, got none: give some, for example 16,32,64")
        object.__setattr__(self, "lengths", lengths)
        for name, least in (("texts", 1), ("each", 1), ("resamples", 99), ("top", 0), ("seed", 0)):
            whole(name, getattr(self, name), least)
        real("share", self.share, 0.01, 0.999)
        real("quantile", self.quantile, 0.0, 1.0)
        chosen(self.types)  # a type that is none is refused before a model is read
