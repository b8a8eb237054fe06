"""Checks of texts, numbers and dtypes, and how values are shown in messages of one line. Without torch."""

from __future__ import annotations

import operator
import re
import unicodedata

from oneword.errors import DTypeError, RangeError, TextError

# What a terminal obeys instead of showing it: control characters (ESC, BEL, CR, and C1 such as U+009B), line and
# paragraph separators, marks that turn the direction of all that follows; and halves of surrogate pairs, which cannot
# be written at all.
_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)


def check_string(text: object) -> None:
    """Raise TextError unless the text is a string of valid Unicode with at least one visible character."""
    if not isinstance(text, str):
        raise TextError(f"expected a text as a string, got {type(text).__name__}")
    if all(letter.isspace() or unicodedata.category(letter) in ("Cc", "Cf") for letter in text):
        raise TextError(f"expected a text with at least one word, got {shortened(text)!r}: give some words")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise TextError(f"expected valid Unicode, got {text[error.start]!r} at character {error.start}") from None


def shortened(text: str, most: int = 41) -> str:
    """The text, cut to at most `most` characters; "…" marks the cut."""
    return text if len(text) <= most else text[: most - 1] + "…"


def one_line(text: str) -> str:
    """The text with single spaces for all runs of spaces and line breaks."""
    return " ".join(text.split())


def printable(text: str) -> str:
    """The text with what a terminal would obey instead of showing, line breaks too, written as in Python: \\x1b."""
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def first_line(error: BaseException) -> str:
    """The first line of what an error says; empty if it says nothing."""
    return next(iter(str(error).splitlines()), "").strip()


def described(error: BaseException) -> str:
    """The type of an error and what it says, in one line."""
    text = one_line(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def shown(value: object) -> str:
    """Any value as it is written in Python, in one short line."""
    return shortened(one_line(repr(value)))


def whole_number(name: str, value: object) -> int:
    """The value as an int. Raises RangeError for anything but a whole number; True is none."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise RangeError(f"expected {name} as a whole number, got {shown(value)}: give an int") from None


def check_floating(dtype: object) -> None:
    """Raise DTypeError unless this is a torch.dtype of floating point."""
    if getattr(dtype, "is_floating_point", None) is not True:
        raise DTypeError(f"expected dtype as torch.float32 or torch.float64, got {shown(dtype)}: write one of these")
