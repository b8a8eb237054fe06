"""What a text, a number and a precision have to be, and how anything is shown in a message of one line."""

from __future__ import annotations

import operator
import unicodedata

import torch

from oneword.errors import DTypeError, RangeError, TextError


def check_string(text: object) -> None:
    """Refuse what no tokenizer can read, and what nobody can see."""
    if not isinstance(text, str):
        raise TextError(f"expected a text as a string, got {type(text).__name__}")
    if all(letter.isspace() or unicodedata.category(letter) in ("Cc", "Cf") for letter in text):
        raise TextError(f"expected a text with at least one word, got {shortened(text)!r}: give some words")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TextError(f"expected valid Unicode, got {text[error.start]!r} at character {error.start}") from None


def shortened(text: str) -> str:
    """The beginning of a text, for a message of one line."""
    return text if len(text) <= 40 else text[:40] + "…"


def shown(value: object) -> str:
    """Anything at all, for a message of one line."""
    return shortened(" ".join(repr(value).split()))


def whole_number(name: str, value: object) -> int:
    """A whole number; True is none."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise RangeError(f"expected {name} as a whole number, got {shown(value)}") from None


def check_floating(dtype: object) -> None:
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise DTypeError(f"expected dtype as torch.float32 or torch.float64, got {shown(dtype)}: write one of these")
