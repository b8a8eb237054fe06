"""Words and tokens: which tokens each word of a text consists of, and what the tokens of a vocabulary are.

A word is what stands between spaces, with punctuation, pictographs and Chinese characters apart; what one token covers
is never torn. So for the tokens of any tokenizer (pieces of words, bytes, pieces with a leading space):

- every token belongs to exactly one word, and the tokens of a word follow one another;
- words are in text order, do not overlap, and `text[start:end]` is their exact spelling, without any whitespace;
- gaps and words together are the text again.

Words are found in the text (`align`), not in the tokenizer's own words: those hold whole sentences in some tokenizers,
and single digits in others. `TokenKinds` tells the tokens of a vocabulary apart: which begin a word, which continue
one, which the tokenizer adds by itself.

| tokenizer | a word begins | a word goes on |
|---|---|---|
| WordPiece | film | ##s |
| byte-level BPE | Ġfilm (Ġ is the space before it) | s |
| SentencePiece | ▁film | s |
| whole words | film | |

Where the space is part of a token, a word has two forms: after a space, and attached, as "film" in "(film" or at the
beginning of a text to which the tokenizer adds no space.
"""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from oneword.errors import RangeError, TextError
from oneword.text import cache
from oneword.text.tokenizer_files import tokenised, tokenizer_error

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
_MARKS = ("Ġ", "▁")
_UNUSED = re.compile(r"\[unused\d+\]")
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_BROKEN = "\ufffd"  # bytes that are no character by themselves
# What a word is written behind to see its tokens there. Several, as a tokenizer may join a word with one of them.
_BEFORE_SPACE = ("a", "the", "I")
_BEFORE_LETTERS = ("", "(", '"', "-")
_BEFORE_SIGNS = ("", "a", "e", "s")


@dataclass(frozen=True)
class Aligned:
    """The words of a text: where each one stands, and which tokens it consists of."""

    spans: tuple[Span, ...]
    rows: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.spans)


@dataclass(frozen=True)
class TokenisedText:
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
                got = f"{tokens} in the one at character {span[0]}: take a larger size, or shorten it"
                raise RangeError(f"expected words of at most {room} tokens, got {got}")
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
        got = "words that do not give the text back: check the tokenizer"
        raise TextError(f"expected {tokens} tokens whose offsets follow the text, got {got}")


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


# The tokens of a vocabulary -------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TokenKinds:
    """The tokens of a tokenizer, told apart."""

    tokenizer: Tokenizer

    @cached_property
    def key(self) -> str:
        """Two tokenizers with the same key turn the same text into the same ids."""
        return cache.digest(self.tokenizer.to_str())

    @cached_property
    def around(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The ids that the tokenizer puts before and after every text; both empty if it adds none."""
        # Any text will do that leaves a token; "a" does not in every vocabulary.
        for text in chain(("a",), self._vocabulary):
            found = tokenised(self.tokenizer, text)
            own = [row for row, added in enumerate(found.special_tokens_mask) if not added]
            if own:
                return tuple(found.ids[: own[0]]), tuple(found.ids[own[-1] + 1 :])
        return (), ()

    def words(self) -> list[int]:
        """The ids that are whole words: no pieces, no special and no unused tokens."""
        return sorted(
            i
            for token, i in self._vocabulary.items()
            if token not in self._special and not self._continues(token) and self._is_readable(token)
        )

    @cached_property
    def attached_words(self) -> list[int]:
        """The ids that are whole words where no space precedes; none if a word has one form only.

        Without the mark a word looks like a piece of one: it counts where the vocabulary has it with the mark too.
        """
        if not self._mark:
            return []
        known = {self.joined([str(self.tokenizer.id_to_token(i))]) for i in self.words()}
        return sorted(
            i
            for token, i in self._vocabulary.items()
            if token not in self._special
            and not token.startswith(self._mark)
            and not _BYTE.fullmatch(token)
            and self._is_readable(token)
            and ((name := self.joined([token])) in known or _is_punctuation(name))
        )

    @property
    def has_two_forms(self) -> bool:
        """Whether a word after a space has another token than without one."""
        return bool(self._mark)

    def is_attached(self, token: str) -> bool:
        """Whether a word that begins with this token has no space before it, where words have two forms."""
        return bool(self._mark) and token in self._vocabulary and not token.startswith(self._mark)

    def spelled(self, word: str, *, attached: bool = False) -> tuple[int, ...]:
        """The tokens of a word inside a text; none if one of them stands for unknown words, or is special.

        Punctuation never takes a token for the space before it alone: it is written without one.
        """
        if attached and self._mark:
            letters = word[:1].isalnum()
            ids = self._behind(_BEFORE_LETTERS if letters else _BEFORE_SIGNS, word, marked=False)
        else:
            ids = self._behind([f"{anchor} " for anchor in _BEFORE_SPACE], word, marked=True)
            if ids and self.tokenizer.id_to_token(ids[0]) == self._mark and _is_punctuation(word):
                return self.spelled(word, attached=True)
        return () if self._refused.intersection(ids) else ids

    def _behind(self, anchors: Sequence[str], word: str, *, marked: bool) -> tuple[int, ...]:
        """The tokens of a word behind the first of the anchors that it stays apart from."""
        for anchor in anchors:
            found = tokenised(self.tokenizer, anchor + word, special=False)
            begin = len(anchor.rstrip())  # the space is the word's
            own = next((row for row, (start, _) in enumerate(found.offsets) if start >= begin), len(found))
            apart = all(end <= begin for _, end in found.offsets[:own])
            if apart and own < len(found) and (marked or self.is_attached(found.tokens[own])):
                return tuple(found.ids[own:])
        return ()

    def rows_of_words(self, tokens: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """For each word the tokens it consists of: a piece that continues a word belongs to the one before it."""
        words: list[list[int]] = []
        for row, token in enumerate(tokens):
            alone = token in self._special or (row > 0 and tokens[row - 1] in self._special)
            if words and not alone and self._continues(token):
                words[-1].append(row)
            else:
                words.append([row])
        return tuple(map(tuple, words))

    def joined(self, tokens: Sequence[str]) -> str:
        """The word that these pieces make up."""
        if self._prefix:
            return tokens[0] + "".join(token[len(self._prefix) :] for token in tokens[1:])
        decoder = self.tokenizer.decoder
        whole = "".join(tokens)
        try:
            return whole if decoder is None else str(decoder.decode(list(tokens))).strip() or whole
        except BaseException as error:
            raise tokenizer_error(error) from None

    def _continues(self, token: str) -> bool:
        if self._prefix:
            return token.startswith(self._prefix)
        return bool(self._mark) and not token.startswith(self._mark)

    def _is_readable(self, token: str) -> bool:
        if not self._mark:
            return not _UNUSED.fullmatch(token)
        return (
            token != self._mark and _BROKEN not in (whole := self.joined([token])) and not whole.startswith(self._mark)
        )

    @cached_property
    def _vocabulary(self) -> dict[str, int]:
        return dict(self.tokenizer.get_vocab())

    @cached_property
    def _special(self) -> frozenset[str]:
        return frozenset(token.content for token in self.tokenizer.get_added_tokens_decoder().values() if token.special)

    @cached_property
    def _refused(self) -> frozenset[int]:
        """The ids of special tokens, and of the one for unknown words."""
        model = self.tokenizer.model
        if isinstance(model, models.Unigram):  # which does not tell Python
            unknown = json.loads(self.tokenizer.to_str())["model"].get("unk_id")
        else:
            unknown = self._vocabulary.get(getattr(model, "unk_token", None) or "")
        return frozenset(i for i in (unknown, *map(self._vocabulary.get, self._special)) if i is not None)

    @cached_property
    def _prefix(self) -> str:
        return getattr(self.tokenizer.model, "continuing_subword_prefix", None) or ""

    @cached_property
    def _mark(self) -> str:
        """What stands for the space before a word; empty if nothing does."""
        if self._prefix or isinstance(self.tokenizer.model, models.WordLevel):
            return ""
        counts = {mark: sum(token.startswith(mark) for token in self._vocabulary) for mark in _MARKS}
        best = max(_MARKS, key=counts.__getitem__)
        return best if counts[best] else ""


def _is_punctuation(word: str) -> bool:
    return all(unicodedata.category(letter).startswith("P") for letter in word)
