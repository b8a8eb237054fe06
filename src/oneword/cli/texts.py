"""Where the texts of a command come from: the command itself, a file, or standard input."""

from __future__ import annotations

import sys
from pathlib import Path

from oneword.errors import FileFormatError, RangeError, TextError, UnknownNameError
from oneword.files import read_named

ONE_TEXT = (
    "expected one text, got none or several: give it in quotes, or --file F, or --gaussian N,D, or pipe it in; "
    'for example oneword measure "I love her much"'
)


WHOLE = "*"  # as a column: the whole file is one text


def texts_of(text: str | None, file: Path | None, column: str | None, limit: int | None) -> list[str]:
    """All texts that were given, at most `limit` of them."""
    whole = column == WHOLE
    if limit is not None and limit < 1:
        raise RangeError(f"expected --limit of at least 1, got {limit}")
    if column is not None and file is None and text != "-":
        raise RangeError("expected --column with --file, got no file: name one")
    if text == "-":
        found = _lines(_read_input(), whole)
    elif text is not None:
        found = [text]
    elif file is not None:
        found = _of_file(file, column)
    else:
        found = _lines(_piped(), whole)
    return found if limit is None else found[:limit]


def word_list(file: Path) -> list[str]:
    """Words of a file, one a line; empty lines are left out."""
    words = [line.strip() for line in _read(file).splitlines() if line.strip()]
    if not words:
        raise FileFormatError(f"expected one word a line, got none in {file.name}: write some")
    return words


def _of_file(file: Path, column: str | None) -> list[str]:
    table = file.suffix.lower() in (".csv", ".tsv", ".jsonl", ".parquet")
    if column == WHOLE or (column is None and not table):
        return _lines(_read(file), column == WHOLE)
    from oneword.text.corpora import Corpus

    if not file.is_file():
        raise FileFormatError(f"expected a file of texts, got {file}: there is no such file")
    try:
        return list(Corpus.load(str(file), text=column or "text", label=None).texts)
    except UnknownNameError as error:  # a column that is not there
        raise UnknownNameError(f"{error}; on the command line with --column") from None


def _lines(content: str, whole: bool) -> list[str]:
    """One text a line, or all of it as one."""
    found = [content] if whole else [line for line in content.splitlines() if line.strip()]
    if not found or not content.strip():
        raise TextError("expected a text with at least one word, got nothing but whitespace: give some words")
    return found


def _read(file: Path) -> str:
    try:
        return read_named(file, 1_000_000_000).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise FileFormatError(
            f"expected a readable text file in UTF-8, got {file} ({reason}): check its name and how it was saved"
        ) from None


def _piped() -> str:
    """What was piped in where no text was named; nothing at all is as good as no pipe."""
    content = "" if sys.stdin.isatty() else _read_input()
    if not content:
        raise RangeError(ONE_TEXT)
    return content


def _read_input() -> str:
    try:
        return sys.stdin.read()
    except OSError:  # closed, or not to be read
        return ""
    except UnicodeDecodeError as error:
        raise FileFormatError(f"expected UTF-8 on standard input, got {error}: convert it") from None
