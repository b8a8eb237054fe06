"""What the tokens of a vocabulary are: which begin a word, which continue one, which the tokenizer adds by itself.

| tokenizer | a word begins | a word goes on |
|---|---|---|
| WordPiece | film | ##s |
| byte-level BPE | Ġfilm (Ġ is the space before it) | s |
| SentencePiece | ▁film | s |
| whole words | film | |
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from tokenizers import Tokenizer, models

from oneword.text import cache

_MARKS = ("Ġ", "▁")
_UNUSED = re.compile(r"\[unused\d+\]")
_BROKEN = "\ufffd"  # bytes that are no character by themselves


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
