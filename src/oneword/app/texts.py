"""Texts of visitors: samples, and limits on what they may hand in. What is wrong is one line."""

from __future__ import annotations

from pathlib import Path

from oneword.errors import FileFormatError, RangeError, TextError

MOST_WORDS = 300
MOST_CHARACTERS = 4_000
MOST_BYTES = 100_000  # of a file
MOST_UPLOADED = 10 * MOST_BYTES  # of what is taken at all, so that a file that is a little too long is told so
_INSTEAD = "shorten it, or measure it with the command `oneword measure`, which takes longer texts"


def check_text(text: str) -> str:
    """The text without space around it; refused if there is none, or too much of it."""
    text = text.strip()
    if not text:
        raise TextError("expected a text of at least one word, got none: type one, or pick a sample")
    words = len(text.split())
    if words > MOST_WORDS:
        raise RangeError(f"expected at most {MOST_WORDS} words, got {words:,}: {_INSTEAD}")
    if len(text) > MOST_CHARACTERS:
        raise RangeError(f"expected at most {MOST_CHARACTERS:,} characters, got {len(text):,}: {_INSTEAD}")
    return text


def read_upload(path: Path) -> str:
    """The text of a file that a visitor chose."""
    size = path.stat().st_size
    if size > MOST_BYTES:
        raise FileFormatError(f"expected a text file of at most {MOST_BYTES:,} bytes, got {size:,}: {_INSTEAD}")
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise FileFormatError("expected a text file in UTF-8, got other bytes: save it as plain text") from None
    if any(not (c.isprintable() or c.isspace()) for c in text):
        raise FileFormatError("expected a text file, got control characters: save it as plain text")
    return check_text(text)


SAMPLES = {
    "a review": (
        "The plot is thin and the ending comes too soon, but I would not call it a bad film: the two leads are warm, "
        "quick and funny, and she steals every scene."
    ),
    "a negation": "I would not say that this is not a good film.",
    "a name": "Anna told the doctor that Peter had never been to Paris.",
    "an instruction": "Answer in one short sentence, and never mention the price unless the customer asks for it.",
    "a number": "Take two tablets every six hours, and no more than eight tablets in one day.",
}
