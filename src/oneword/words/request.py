"""The parameters of one measurement of words, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from oneword.bounds.certificate import Certify
from oneword.checks import check_precision, flag, shortened, shown, whole_number
from oneword.devices import check_device
from oneword.errors import RangeError
from oneword.sets.constraints import Ball, Constraint, constraint
from oneword.sets.vocabulary import Replacements, Vocabulary, Words
from oneword.text.encoders import Encoder
from oneword.words.effort import Effort

WINDOW = 250  # tokens: the longest texts of the paper
MOST = 25_000  # tokens in all: about an hour


@dataclass(frozen=True)
class Request:
    """What `measure` is asked, apart from texts and subjects.

    | field | meaning |
    |---|---|
    | `within` | the allowed changes: a Ball, "ball", "sphere", "ball:0.5" (in √d; in a word's norm for models) |
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

    within: Constraint | str | None = None
    words: Replacements | Sequence[str] | Literal[False] | None = None
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
    dtype: torch.dtype = torch.float32
    device: str = "cpu"

    def __post_init__(self) -> None:
        for name in ("seeds", "top", "most", "together"):
            value = getattr(self, name)
            if not (value is None and name == "seeds") and whole_number(name, value) < 1:
                raise RangeError(f"expected {name} of at least 1, got {value}")
        for name in ("special", "per_token"):
            flag(name, getattr(self, name))
        whole_number("seed", self.seed)
        if (self.seeds or 0) > MOST:
            raise RangeError(f"expected at most {MOST:,} seeds, got {self.seeds:,}: give fewer")
        check_precision(self.dtype, model=True)  # of maps: where these are known
        check_device(self.device)
        if whole_number("window", self.window) < 3:
            raise RangeError(f"expected window of at least 3 tokens, [CLS] and [SEP] included, got {self.window}")
        words = self.words
        listed = isinstance(words, Sequence) and not isinstance(words, str)
        if not (words is None or words is False or listed or isinstance(words, Replacements)):
            raise RangeError(
                f"expected words= a Vocabulary, a list of words, None (all) or False (none), got {shown(words)}"
            )
        if not (self.within is None or isinstance(self.within, str | Constraint)):
            raise RangeError(
                f"expected within= a Ball, or a name such as 'ball:0.5' or 'sphere', got {shown(self.within)}"
            )
        if isinstance(self.within, str):
            constraint(*self._named, 1)  # a name that is none is refused before the work
        if not (self.certify is None or isinstance(self.certify, Certify)):
            raise RangeError(f"expected certify= a Certify, or None for that of the effort, got {shown(self.certify)}")
        Effort.of(self.effort, 1)  # an unknown level is refused before the work

    def effort_for(self, tokens: int) -> Effort:
        """What is spent on a text or window of this many tokens."""
        return Effort.of(self.effort, tokens, self.certify)

    def map_constraint(self, d: int) -> Constraint:
        """The allowed changes for maps: ‖Δ‖ ≤ √d unless others were asked for."""
        return self.within if isinstance(self.within, Constraint) else constraint(*self._named, d)

    def model_constraint(self) -> Constraint:
        """The allowed changes for models: ‖Δ‖ ≤ ‖x‖, the norm of the word, unless others were asked for."""
        if isinstance(self.within, Constraint):
            return self.within
        name, radius = self._named
        if name != "ball":
            raise RangeError(f"expected within='ball' for models, whose words have norms of their own, got {name!r}")
        return Ball(relative=1.0 if radius is None else radius)

    @property
    def _named(self) -> tuple[str, float | None]:
        """The name of a set and its radius, for "ball:0.5"; the ball unless another was named."""
        name, _, radius = str(self.within or "ball").partition(":")
        try:
            return name, float(radius) if radius else None
        except ValueError:
            raise RangeError(
                f"expected a number after {shortened(name)}:, got {shown(radius)}: write ball:0.5, for example"
            ) from None

    def real_words(self, encoder: Encoder | None) -> Replacements | None:
        """The real words to try, as this encoder takes them; None where there are none."""
        if self.words is False or (self.words is None and encoder is None):
            return None
        if isinstance(self.words, Replacements):
            return self.words.encoded_by(encoder)
        return Vocabulary.of(encoder) if self.words is None else Words.of(encoder, list(self.words))
