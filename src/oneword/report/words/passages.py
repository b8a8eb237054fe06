"""A long text in parts, so that a page need not list its words: sentences, or windows where there are too many of them.

Sentences end after a word with . ! ? … before white space, or where a line ends: a rule for summaries, not a parser.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from oneword.checks import one_line, shortened

LONG = 300  # words: a text with more is shown in parts, and of its words those that do most
TOP = 30  # how many of them
MOST = 60  # parts
SHOWN = 70  # letters of a part

Span = tuple[int | None, int | None]  # where a word begins and ends in the text; a special token is nowhere


@dataclass(frozen=True)
class Part:
    """Words `first` … `last` of a text, and how they begin."""

    first: int
    last: int
    shown: str


@dataclass(frozen=True)
class Parts:
    """All words of a text, in order; `kind` is "sentence" or "window"."""

    kind: str
    parts: tuple[Part, ...]

    def summary(self, words: Sequence[str], values: Sequence[float]) -> list[dict[str, Any]]:
        """For each part the mean and the largest of the values of its words, and which word has it."""
        out = []
        for part in self.parts:
            known = [k for k in range(part.first, part.last + 1) if not math.isnan(values[k])]
            most = max(known, key=lambda k: values[k], default=None)
            out.append(
                {
                    "mean": sum(values[k] for k in known) / len(known) if known else math.nan,
                    "max": math.nan if most is None else values[most],
                    "word": "–" if most is None else words[most],
                }
            )
        return out


def parts_table(
    text: str, spans: Sequence[Span], words: Sequence[str], values: Sequence[float], what: str
) -> dict[str, Any]:
    """What `parts.html.j2` shows: a line a part, with a summary of the values of its words."""
    found = parts_of(text, spans)
    rows = found.summary(words, values)
    most = max((row["mean"] for row in rows if row["mean"] > 0), default=1.0)
    for part, row in zip(found.parts, rows, strict=True):
        width = "0" if math.isnan(row["mean"]) else f"{3 * row['mean'] / most:.2f}"
        row |= {"shown": part.shown, "words": part.last - part.first + 1, "width": width}
    return {"kind": found.kind, "what": what, "rows": rows}


def parts_of(text: str, spans: Sequence[Span]) -> Parts:
    """The sentences of a text, or `MOST` windows of its words where that is fewer."""
    sentences = list(_sentences(text, spans))
    if len(sentences) <= MOST and len(sentences) > 1:
        return Parts("sentence", tuple(sentences))
    size = math.ceil(len(spans) / MOST)
    firsts = range(0, len(spans), size)
    ends = [(first, min(first + size, len(spans)) - 1) for first in firsts]
    return Parts("window", tuple(_part(text, spans, first, last) for first, last in ends))


def _sentences(text: str, spans: Sequence[Span]) -> Iterator[Part]:
    first = 0
    for k, (_, end) in enumerate(spans):
        following = spans[k + 1][0] if k + 1 < len(spans) else len(text)
        if end is None or following is None:
            continue
        ends = text[end - 1] in ".!?…" and text[end : end + 1].strip() == ""
        if k + 1 == len(spans) or ends or "\n" in text[end:following]:
            yield _part(text, spans, first, k)
            first = k + 1
    if first < len(spans):
        yield _part(text, spans, first, len(spans) - 1)


def _part(text: str, spans: Sequence[Span], first: int, last: int) -> Part:
    starts = [start for start, _ in spans[first : last + 1] if start is not None]
    ends = [end for _, end in spans[first : last + 1] if end is not None]
    line = one_line(text[starts[0] : ends[-1]]) if starts else ""
    return Part(first, last, shortened(line, SHOWN))
