"""tokenizer.json, read and tried out: it may hold patterns that fail, or that make a text ever longer.

The library that reads it panics on some files: an error that is no Exception, with a report on the terminal. Here it
becomes one line, and the report is kept off the terminal while a file is read.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tokenizers import Encoding, Tokenizer

from oneword.checks import described, shortened
from oneword.errors import TextError

MOST_BYTES = 200_000_000  # the largest published ones have 35 MB
# Letters, punctuation, digits, spaces, accents, Chinese, an emoji; and what makes a pattern go back and forth.
_TRIED = ("a", "I love her smile, don't I?  (1999)\n\ttwice: café 中文 😀", "a" * 200 + "!", "1" * 200 + "x")
_MOST_GROWTH = 4096  # times that a normaliser may make a text longer
_PANIC = "PanicException"  # of pyo3, which has no name to import
_redirecting = threading.Lock()


def parsed_tokenizer(content: bytes) -> Tokenizer:
    """The tokenizer in a file, which neither truncates nor pads. Raises an Exception, for a panic too."""
    with _reports_hidden():
        try:
            tokenizer = unlimited(Tokenizer.from_buffer(content))
            _check_growth(tokenizer)
            for text in _TRIED:
                tokenizer.encode(text)
        except BaseException as error:
            if type(error).__name__ == _PANIC:
                raise ValueError(str(error)) from None
            raise
    return tokenizer


def unlimited(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer itself, so changed that it neither truncates nor pads."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def tokenised(tokenizer: Tokenizer, text: str, *, special: bool = True) -> Encoding:
    """The tokens of a text, with what the tokenizer adds unless `special` is False. Raises TextError if it fails."""
    try:
        return tokenizer.encode(text, add_special_tokens=special)
    except BaseException as error:
        raise tokenizer_error(error) from None


def tokenised_all(tokenizer: Tokenizer, texts: Sequence[str], *, special: bool = True) -> list[Encoding]:
    """The same for many texts at once, without their places in the text."""
    try:
        return tokenizer.encode_batch_fast(list(texts), add_special_tokens=special)
    except BaseException as error:
        raise tokenizer_error(error) from None


def tokenizer_error(error: BaseException) -> BaseException:
    """What to raise instead of an error of a tokenizer: a TextError of one line, for a panic too."""
    if isinstance(error, Exception) or type(error).__name__ == _PANIC:
        got = shortened(described(error), 200)
        return TextError(f"expected a tokenizer that can read the text, got {got}: take another text or tokenizer")
    return error  # Ctrl-C among them


def _check_growth(tokenizer: Tokenizer) -> None:
    """Refuse normalisers that, one after the other, make a long text of a short one."""
    if tokenizer.normalizer is None:
        return
    growth = _growth(json.loads(tokenizer.normalizer.__getstate__()))
    if growth > _MOST_GROWTH:
        raise ValueError(f"a normaliser that can make a text {growth:.0e} times longer; {_MOST_GROWTH} are allowed")


def _growth(part: dict[str, Any]) -> float:
    """How many times longer a step can make a text of one letter or more."""
    if part.get("type") == "Sequence":
        total = 1.0
        for each in part["normalizers"]:
            total *= _growth(each)
        return total
    if part.get("type") == "Replace":
        plain = len(part["pattern"].get("String", ""))
        # A pattern may match between any two letters; a plain text only where it stands.
        return max(1.0, len(part["content"]) / plain) if plain else 1.0 + len(part["content"])
    return 1.0 + len(part["prepend"]) if part.get("type") == "Prepend" else 1.0


@contextmanager
def _reports_hidden() -> Iterator[None]:
    """Nothing is written to the terminal's descriptor of errors meanwhile; one thread at a time."""
    with _redirecting:
        try:
            kept = os.dup(2)
        except OSError:  # closed: there is nothing to keep clean
            yield
            return
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)
