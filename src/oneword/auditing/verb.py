"""The verb `ow.audit`: does an encoder notice edits that change the meaning, and ignore those that do not?"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from oneword._version import versions
from oneword.auditing import measurement, tables
from oneword.auditing.edits import NOISE, SIGNAL, Edit, Kind, rules_of
from oneword.auditing.encoders import AuditedEncoder, encoders_of
from oneword.auditing.measurement import COLUMNS, LENGTHS, TEXTS, Plan, Settings, lengths_within
from oneword.auditing.pairs import Pairs
from oneword.auditing.result import Audit
from oneword.auditing.thresholds import VERDICTS, Thresholds, verdicts
from oneword.checks import check_function, shown
from oneword.errors import RangeError, TextError, UnknownNameError
from oneword.progress import Progress, part, silent
from oneword.validation import read_model

if TYPE_CHECKING:
    from oneword.text.corpora import Corpus


def audit(
    model: object = "minilm",
    texts: Sequence[str] | Corpus | None = None,
    *,
    pairs: Pairs | Sequence[Edit] | str | os.PathLike[str] | None = None,
    references: object = (),
    thresholds: Thresholds | Mapping[str, Any] | str | os.PathLike[str] | None = None,
    edits: Sequence[str] | None = None,
    lengths: Sequence[int] = LENGTHS,
    most_texts: int = TEXTS,
    each: int = 1,
    share: float = 0.95,
    noise_quantile: float = 0.5,
    resamples: int = 1999,
    examples: int = 3,
    seed: int = 0,
    progress: Progress = silent,
) -> Audit:
    """Edit one word of many texts and measure how far the vectors of an encoder move: signal against noise.

    Signal edits change what a text says (a "not", a number, a name, an opposite), noise edits do not (a synonym, a stop
    word, a typo, a comma, case). Without arguments, 30 of the embedded reviews are cut to 16, 32, 64 and 128 tokens,
    and the embedded model is audited offline, in less than half a minute of one core. For narrower intervals give more
    texts: `most_texts=200`.

    | argument | meaning |
    |---|---|
    | `model` | "minilm" (default), a folder or hub name, TransformerFeatures, or any function from a list of texts to an array with one row per text; a list of these, or a mapping from names to these |
    | `texts` | texts or a Corpus; the embedded reviews by default, the texts of `pairs` if there are pairs |
    | `pairs` | edits of your own: a table file (columns text, edited, kind, type), `Pairs`, or a list of `Edit` |
    | `references` | encoders like `model` that are measured beside it and never judged |
    | `thresholds` | requirements: {"auc": {"negation": 0.7}}, a TOML file, or `Thresholds` |
    | `edits` | types of edits, such as ["negation", "typo"]; all by default |
    | `lengths` | tokens, special ones included, to which each text is cut at the border of a word; words for a function |
    | `most_texts` | how many texts at most, drawn with the seed |
    | `each` | edits of each type, text and length, at most |
    | `share` | of texts in which a signal is to be heard, for the advice on the length of chunks |
    | `noise_quantile` | of a text's noise edits: the level above which a signal is heard; 0.5 is the typical noise edit |
    | `resamples` | of the bootstrap over texts |
    | `examples` | worst examples that are kept for each type |
    | `seed` | of the choice of texts, the places of edits and the bootstrap |
    | `progress` | called with a stage and the fraction that is done |

    Returns an `Audit`, which shows itself in a notebook and in a terminal. Raises UnknownNameError for an unknown
    encoder, edit or threshold, RangeError for a number out of range or texts that are too short, TextError for no texts,
    FileFormatError for a file that cannot be read, and ShapeError, NonFiniteError or ZeroNormError for bad vectors.

        >>> import oneword as ow
        >>> def letters(texts):
        ...     return [[1 + text.count(letter) for letter in "aeinot"] for text in texts]
        >>> reviews = ["It was not a good film, and I was sad.", "She is a really great actor, but he was boring."]
        >>> found = ow.audit(letters, reviews, lengths=[8], edits=["negation", "typo"])
        >>> sorted(found.types["type"])
        ['negation', 'typo']
    """  # noqa: E501 (a table has one line an argument)
    started = time.perf_counter()
    numbers = {
        "edits": edits, "lengths": lengths, "most_texts": most_texts, "each": each, "share": share,
        "noise_quantile": noise_quantile, "resamples": resamples, "examples": examples, "seed": seed,
    }  # fmt: skip
    settings = read_model(Settings, numbers, "audit")
    check_function("progress", progress)
    wanted, own = Thresholds.of(thresholds), Pairs.of(pairs)
    judged, beside = encoders_of(model), encoders_of(references)
    everyone = [*judged, *beside]
    _check_names(judged, everyone)
    kinds = _kinds(settings, own.edits)
    if not kinds:
        raise RangeError("expected at least one type of edit, or pairs, got none: name some, or leave edits out")
    wanted.check(kinds, lengths_within(judged[0], settings.lengths))
    given = _texts(texts, own)
    chosen = measurement.sample_texts(given, judged[0], settings.lengths, settings.most_texts, settings.seed)
    known = list(dict.fromkeys([*chosen, *(pair.text for pair in own.edits)]))
    named = {*(settings.edits or ()), *(pair.type for pair in own.edits)}
    parts: dict[str, list[pd.DataFrame]] = {}
    notes: list[str] = []
    for k, encoder in enumerate(everyone):
        progress(encoder.name, k / len(everyone))
        plan = measurement.planned(chosen, own.edits, encoder, lengths_within(encoder, settings.lengths), settings)
        if not plan.trials:
            longest = max(len(encoder.tokens(text)) for text in chosen)
            raise RangeError(
                f"expected a text of at least {settings.lengths[0]} {encoder.unit} of {encoder.name}, got {longest} at "
                "most: try shorter lengths"
            )
        here = part(progress, k / len(everyone), (k + 1) / len(everyone))
        table, left_out = measurement.measure_edits(encoder, plan, here)
        table = tables.with_noise_level(table)
        found = {
            "edits": table[[*COLUMNS, "times_noise"]],
            "types": tables.types(table, kinds, plan.without, settings),
            "against": tables.against(table, kinds, settings),
            "lengths": tables.lengths(table, kinds, settings),
            "noise": tables.noise(table),
            "chunks": tables.chunks(table, kinds, settings, encoder.unit),
            "worst": tables.worst(table, known, kinds, settings.examples),
        }
        if k < len(judged):
            lines = list(verdicts(wanted, encoder.name, found["types"], found["chunks"], named))
            found["verdicts"] = pd.DataFrame(lines, columns=VERDICTS).drop(columns="model")
        for name, each_table in found.items():
            parts.setdefault(name, []).append(each_table.assign(model=encoder.name))
        notes += _notes(encoder, plan, left_out, found["types"], settings)
    if own.skipped:
        notes.append(f"{own.name}: {own.skipped}")
    about = {
        "models": [dict(encoder.about) for encoder in everyone],
        "judged": [encoder.name for encoder in judged],
        "texts": len(known),
        "pairs": len(own.edits),
        "kinds": dict(kinds),
        **settings.model_dump(mode="json"),
        "versions": versions("torch", "numpy", "scipy"),
        "seconds": round(time.perf_counter() - started, 1),
    }
    joined = {name: _joined(some) for name, some in parts.items()}
    return Audit(texts=tuple(known), notes=tuple(dict.fromkeys(notes)), about=about, **joined)


def _texts(given: Sequence[str] | Corpus | None, pairs: Pairs) -> Sequence[str]:
    """The given texts, else those of the pairs, else the embedded reviews."""
    from oneword.text.corpora import Corpus

    if isinstance(given, Corpus):
        return given.texts
    if given is not None and (isinstance(given, str) or not isinstance(given, Iterable)):
        got = "one string" if isinstance(given, str) else shown(given)
        raise TextError(f"expected a list of texts, got {got}: write ['one text', …]")
    if given is not None or pairs.edits:
        texts = [] if given is None else list(given)
        wrong = [text for text in texts if not isinstance(text, str)]
        if wrong:
            raise TextError(f"expected texts as strings, got {shown(wrong[0])}: write ['one text', …]")
        return texts or pairs.texts
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows that cannot be used are skipped, which matters to no audit
        return Corpus.load().texts


def _check_names(judged: Sequence[AuditedEncoder], everyone: Sequence[AuditedEncoder]) -> None:
    names = [encoder.name for encoder in everyone]
    if not judged:
        raise RangeError("expected at least one model to audit, got none: name one")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UnknownNameError(f"expected models of different names, got {twice[0]!r} twice: leave one out")


def _kinds(settings: Settings, pairs: Sequence[Edit]) -> dict[str, Kind]:
    """The types of this audit in the order in which they are shown: signals first."""
    every: dict[str, Kind] = {rule.type: rule.kind for rule in rules_of(settings.edits)}
    every |= {pair.type: pair.kind for pair in pairs}
    return {type: kind for wanted in (SIGNAL, NOISE) for type, kind in every.items() if kind == wanted}


def _joined(some: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """One table of all encoders, their name first."""
    filled = [table for table in some if len(table)] or list(some[:1])
    whole = pd.concat(filled, ignore_index=True)
    return whole[["model", *(name for name in whole if name != "model")]]


def _notes(
    encoder: AuditedEncoder, plan: Plan, left_out: int, types: pd.DataFrame, settings: Settings
) -> Iterator[str]:
    """What was left out or could not be measured."""
    unseen = types[types["unseen"] > 0]
    for line in unseen.to_dict("records"):
        some = "" if line["unseen"] == line["edits"] else f" in {line['unseen']} of {line['edits']} edits"
        out = ", so it is no part of the noise" if line["kind"] == NOISE else ""
        if encoder.unit == "tokens":
            yield f"{line['type']}: the tokenizer of {encoder.name} cannot see it{some}{out}"
        else:
            yield f"{line['type']}: {encoder.name} gives the same vector with and without it{some}{out}"
    for type in types.loc[(types["kind"] == SIGNAL) & (types["edits"] == 0), "type"]:
        yield f"{type}: nothing was measured with {encoder.name}, no text had a place for it"
    without = types[types["without"] > 0]
    if len(without):
        counts = ", ".join(f"{line['type']} in {line['without']}" for line in without.to_dict("records"))
        yield f"no place for an edit, of {plan.cuts} cut texts: {counts}"
    beyond = [n for n in settings.lengths if n > encoder.longest]
    if beyond:
        window = f"its window has {encoder.longest} {encoder.unit}"
        yield f"{encoder.name}: {window}, so nothing at {', '.join(map(str, beyond))}"
    if left_out or plan.too_long:
        yield f"{encoder.name}: {left_out + plan.too_long} edits left out, longer than its window"
