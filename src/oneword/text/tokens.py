"""What the tokens of a vocabulary are: which begin a word, which continue one, which the tokenizer adds by itself.

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
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from tokenizers import Tokenizer, models

from oneword.text import cache

_MARKS = ("Ġ", "▁")
_UNUSED = re.compile(r"\[unused\d+\]")
_BYTE = re.compile(r"<0x[0-9A-F]{2}>")
_BROKEN = "\ufffd"  # bytes that are no character by themselves
# What a word is written behind to see its tokens there. Several, as a tokenizer may join a word with one of them.
_BEFORE_SPACE = ("a", "the", "I")
_BEFORE_LETTERS = ("", "(", '"', "-")
_BEFORE_SIGNS = ("", "a", "e", "s")


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
            found = self.tokenizer.encode(text)
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
            found = self.tokenizer.encode(anchor + word, add_special_tokens=False)
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
        return whole if decoder is None else str(decoder.decode(list(tokens))).strip() or whole

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
