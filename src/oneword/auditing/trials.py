"""Every edit of every cut of every text under one model: how far it moves the vector.

Vectors are made in blocks of cuts and forgotten once their changes are known, so memory does not grow with the texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from oneword.auditing.cuts import Cut, cuts
from oneword.auditing.edits import NOISE, Edit, difference, edited
from oneword.auditing.model import Model, checked_vectors
from oneword.auditing.question import Question
from oneword.auditing.rules import chosen
from oneword.auditing.thresholds import DEAF_TO

COLUMNS = [
    "text", "length", "tokens", "characters", "type", "kind", "made", "where", "was", "became", "visible", "change",
    "cosine",
]  # fmt: skip
# Said of a table without lines, too, in which numbers would be objects.
_DTYPES = {"text": "int64", "length": "int64", "tokens": "int64", "visible": "bool", "change": "float64",
           "cosine": "float64"}  # fmt: skip
_BLOCK = 1 << 15  # tokens at a time, roughly: enough texts of one length to run together


@dataclass(frozen=True)
class Trial:
    """A cut with its edits: made by rules, or a person's own."""

    cut: Cut
    edits: tuple[Edit, ...]
    made: tuple[str, ...]  # "rule" or "own", for each edit


@dataclass(frozen=True)
class Planned:
    """All trials; `without` counts for each type the cuts in which its rule found no place, `cuts` all of them."""

    trials: tuple[Trial, ...]
    without: Counter[str]
    cuts: int
    too_long: int  # own pairs that do not fit into the model's window


def plan(texts: Sequence[str], pairs: Sequence[Edit], model: Model, lengths: Sequence[int], asked: Question) -> Planned:
    """Texts cut to lengths and edited by rules; own pairs as they are, with noise made of the same texts by rules."""
    rules, trials, without = chosen(asked.types), [], Counter[str]()
    for cut in cuts(texts, model, lengths):
        found = [edited(cut.words, rule, seed=asked.seed, most=asked.each) for rule in rules]
        without.update(rule.type for rule, some in zip(rules, found, strict=True) if not some)
        edits = tuple(edit for some in found for edit in some)
        trials.append(Trial(cut, edits, ("rule",) * len(edits)))
    count, too_long = len(trials), 0
    number = {text: k for k, text in enumerate(texts)}
    grouped: dict[str, list[Edit]] = {}
    for pair in pairs:
        grouped.setdefault(pair.text, []).append(pair)
    for text, own in grouped.items():
        place = number.setdefault(text, len(number))  # also of a text that is left out: it is among the audit's texts
        tokens = model.tokens(text)
        if len(tokens) > model.longest:
            too_long += len(own)
            continue
        noise = [edit for rule in rules if rule.kind == NOISE for edit in edited(text, rule, seed=asked.seed)]
        cut = Cut(place, 0, text, tokens)
        trials.append(Trial(cut, (*own, *noise), ("own",) * len(own) + ("rule",) * len(noise)))
    return Planned(tuple(trials), without, count, too_long)


def measured(model: Model, planned: Planned, done: Callable[[float], None]) -> tuple[pd.DataFrame, int]:
    """The table of edits, and how many were left out because they did not fit into the window."""
    lines: list[dict[str, Any]] = []
    left_out, finished = 0, 0
    total = sum(_cost(trial) for trial in planned.trials)
    for block in _blocks(planned.trials):
        some, missing = _run(model, block)
        lines += some
        left_out += missing
        finished += sum(_cost(trial) for trial in block)
        done(finished / total)
    table = pd.DataFrame(lines, columns=COLUMNS).astype(_DTYPES)
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


def _run(model: Model, block: Sequence[Trial]) -> tuple[list[dict[str, Any]], int]:
    """Equal tokens have equal vectors: what the tokenizer cannot see is not run, and texts that come twice are once."""
    rows: dict[tuple[int, ...], int] = {}
    texts: list[str] = []

    def row(text: str, tokens: tuple[int, ...]) -> int:
        if tokens not in rows:
            rows[tokens] = len(texts)
            texts.append(text)
        return rows[tokens]

    wanted: list[tuple[Trial, int, int, int]] = []  # trial, edit, rows of the text and of what it became
    left_out = 0
    for trial in block:
        before = row(trial.cut.words, trial.cut.tokens)
        for k, edit in enumerate(trial.edits):
            tokens = model.tokens(edit.edited)
            if len(tokens) > model.longest:
                left_out += 1
            else:
                wanted.append((trial, k, before, row(edit.edited, tokens)))
    vectors = checked_vectors(model, texts)
    norms = np.linalg.norm(vectors, axis=1)
    old, new = (np.array([each[side] for each in wanted], dtype=int) for side in (2, 3))
    change = np.linalg.norm(vectors[new] - vectors[old], axis=1) / norms[old]
    change[change < DEAF_TO] = 0.0
    cosine = np.einsum("ij,ij->i", vectors[new], vectors[old]) / (norms[new] * norms[old])
    lines = [
        _line(trial, k, visible=before != after) | {"change": float(change[j]), "cosine": float(min(1.0, cosine[j]))}
        for j, (trial, k, before, after) in enumerate(wanted)
    ]
    return lines, left_out


def _line(trial: Trial, k: int, *, visible: bool) -> dict[str, Any]:
    edit, cut = trial.edits[k], trial.cut
    start, end, new_end = difference(edit.text, edit.edited)
    return {
        "text": cut.text,
        "length": cut.length,
        "tokens": len(cut.tokens),
        "characters": len(cut.words),
        "type": edit.type,
        "kind": edit.kind,
        "made": trial.made[k],
        "where": start,
        "was": edit.text[start:end],
        "became": edit.edited[start:new_end],
        "visible": visible,
    }
