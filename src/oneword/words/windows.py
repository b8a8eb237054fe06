"""Texts as maps read them: windows, and in each the words that may change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from oneword.checks import check_string
from oneword.errors import RangeError
from oneword.text.context import Context
from oneword.text.encoders import Encoder
from oneword.text.tokenizer_files import tokenised
from oneword.words.request import Request


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


def windows_of(texts: Sequence[str | Context], encoder: Encoder | None, request: Request) -> list[Window]:
    """All windows of all texts; a word is in exactly one of them. A Context is one window, as it is."""
    found: list[Window] = []
    for number, text in enumerate(texts):
        if isinstance(text, Context):
            found.append(_whole(number, text, request))
        else:
            assert encoder is not None, "texts need an encoder"
            found += _windows(number, text, encoder, request)
    if not any(window.positions for window in found):
        asked = "special tokens alone" if request.positions is None else f"positions {list(request.positions)}"
        raise RangeError(f"expected words that may change, got {asked}: count as # does in the table")
    return [window for window in found if window.positions]


def check_size(lengths: Sequence[int], most: int) -> None:
    """Refuse more tokens than were allowed, before the work."""
    if sum(lengths) > most:
        raise RangeError(
            f"expected at most {most:,} tokens in all, got {sum(lengths):,}: give fewer or shorter texts, or raise most"
        )


def tokens_of(text: str | Context, encoder: Encoder) -> int:
    """How many tokens a text has."""
    if isinstance(text, Context):
        return text.n
    check_string(text)
    return len(tokenised(encoder.tokenizer, text).ids)


def _whole(number: int, context: Context, request: Request) -> Window:
    context = replace(context, X=context.X.to(request.device, request.dtype))
    context = context.by_token() if request.per_token else context
    indices = tuple(range(len(context.words)))
    return Window(number, 0, context, indices, _able(context, indices, request))


def _windows(text: int, content: str, encoder: Encoder, request: Request) -> list[Window]:
    found, at = [], 0
    size = min(request.window, encoder.longest)
    contexts = list(encoder.windows(content, size=size, d=request.d, dtype=request.dtype))
    for number, context in enumerate(contexts):
        context = replace(context, X=context.X.to(request.device))
        context = context.by_token() if request.per_token else context
        own = [i for i, special in enumerate(context.special) if not special]
        first = 0 if number == 0 else own[0]
        last = len(context.words) if number == len(contexts) - 1 else own[-1] + 1
        indices = tuple(at + i - first if first <= i < last else None for i in range(len(context.words)))
        at += last - first
        found.append(Window(text, number, context, indices, _able(context, indices, request)))
    return found


def _able(context: Context, indices: Sequence[int | None], request: Request) -> tuple[int, ...]:
    asked = request.positions
    return tuple(
        i
        for i, index in enumerate(indices)
        if (request.special or not context.special[i] if asked is None else index in asked)
    )
