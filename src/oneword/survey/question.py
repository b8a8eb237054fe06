"""What a survey is asked: which maps, which seeds, what may change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from oneword.bounds.certificate import Certify
from oneword.errors import RangeError
from oneword.maps import registry
from oneword.sets.constraints import Ball, Constraint
from oneword.survey.effort import Effort

if TYPE_CHECKING:
    from oneword.sets.vocabulary import Replacements

WINDOW = 250  # tokens: the longest texts of the paper
MOST = 25_000  # tokens in all: about an hour


@dataclass(frozen=True)
class Question:
    """
    | field | meaning |
    |---|---|
    | `maps` | names as in `maps.registry` |
    | `seeds` | draws of the weights, from `seed` on; None: as the length suggests |
    | `within` | the ball or sphere of S_ball |
    | `words` | the real words of S_word; None: no such search |
    | `effort`, `certify` | None: as the length suggests |
    | `positions` | words of the text that may change, as `positions` of `sensitivity`; None: all but special tokens |
    | `special` | whether [CLS] and [SEP] may change, too |
    | `per_token` | every token is a word of its own |
    | `window`, `most` | tokens at once, and tokens in all |
    | `top` | replacements kept for each word |
    | `d` | the first coordinates only; None: all |
    """

    maps: tuple[str, ...]
    seeds: int | None = None
    seed: int = 0
    within: Constraint = Ball()  # noqa: RUF009
    words: Replacements | None = None
    effort: Effort | None = None
    certify: Certify | None = None
    positions: tuple[int, ...] | None = None
    special: bool = False
    per_token: bool = False
    window: int = WINDOW
    most: int = MOST
    top: int = 3
    d: int | None = None
    dtype: torch.dtype = torch.float32  # twice as fast; six digits, of which a person reads two
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("seeds", "top", "most"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise RangeError(f"expected --{name} of at least 1, got {value}")
        for name in registry.each_once(self.maps):
            registry.find(name)  # a name that is none is refused before an encoder is read
        if self.window < 3:
            raise RangeError(f"expected --window of at least 3 tokens, [CLS] and [SEP] included, got {self.window}")

    def effort_for(self, tokens: int) -> Effort:
        """What is spent on a window of this many tokens."""
        effort = self.effort or Effort.usual(tokens)
        return effort if self.certify is None else replace(effort, certify=self.certify)
