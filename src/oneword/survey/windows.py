"""Texts as what is measured: windows, and in each the words that may change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from oneword.checks import check_string
from oneword.errors import RangeError
from oneword.survey.question import Question
from oneword.text.context import Context
from oneword.text.encoders import Encoder


@dataclass(frozen=True, eq=False)
class Window:
    """Part of a text: `indices` are the positions of its words in the whole text, as `encoder.encode` counts them.

    Special tokens between windows are none of the whole text: None.
    """

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
        raise RangeError(f"expected words that may change, got {asked}: count as # does in the table")
    return [window for window in found if window.positions]


def _windows(text: int, content: str, size: int, encoder: Encoder, question: Question) -> list[Window]:
    found, at = [], 0
    contexts = list(encoder.windows(content, size=size, d=question.d, dtype=question.dtype))
    for number, context in enumerate(contexts):
        context = replace(context, X=context.X.to(question.device))
        context = context.by_token() if question.per_token else context
        own = [i for i, special in enumerate(context.special) if not special]
        first = 0 if number == 0 else own[0]
        last = len(context.words) if number == len(contexts) - 1 else own[-1] + 1
        indices = [at + i - first if first <= i < last else None for i in range(len(context.words))]
        at += last - first
        asked = question.positions
        able = [
            i
            for i, index in enumerate(indices)
            if (question.special or not context.special[i] if asked is None else index in asked)
        ]
        found.append(Window(text, number, context, tuple(indices), tuple(able)))
    return found
