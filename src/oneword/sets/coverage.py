"""Which words of a finite set are tried, which are not, and why: a word of m tokens is replaced by words of m only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from oneword.checks import shown
from oneword.errors import RangeError
from oneword.sets.vocabulary import Replacements, Words
from oneword.text.context import Context

MOST = 5  # words named in one line; files name them all


@dataclass(frozen=True)
class Coverage:
    """What an exhaustive search meets.

    | field | meaning |
    |---|---|
    | `pairs` | (position, word) pairs that are tried |
    | `given` | words of the set |
    | `not_tried` | those of them that fit nowhere: word, tokens (None: the encoder does not know it), reason |
    | `without_candidates` | words of the text that no word of the set can replace: position, word, tokens, reason |
    """

    pairs: int
    given: int
    not_tried: list[dict[str, Any]]
    without_candidates: list[dict[str, Any]]

    @classmethod
    def of(cls, within: Replacements, parts: Sequence[tuple[Context, Mapping[int, int | None]]]) -> Coverage:
        """Over texts, or windows of one: their positions that may change, each with the number it is shown by."""
        pairs, names, without = 0, set[str](), list[dict[str, Any]]()
        for text, spots in parts:
            met = set[int]()
            for form, members in within.fitting(text, list(spots)):
                pairs += sum(len(form.names[len(text.rows[i])]) for i in members)
                met |= set(members)
                for m in {len(text.rows[i]) for i in members}:
                    names.update(form.names[m])
            without += [_alone(text, i, spots[i]) for i in spots if i not in met]
        unknown = within.unknown if isinstance(within, Words) else ()
        left = [_left_out(word, m, within) for m, group in within.names.items() for word in group if word not in names]
        left += [{"word": word, "tokens": None, "reason": "unknown to the encoder"} for word in unknown]
        return cls(pairs, within.count + len(unknown), left, without)

    def check(self, within: Replacements) -> Coverage:
        """Itself; refused if nothing is tried."""
        if not self.pairs:
            sizes = ", ".join(map(str, sorted(within.names)))
            raise RangeError(f"expected words of {sizes} token(s) to replace, got none in the text: give other words")
        return self

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def lines(about: Mapping[str, Any]) -> Iterator[str]:
    """`Coverage.to_dict` for a reader: the words that were not tried, and those without candidates."""
    left, without = about["not_tried"], about["without_candidates"]
    if left:
        yield f"{len(left):,} of {about['given']:,} given words not tried anywhere: {_named(left)}"
    if without:
        plural = "words of the text have" if len(without) > 1 else "word of the text has"
        yield f"{len(without):,} {plural} no candidates: {_named(without)}"


def _alone(text: Context, i: int, number: int | None) -> dict[str, Any]:
    m = len(text.rows[i])
    reason = f"{_tokens(m)}; no given word has {m}"
    return {"position": number, "word": text.words[i], "tokens": m, "reason": reason}


def _left_out(word: str, m: int, within: Replacements) -> dict[str, Any]:
    after = " after a space" if within.two_forms else ""
    reason = f"{_tokens(m)}{after}; no word that may change has {'as many' if after else m}"
    return {"word": word, "tokens": m, "reason": reason}


def _tokens(m: int) -> str:
    return f"{m} token{'s'[: m != 1]}"


def _named(entries: Sequence[Mapping[str, Any]]) -> str:
    """The first few, those with the same reason together."""
    by_reason: dict[str, list[str]] = {}
    for entry in entries[:MOST]:
        at = f" at {entry['position']}" if entry.get("position") is not None else ""
        by_reason.setdefault(entry["reason"], []).append(shown(entry["word"]) + at)
    named = "; ".join(f"{', '.join(words)} ({reason})" for reason, words in by_reason.items())
    return named if len(entries) <= MOST else f"{named}; and {len(entries) - MOST:,} more"
