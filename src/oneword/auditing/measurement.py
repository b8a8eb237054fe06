"""Cut texts to lengths, edit them, and measure how far each edit moves the vector of one encoder.

Texts are cut between words, as a chunker would do. Vectors are computed block by block and dropped once the changes are
known, so memory use does not grow with the number of texts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import pandas as pd
from pydantic import Field, field_validator

from oneword.auditing.edits import NOISE, Edit, difference, edits_by, rules_of
from oneword.auditing.encoders import AuditedEncoder
from oneword.errors import RangeError, TextError
from oneword.progress import Progress
from oneword.random import stream
from oneword.validation import FileModel

EDITED = ["text", "length", "tokens", "characters", "type", "kind", "made", "where", "was", "became"]
COLUMNS = [*EDITED, "visible", "change", "cosine"]
# Said of a table without lines, too, in which numbers would be objects.
_DTYPES = {"text": "int64", "length": "int64", "tokens": "int64", "visible": "bool", "change": "float64",
           "cosine": "float64"}  # fmt: skip
_BLOCK = 1 << 15  # tokens at a time, roughly: enough texts of one length to run together
NO_CHANGE = 1e-6  # a relative change below this counts as none: the last bits of float32
_LOOKED_AT = 20  # times as many texts as wanted: enough to find long ones, and a large corpus is not read to its end
_WORD_ENDS = re.compile(r"\S(?=\s|$)")


LENGTHS = (16, 32, 64, 128)
TEXTS = 30  # with these lengths a model of six layers answers in less than half a minute, even on one core


_MOST = 1_000_000_000  # of what is counted: enough for every text, and a number that arrays can have


class Settings(FileModel):
    """The parameters of an audit; `ow.audit` explains them."""

    lengths: Annotated[tuple[Annotated[int, Field(ge=4, le=_MOST)], ...], Field(strict=False, min_length=1)] = LENGTHS
    most_texts: Annotated[int, Field(ge=1, le=_MOST)] = TEXTS
    edits: Annotated[tuple[str, ...], Field(strict=False)] | None = None
    each: Annotated[int, Field(ge=1, le=_MOST)] = 1
    share: Annotated[float, Field(ge=0.01, le=0.999)] = 0.95
    noise_quantile: Annotated[float, Field(ge=0.0, le=1.0)] = 0.5
    resamples: Annotated[int, Field(ge=99, le=1_000_000)] = 1999
    examples: Annotated[int, Field(ge=0, le=_MOST)] = 3
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0

    @property
    def bootstrap(self) -> dict[str, int]:
        """The arguments of every bootstrap."""
        return {"resamples": self.resamples, "seed": self.seed}

    @field_validator("lengths")
    @classmethod
    def _in_order(cls, lengths: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(set(lengths)))

    @field_validator("edits")
    @classmethod
    def _known(cls, edits: tuple[str, ...] | None) -> tuple[str, ...] | None:
        rules_of(edits)  # an unknown type is refused before a model is loaded
        return edits


# Texts cut to lengths -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """The beginning of a text; `length` is the most tokens it may have; 0 means the whole text."""

    text: int
    length: int
    words: str
    tokens: tuple[Hashable, ...]


def sample_texts(
    texts: Sequence[str], encoder: AuditedEncoder, lengths: Sequence[int], most: int, seed: int
) -> list[str]:
    """At most `most` different texts, in an order drawn with the seed, those that can be cut to every length first."""
    different = list(dict.fromkeys(text for text in texts if text.strip()))
    if not different:
        raise TextError("expected at least one text with a word in it, got none: give some")
    order = stream(seed, "audit", "sample").permutation(len(different))
    long: list[str] = []
    rest: list[str] = []
    for k in order[: _LOOKED_AT * most]:
        fitting = len(encoder.tokens(different[k])) >= lengths[-1]
        (long if fitting else rest).append(different[k])
        if len(long) == most:
            break
    return [*long, *rest][:most]


def lengths_within(encoder: AuditedEncoder, lengths: Sequence[int]) -> tuple[int, ...]:
    """The lengths that fit into the window of the encoder."""
    found = tuple(n for n in lengths if n <= encoder.longest)
    if not found:
        raise RangeError(
            f"expected a length of at most {encoder.longest} {encoder.unit}, the window of {encoder.name}, got "
            f"{min(lengths)} and more: choose shorter lengths"
        )
    return found


def cut_texts(texts: Sequence[str], encoder: AuditedEncoder, lengths: Sequence[int]) -> Iterator[Cut]:
    """Every text cut to every length that it reaches; equal cuts count once."""
    seen: set[tuple[int, str]] = set()
    for number, text in enumerate(texts):
        total = len(encoder.tokens(text))
        for n in lengths:
            if total < n:
                break
            words = cut_text(text, n, encoder)
            if words and (n, words) not in seen:
                seen.add((n, words))
                yield Cut(number, n, words, encoder.tokens(words))


def cut_text(text: str, n: int, encoder: AuditedEncoder) -> str:
    """The longest run of whole words from the start with at most n tokens; empty if the first word has more."""
    ends = [match.end() for match in _WORD_ENDS.finditer(text)]
    low, high = 0, len(ends)  # the first `low` words fit, the first `high + 1` do not
    while low < high:
        middle = (low + high + 1) // 2
        if len(encoder.tokens(text[: ends[middle - 1]])) <= n:
            low = middle
        else:
            high = middle - 1
    return text[: ends[low - 1]] if low else ""


# Edits ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trial:
    """A cut text with its edits: the first `own` are given by a person, the others made by rules."""

    cut: Cut
    edits: tuple[Edit, ...]
    own: int = 0


@dataclass(frozen=True)
class Plan:
    """All trials; `without` counts for each type the cuts in which its rule found no place, `cuts` counts all."""

    trials: tuple[Trial, ...]
    without: Counter[str]
    cuts: int
    too_long: int  # own pairs that do not fit into the model's window


def planned(
    texts: Sequence[str], pairs: Sequence[Edit], encoder: AuditedEncoder, lengths: Sequence[int], settings: Settings
) -> Plan:
    """Cuts with edits by rules, and whole texts with a person's own edits beside noise edits by rules."""
    rules, trials, without = rules_of(settings.edits), [], Counter[str]()
    for cut in cut_texts(texts, encoder, lengths):
        found = [edits_by(cut.words, rule, seed=settings.seed, most=settings.each) for rule in rules]
        without.update(rule.type for rule, some in zip(rules, found, strict=True) if not some)
        trials.append(Trial(cut, tuple(edit for some in found for edit in some)))
    count, too_long = len(trials), 0
    number = {text: k for k, text in enumerate(texts)}
    grouped: dict[str, list[Edit]] = {}
    for pair in pairs:
        grouped.setdefault(pair.text, []).append(pair)
    for text, own in grouped.items():
        place = number.setdefault(text, len(number))  # also of a text that is left out: it is among the audit's texts
        tokens = encoder.tokens(text)
        if len(tokens) > encoder.longest:
            too_long += len(own)
            continue
        noise = [edit for rule in rules if rule.kind == NOISE for edit in edits_by(text, rule, seed=settings.seed)]
        trials.append(Trial(Cut(place, 0, text, tokens), (*own, *noise), len(own)))
    return Plan(tuple(trials), without, count, too_long)


def measure_edits(encoder: AuditedEncoder, plan: Plan, progress: Progress) -> tuple[pd.DataFrame, int]:
    """The table of edits, and how many edits were left out because they do not fit into the window."""
    tables: list[pd.DataFrame] = []
    left_out, finished = 0, 0
    total = sum(map(_cost, plan.trials))
    for block in _blocks(plan.trials):
        some, missing = _run(encoder, block)
        tables.append(some)
        left_out += missing
        finished += sum(map(_cost, block))
        progress(encoder.name, finished / total)
    table = pd.concat(tables).astype(_DTYPES)
    return table.sort_values(["length", "text", "kind", "type", "where"], kind="stable", ignore_index=True), left_out


def _cost(trial: Trial) -> int:
    return len(trial.cut.tokens) * (1 + len(trial.edits))


def _blocks(trials: Sequence[Trial]) -> Iterator[list[Trial]]:
    """Cuts of one length together."""
    block: list[Trial] = []
    size = 0
    for trial in sorted(trials, key=lambda trial: len(trial.cut.tokens)):
        if block and size + _cost(trial) > _BLOCK:
            yield block
            block, size = [], 0
        block.append(trial)
        size += _cost(trial)
    if block:
        yield block


def _run(encoder: AuditedEncoder, block: Sequence[Trial]) -> tuple[pd.DataFrame, int]:
    """Run one block. Texts with equal tokens have equal vectors, so each sequence of tokens is run once."""
    rows: dict[tuple[Hashable, ...], int] = {}
    texts: list[str] = []

    def row(text: str, tokens: tuple[Hashable, ...]) -> int:
        if tokens not in rows:
            rows[tokens] = len(texts)
            texts.append(text)
        return rows[tokens]

    lines: list[tuple[Any, ...]] = []
    places: list[tuple[int, int]] = []  # rows of the text and of what it became
    for trial in block:
        cut, before = trial.cut, row(trial.cut.words, trial.cut.tokens)
        for k, edit in enumerate(trial.edits):
            tokens = encoder.tokens(edit.edited)
            if len(tokens) > encoder.longest:
                continue
            start, end, new_end = difference(edit.text, edit.edited)
            about = (edit.type, edit.kind, "own" if k < trial.own else "rule")
            words = (start, edit.text[start:end], edit.edited[start:new_end])
            lines.append((cut.text, cut.length, len(cut.tokens), len(cut.words), *about, *words))
            places.append((before, row(edit.edited, tokens)))
    vectors = encoder.encode(texts)
    norms = np.linalg.norm(vectors, axis=1)
    old, new = np.array(places, dtype=int).reshape(-1, 2).T
    change = np.linalg.norm(vectors[new] - vectors[old], axis=1) / norms[old]
    change[change < NO_CHANGE] = 0.0
    cosine = np.einsum("ij,ij->i", vectors[new], vectors[old]) / (norms[new] * norms[old])
    seen = (old != new) & ((change > 0) | (encoder.unit == "tokens"))  # without a tokenizer, the vector has to tell
    table = pd.DataFrame(lines, columns=EDITED).assign(visible=seen, change=change, cosine=np.fmin(1.0, cosine))
    return table, sum(len(trial.edits) for trial in block) - len(lines)
