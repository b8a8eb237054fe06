"""Words and tokens of a text, aligned by character offsets.

A word is what stands between spaces, with punctuation, pictographs and Chinese characters apart; what one token covers
is never torn. So for the tokens of any tokenizer (pieces of words, bytes, pieces with a leading space):

- every token belongs to exactly one word, and the tokens of a word follow one another;
- words are in text order, do not overlap, and `text[start:end]` is their exact spelling, without any whitespace;
- gaps and words together are the text again.

Words are found in the text, not in the tokenizer's own words: those hold whole sentences in some tokenizers, and single
digits in others.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tokenizers import Regex, pre_tokenizers

from oneword.errors import RangeError, TextError

Span = tuple[int, int]

# Where words begin and end, before any token is looked at.
SPLITTER = pre_tokenizers.Sequence(
    [
        # \x1c … \x1f are whitespace in Python, and so in words of this package, but not in Unicode.
        pre_tokenizers.Split(Regex(r"[\s\x1c-\x1f]+"), "removed"),
        pre_tokenizers.BertPreTokenizer(),  # punctuation
        # An emoji with what modifies or joins it.
        pre_tokenizers.Split(
            Regex(r"\p{Extended_Pictographic}[\p{Extended_Pictographic}\p{M}\p{Cf}\p{Sk}]*"), "isolated"
        ),
        pre_tokenizers.Split(Regex(r"\p{Han}"), "isolated"),
    ]
)


@dataclass(frozen=True)
class Aligned:
    """The words of a text: where each one stands, and which tokens it consists of."""

    spans: tuple[Span, ...]
    rows: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.spans)


@dataclass(frozen=True)
class Reading:
    """A text, the ids of its tokens, its words, and where the words are that the encoder does not know."""

    text: str
    ids: list[int]
    words: Aligned
    skipped: tuple[Span, ...]

    @cached_property
    def begins(self) -> list[int]:
        """At which token each word begins, and the last one ends."""
        return [*(word[0] for word in self.words.rows), len(self.ids)]

    def skipped_between(self, first: int, last: int) -> tuple[str, ...]:
        """The unknown words from word `first` up to word `last`; those before the first word are the first's."""
        begin = self.words.spans[first][0] if first else 0
        end = self.words.spans[last][0] if last < len(self.words) else len(self.text)
        return tuple(self.text[start:stop] for start, stop in self.skipped if begin <= start < end)

    def cut(self, room: int, stride: int | None) -> list[tuple[int, int]]:
        """Ranges of words of at most `room` tokens, each beginning about `stride` tokens after the one before."""
        begins, count = self.begins, len(self.words)
        for word, span in enumerate(self.words.spans):
            tokens = begins[word + 1] - begins[word]
            if tokens > room:
                raise RangeError(
                    f"expected words of at most {room} tokens, got {tokens} in the one at character {span[0]}: take a "
                    "larger size, or shorten it"
                )
        cuts: list[tuple[int, int]] = []
        first = 0
        while True:
            last = next((word for word in range(first + 1, count) if begins[word + 1] - begins[first] > room), count)
            cuts.append((first, last))
            if last == count:
                return cuts
            goal = begins[last] if stride is None else begins[first] + stride
            first = next(word for word in range(first + 1, last + 1) if begins[word] >= goal or word == last)


def align(text: str, offsets: Sequence[Span]) -> Aligned:
    """The words of a text, given the characters from which each of its tokens stems.

    A token of whitespace alone belongs to the word after it, as the space in front of a word does in most vocabularies;
    at the end of the text to the word before. A token that goes on behind whitespace belongs to the word it begins in.
    Tokens of whitespace alone are no words.
    """
    stems = [_without_space(text, span) for span in offsets]
    if not any(stems):
        return Aligned((), ())
    words = _joined([split for _, split in SPLITTER.pre_tokenize_str(text)] + [stem for stem in stems if stem])
    begins = [start for start, _ in words]
    owners = _in_order([bisect_right(begins, stem[0]) - 1 if stem else None for stem in stems])
    rows: dict[int, list[int]] = {}
    for row, word in enumerate(owners):
        rows.setdefault(word, []).append(row)
    aligned = Aligned(tuple(words[word] for word in rows), tuple(map(tuple, rows.values())))
    check_round_trip(text, aligned, len(offsets))
    return aligned


def check_round_trip(text: str, aligned: Aligned, tokens: int) -> None:
    """Refuse words from which the text, or the order of its tokens, cannot be had back."""
    end, back = 0, []
    for start, stop in aligned.spans:
        back += [text[end:start], text[start:stop]]
        end = stop
    if "".join([*back, text[end:]]) != text or [row for word in aligned.rows for row in word] != list(range(tokens)):
        raise TextError(
            f"expected {tokens} tokens whose offsets follow the text, got words that do not give the text back: "
            "check the tokenizer"
        )


def _without_space(text: str, span: Span) -> Span | None:
    """From the first character that is no whitespace to the next one that is; None if there is none."""
    start, end = span
    while start < end and text[start].isspace():
        start += 1
    stop = start
    while stop < end and not text[stop].isspace():
        stop += 1
    return (start, stop) if start < stop else None


def _joined(spans: list[Span]) -> list[Span]:
    """The spans in order, with those that overlap made one."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start < joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _in_order(owners: list[int | None]) -> list[int]:
    """The owners, never going back, with the empty places filled from behind, and those at the end from before."""
    last = -1
    for row, word in enumerate(owners):
        if word is not None:
            owners[row] = last = max(last, word)
    following = last
    for row in reversed(range(len(owners))):
        word = owners[row]
        following = following if word is None else word
        owners[row] = following
    return [word for word in owners if word is not None]
