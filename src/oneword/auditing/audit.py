"""Ask every model about every edit, and put what was found beside what was wanted."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import pandas as pd

from oneword._version import __version__
from oneword.auditing import summary
from oneword.auditing.cuts import drawn, lengths_within
from oneword.auditing.edits import NOISE, SIGNAL, Edit, Kind
from oneword.auditing.model import Model
from oneword.auditing.question import Question
from oneword.auditing.rules import chosen
from oneword.auditing.thresholds import VERDICTS, Thresholds, verdicts
from oneword.auditing.trials import COLUMNS, Planned, measured, plan
from oneword.errors import RangeError, UnknownNameError
from oneword.sup.task import Report

Progress = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class Audit:
    """What was found: tidy tables with a column `model`, except for the texts.

    | table | one line |
    |---|---|
    | `edits` | an edit: text, length (0: whole), where, was, became, change ‖v'−v‖/‖v‖, cosine, visible, times_noise |
    | `types` | a type: typical change, cosine, AUC against the noise, exponent of decay, each with its interval |
    | `against` | a signal type and a noise type: AUC |
    | `lengths` | a type and length: quartiles of the change, share of texts that hear it |
    | `chunks` | a signal type: the longest chunk in which it is heard |
    | `worst` | an example: signals hardly noticed, noise that moves the vector most |
    | `verdicts` | a threshold: wanted, got, low, high, passed, why |
    """

    texts: tuple[str, ...]
    edits: pd.DataFrame
    types: pd.DataFrame
    against: pd.DataFrame
    lengths: pd.DataFrame
    chunks: pd.DataFrame
    worst: pd.DataFrame
    verdicts: pd.DataFrame
    notes: tuple[str, ...]
    about: dict[str, Any]

    @property
    def passed(self) -> bool:
        return bool(self.verdicts["passed"].all())


def audit(
    models: Sequence[Model],
    texts: Sequence[str] = (),
    question: Question | None = None,
    report: Report = lambda stage, done: None,
    *,
    pairs: Sequence[Edit] = (),
    beside: Sequence[Model] = (),
    thresholds: Thresholds | None = None,
) -> Audit:
    """Signal against noise for each model; those `beside` are measured as well, but never judged."""
    started = time.perf_counter()
    asked, wanted = question or Question(), thresholds or Thresholds()
    everyone = [*models, *beside]
    _check_names(everyone)
    kinds = _kinds(asked, pairs)
    wanted.check(kinds, lengths_within(models[0], asked.lengths))
    chosen_texts = drawn(texts or [pair.text for pair in pairs], models[0], asked.lengths, asked.texts, asked.seed)
    known = list(dict.fromkeys([*chosen_texts, *(pair.text for pair in pairs)]))
    named = {*(asked.types or ()), *(pair.type for pair in pairs)}
    tables: dict[str, list[pd.DataFrame]] = {}
    notes: list[str] = []
    for k, model in enumerate(everyone):
        planned = plan(chosen_texts, pairs, model, lengths_within(model, asked.lengths), asked)
        if not planned.trials:
            raise RangeError(
                f"expected a text of at least {asked.lengths[0]} tokens of {model.name}, got "
                f"{max(len(model.tokens(text)) for text in chosen_texts)} at most: try shorter lengths with --lengths"
            )
        edits, left_out = measured(model, planned, _part(report, model.name, k, len(everyone)))
        found = _tables(summary.with_noise_level(edits), known, kinds, planned, asked)
        if k < len(models):
            lines = list(verdicts(wanted, model.name, found["types"], found["chunks"], named))
            found["verdicts"] = pd.DataFrame(lines, columns=VERDICTS).drop(columns="model")
        for name, table in found.items():
            tables.setdefault(name, []).append(table.assign(model=model.name))
        notes += _notes(model, planned, left_out, found["types"], asked)
    joined = {name: _joined(some) for name, some in tables.items()}
    about = {
        "models": [dict(model.describe()) for model in everyone],
        "judged": [model.name for model in models],
        "texts": len(known),
        "pairs": len(pairs),
        "kinds": dict(kinds),
        **{name: list(v) if isinstance(v, tuple) else v for name, v in dataclasses.asdict(asked).items()},
        "versions": {"oneword": __version__, **{name: version(name) for name in ("torch", "numpy", "scipy")}},
        "seconds": round(time.perf_counter() - started, 1),
    }
    return Audit(texts=tuple(known), notes=tuple(dict.fromkeys(notes)), about=about, **joined)


def _check_names(models: Sequence[Model]) -> None:
    names = [model.name for model in models]
    if not names:
        raise RangeError("expected at least one model to audit, got none: name one")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UnknownNameError(f"expected models of different names, got {twice[0]!r} twice: leave one out")


def _kinds(asked: Question, pairs: Sequence[Edit]) -> dict[str, Kind]:
    """The types of this audit in the order in which they are shown: signals first."""
    every: dict[str, Kind] = {rule.type: rule.kind for rule in chosen(asked.types)}
    every |= {pair.type: pair.kind for pair in pairs}
    return {type: kind for wanted in (SIGNAL, NOISE) for type, kind in every.items() if kind == wanted}


def _tables(
    edits: pd.DataFrame, texts: list[str], kinds: Mapping[str, Kind], planned: Planned, asked: Question
) -> dict[str, pd.DataFrame]:
    return {
        "edits": edits[[*COLUMNS, "times_noise"]],
        "types": summary.types(edits, kinds, planned.without, asked),
        "against": summary.against(edits, kinds, asked),
        "lengths": summary.lengths(edits, kinds, asked),
        "chunks": summary.chunk_lengths(edits, kinds, asked),
        "worst": summary.worst(edits, texts, kinds, asked.top),
    }


def _joined(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """One table of all models, their name first."""
    filled = [table for table in tables if len(table)] or list(tables[:1])
    whole = pd.concat(filled, ignore_index=True)
    return whole[["model", *(name for name in whole if name != "model")]]


def _part(report: Report, name: str, k: int, count: int) -> Progress:
    report(name, k / count)
    return lambda done: report(name, (k + done) / count)


def _notes(model: Model, planned: Planned, left_out: int, types: pd.DataFrame, asked: Question) -> Iterator[str]:
    """What the numbers are, and what was left out."""
    unseen = types[types["unseen"] > 0]
    for line in unseen.to_dict("records"):
        some = "" if line["unseen"] == line["edits"] else f" in {line['unseen']} of {line['edits']} edits"
        out = ", so it is no part of the noise" if line["kind"] == NOISE else ""
        yield f"{line['type']}: the tokenizer of {model.name} cannot see it{some}{out}"
    for type in types.loc[(types["kind"] == SIGNAL) & (types["edits"] == 0), "type"]:
        yield f"{type}: nothing was measured with {model.name}, no text had a place for it"
    without = types[types["without"] > 0]
    if len(without):
        counts = ", ".join(f"{line['type']} in {line['without']}" for line in without.to_dict("records"))
        yield f"no place for an edit, of {planned.cuts} cut texts: {counts}"
    beyond = [n for n in asked.lengths if n > model.longest]
    if beyond:
        yield f"{model.name}: its window has {model.longest} tokens, so nothing at {', '.join(map(str, beyond))}"
    if left_out or planned.too_long:
        yield f"{model.name}: {left_out + planned.too_long} edits left out, longer than its window"
