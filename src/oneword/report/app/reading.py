"""What one map or model makes of a text, as far as it is known: the tables behind every piece of the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from oneword.report.profile.profiled import Profiled
from oneword.report.words.tables import Line, records

WORDS = [
    "start", "end", "word", "sup", "upper", "random_ball", "best_word", "replacement", "kind", "random_word",
    "first_order", "below_noise",
]  # fmt: skip
# What may colour a text, under which name; the first that is known does, unless another is chosen.
SHADES = {"sup": "worst change found", "best_word": "best real word", "random_word": "random word"}
Replacement = tuple[str, float]  # a word, and how far it moves the representation


@dataclass(frozen=True, eq=False)
class Reading:
    """One map or model at one text.

    | field | meaning |
    |---|---|
    | `key`, `title` | which map or model: for programs, for people |
    | `words` | one line a word that stands in the text: `WORDS` |
    | `profiled` | of a model: all its tables, layers among them; None for maps |
    | `replacements` | by the start of a word: the real words that do most in its place, best first |
    | `notes` | what was left out |
    """

    key: str
    title: str
    words: pd.DataFrame
    profiled: Profiled | None = None
    replacements: Mapping[int, Sequence[Replacement]] = field(default_factory=dict)
    notes: Sequence[str] = ()

    def at(self, start: int) -> Line | None:
        """The line of the word that stands there."""
        found = self.words[(self.words["start"] <= start) & (self.words["end"] > start)]
        return next(iter(records(found)), None)

    def lacks(self, start: int) -> bool:
        """Whether this is a model that was not asked yet for real words in the place of that word."""
        line = self.at(start)
        return self.profiled is not None and line is not None and line["start"] not in self.replacements

    def with_replacements(self, start: int, best: Sequence[Replacement], kind: str) -> Reading:
        """The same, with the best of the words that were tried in the place of one: none if there are none to try."""
        if not best:
            return replace(self, replacements={**self.replacements, start: ()})
        words, here = self.words.copy(), self.words["start"] == start
        for name, value in (("best_word", best[0][1]), ("replacement", best[0][0]), ("kind", kind)):
            words[name] = words[name].mask(here, value)
        return replace(self, words=words, replacements={**self.replacements, start: tuple(best)})

    def scales(self) -> dict[str, tuple[float, float]]:
        """The ends of each scale of colours that is known for this text."""
        loud = self.words[self.words["below_noise"] != True]  # noqa: E712  or a gap
        values = {name: loud[name].dropna() for name in SHADES if loud[name].notna().mean() > 0.5}
        # Words that do nearly the same look nearly the same.
        return {name: (min(float(x.min()), 0.9 * float(x.max())), float(x.max())) for name, x in values.items()}
