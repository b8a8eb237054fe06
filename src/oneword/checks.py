"""Checks of texts, numbers and dtypes, and how values are shown in messages of one line. Without torch."""

from __future__ import annotations

import math
import numbers
import operator
import unicodedata
from collections.abc import Sequence

from oneword.errors import DTypeError, RangeError, TextError
from oneword.errors import printable as printable  # errors need it, and so does everybody who prints

PRECISIONS = ("float32", "float64")  # of maps, and of texts as arrays
MODEL_PRECISIONS = ("float16", "bfloat16", *PRECISIONS)  # of trained models


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


def first_line(error: BaseException) -> str:
    """The first line of what an error says; empty if it says nothing."""
    return next(iter(str(error).splitlines()), "").strip()


def described(error: BaseException) -> str:
    """The type of an error and what it says, in one line."""
    text = one_line(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def shown(value: object) -> str:
    """Any value as it is written in Python, in one short line; a class by its name."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    try:
        return shortened(printable(one_line(repr(value))))
    except Exception:  # of a number of thousands of digits, or a repr of one's own
        return type(value).__name__


def ranges(whole: Sequence[int]) -> str:
    """0, 1, 2, 5 as 0–2, 5."""
    runs: list[list[int]] = []
    for k in whole:
        if runs and k == runs[-1][-1] + 1:
            runs[-1].append(k)
        else:
            runs.append([k])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def layer_ranges(layers: Sequence[int]) -> str:
    """The same for numbers of layers: "layer 3", "layers 0–2, 5"."""
    return f"layer{'s' if len(layers) > 1 else ''} {ranges(layers)}"


def whole_number(name: str, value: object) -> int:
    """The value as an int. Raises RangeError for anything but a whole number of 64 bits; True is none."""
    try:
        if isinstance(value, bool):
            raise TypeError
        whole = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise RangeError(f"expected {name} as a whole number, got {shown(value)}: give an int") from None
    if not -(2**63) <= whole < 2**63:
        raise RangeError(
            f"expected {name} as a whole number of at most 64 bits, got {shown(whole)}: give a smaller one"
        )
    return whole


def number(name: str, value: object, *, finite: bool = True) -> float:
    """The value as a float. Raises RangeError for anything but a real number, `finite` or not; True is none."""
    try:
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise TypeError
        if math.isfinite(found := float(value)) or not finite:
            return found
    except (TypeError, OverflowError):
        pass
    raise RangeError(f"expected {name} as a finite number, got {shown(value)}: give a float")


def flag(name: str, value: object) -> bool:
    """The value as a bool. Raises RangeError for anything but True and False, 1 and 0."""
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    raise RangeError(f"expected {name} as True or False, got {shown(value)}: write one of these")


def check_function(name: str, value: object) -> None:
    """Raise RangeError unless the value can be called."""
    if isinstance(value, type) or not callable(value):
        raise RangeError(f"expected {name} as a function, got {shown(value)}: give one, or leave it out")


def check_precision(dtype: object, *, model: bool = False) -> None:
    """Raise DTypeError unless maps and texts (or, with `model`, trained models) can be in this dtype of torch or numpy.

    Trained models take 16 bits, too: their own rounding is part of what they are, and X and φ(X) are float32. Maps and
    texts need 32: 16 bits round away the small differences of features that are measured.
    """
    name = str(dtype).removeprefix("torch.") if hasattr(dtype, "itemsize") else ""
    if name not in (MODEL_PRECISIONS if model else PRECISIONS):
        halves = " and ".join(each for each in MODEL_PRECISIONS if each not in PRECISIONS)
        wanted = f"dtype {' or '.join(PRECISIONS)} ({halves} for trained models only)"
        got = name if name.isidentifier() else shown(dtype)
        raise DTypeError(f"expected {wanted}, got {got}: choose one of these, or convert to it")
