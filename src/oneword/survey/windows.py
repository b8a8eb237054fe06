"""Texts as what is measured: windows, and in each the words that may change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from oneword.errors import RangeError
from oneword.survey.question import Question
from oneword.text.checks import check_string
from oneword.text.context import Context
from oneword.text.encoders import Encoder


@dataclass(frozen=True, eq=False)
class Window:
    """Part of a text: `indices` are the numbers of its words in the whole text, None for special tokens."""

    text: int
    number: int
    context: Context
    indices: tuple[int | None, ...]
    positions: tuple[int, ...]  # the words of the window that may change


def windows_of(texts: Sequence[str], encoder: Encoder, question: Question) -> list[Window]:
    """All windows of all texts; a word is in exactly one of them."""
    for text in texts:
        check_string(text)
    lengths = [len(encoder.tokenizer.encode(text).ids) for text in texts]
    if sum(lengths) > question.most:
        raise RangeError(
            f"expected at most {question.most:,} tokens in all, got {sum(lengths):,}: give fewer texts (--limit), "
            "shorter ones, or allow more (--most)"
        )
    size = min(question.window, encoder.longest)
    found = [window for number, text in enumerate(texts) for window in _windows(number, text, size, encoder, question)]
    if not any(window.positions for window in found):
        asked = "special tokens alone" if question.positions is None else f"positions {list(question.positions)}"
        raise RangeError(f"expected words that may change, got {asked}: count the words of the text from 0")
    return [window for window in found if window.positions]


def _windows(text: int, content: str, size: int, encoder: Encoder, question: Question) -> list[Window]:
    found, before = [], 0
    for number, context in enumerate(encoder.windows(content, size=size, d=question.d, dtype=question.dtype)):
        context = replace(context, X=context.X.to(question.device))
        context = context.by_token() if question.per_token else context
        own = [i for i, special in enumerate(context.special) if not special]
        indices: list[int | None] = [None] * len(context.words)
        for index, i in enumerate(own, start=before):
            indices[i] = index
        before += len(own)
        asked = question.positions
        able = [
            i
            for i, index in enumerate(indices)
            if (index is None and question.special and asked is None)
            or (index is not None and (asked is None or index in asked))
        ]
        found.append(Window(text, number, context, tuple(indices), tuple(able)))
    return found
