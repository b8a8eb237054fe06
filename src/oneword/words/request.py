"""The parameters of one measurement of words, checked."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from oneword.bounds.certificate import Certify
from oneword.checks import whole_number
from oneword.errors import RangeError
from oneword.sets.constraints import Ball, Constraint
from oneword.sets.vocabulary import Replacements
from oneword.words.effort import Effort

WINDOW = 250  # tokens: the longest texts of the paper
MOST = 25_000  # tokens in all: about an hour


@dataclass(frozen=True)
class Request:
    """What `measure` is asked, apart from texts and subjects.

    | field | meaning |
    |---|---|
    | `within` | the allowed changes of a word; None: the ball of radius √d for maps, of its own norm for models |
    | `words` | the real words to try; None: the vocabulary of each encoder; False: no real words |
    | `positions` | words that may change, as `positions` of `sensitivity`; None: all but special tokens |
    | `special` | whether special tokens ([CLS], [SEP]) may change, too |
    | `per_token` | every token is a word of its own (maps only) |
    | `together` | how many words change at once, chosen greedily; 1: one at a time |
    | `effort` | "quick", "usual", "thorough", or an `Effort` |
    | `certify` | replaces that of the effort |
    | `seeds` | draws of random weights, from `seed` on; None: as the length suggests |
    | `window`, `most` | tokens at once (maps), and tokens in all |
    | `top` | replacements kept for each word |
    | `d` | the first coordinates only (maps); None: all |
    """

    within: Constraint | None = None
    words: Replacements | bool | None = None
    positions: tuple[int, ...] | None = None
    special: bool = False
    per_token: bool = False
    together: int = 1
    effort: str | Effort = "usual"
    certify: Certify | None = None
    seeds: int | None = None
    seed: int = 0
    window: int = WINDOW
    most: int = MOST
    top: int = 3
    d: int | None = None
    dtype: torch.dtype = torch.float32  # twice as fast; six digits, of which a person reads two
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("seeds", "top", "most", "together"):
            value = getattr(self, name)
            if value is not None and whole_number(name, value) < 1:
                raise RangeError(f"expected {name} of at least 1, got {value}")
        if self.window < 3:
            raise RangeError(f"expected window of at least 3 tokens, [CLS] and [SEP] included, got {self.window}")
        if self.words is True:
            raise RangeError("expected words= a Vocabulary, a list of words, None (all) or False (none), got True")
        Effort.of(self.effort, 1)  # an unknown level is refused before the work

    def effort_for(self, tokens: int) -> Effort:
        """What is spent on a text or window of this many tokens."""
        return Effort.of(self.effort, tokens, self.certify)

    @property
    def constraint(self) -> Constraint:
        """The allowed changes, for maps."""
        return Ball() if self.within is None else self.within
