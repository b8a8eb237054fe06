"""The verb `measure`: every word of one or many texts under maps and models."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Literal, TypedDict, Unpack

import torch
from torch import Tensor, nn

from oneword.bounds.certificate import Certify
from oneword.checks import check_function, check_precision, shown
from oneword.errors import RangeError, TextError, UnknownNameError
from oneword.maps import registry
from oneword.maps.base import FeatureMap, ModuleFeatures
from oneword.maps.transformer import TransformerFeatures
from oneword.progress import Progress, shares, silent
from oneword.report.words.table import WordTable
from oneword.sets import coverage
from oneword.sets.constraints import Constraint
from oneword.sets.vocabulary import Replacements
from oneword.sup.task import numbered
from oneword.sup.verb import load_pooled
from oneword.text.context import Context
from oneword.text.encoders import Encoder
from oneword.words import maps
from oneword.words.effort import Effort
from oneword.words.job import ModelJob, TrainedSubject
from oneword.words.maps import MapJob, MapSubject
from oneword.words.measured import Measured
from oneword.words.models import ModelSubject
from oneword.words.prompts import Answers, PromptSubject, two_sets
from oneword.words.request import Request
from oneword.words.windows import Window, check_size, tokens_of, windows_of

DEFAULT = ("attention", "rf", "minilm")  # random attention, a fully connected layer, a trained model
# How a sum is split among threads decides its last bits, and a search goes on from there.
DIGITS = "the first 5 of every value; further ones may depend on the number of threads and on the processor"
RANDOM = "@random"  # after the name of a model: the same architecture with random weights
KEPT = 1 << 30  # bytes of random weights that may wait between first answers and the rest
_TRUSTED = 3.0  # seconds of work from which on its own pace counts

By = str | FeatureMap | nn.Module | Callable[[Tensor], Tensor] | MapSubject | TrainedSubject


class Options(TypedDict, total=False):
    """The keyword arguments of `measure` that are fields of `Request`."""

    within: Constraint | str | None
    words: Replacements | Sequence[str] | Literal[False] | None
    positions: Sequence[int] | None
    special: bool
    per_token: bool
    together: int
    effort: str | Effort
    certify: Certify | None
    seeds: int | None
    seed: int
    window: int
    most: int
    top: int
    d: int | None
    dtype: torch.dtype
    device: str


def measure(
    texts: str | Context | Sequence[str | Context],
    by: By | Sequence[By] | None = None,
    *,
    answers: Answers | None = None,
    encoder: str | Encoder = "minilm",
    progress: Progress = silent,
    show: Callable[[WordTable], None] | None = None,
    **options: Unpack[Options],
) -> WordTable:
    """Measure every word of a text: how far can it move each map and model?

    | argument | default | meaning |
    |---|---|---|
    | `texts` | | a text, a `Context` (as `encode` and `gaussian` return), or a list of them |
    | `by` | attention, rf, minilm | names of maps or models, folders, `FeatureMap`s or callables X ↦ φ(X) |
    | `answers` | None | two answers, or two lists of them: which word of a prompt decides between them? (below) |
    | `encoder` | "minilm" | gives maps their word vectors; models have their own |
    | `within` | None | the allowed changes: a `Ball`, or "sphere", "ball:0.5"; None: what suits the map |
    | `words` | None | the real words to try: None for the vocabulary, a list, or False for none |
    | `positions` | None | the words that may change, numbered as in the table; None for all |
    | `together` | 1 | how many words change at once |
    | `effort` | "usual" | "quick", "usual", "thorough", or an `Effort` |
    | `certify` | None | a `Certify` in the place of the effort's own |
    | `seeds`, `seed` | None, 0 | how many draws of random weights (3 for short texts, else 1), and the first |
    | `special`, `per_token` | False | special tokens may change; every token is a word |
    | `window`, `most` | 250, 25000 | tokens that maps read at once, and tokens in all |
    | `top` | 3 | replacements kept for each word |
    | `d`, `dtype`, `device` | None, None, "cpu" | coordinates kept; precision (of the map, else float32); device |
    | `progress`, `show` | | called with (stage, fraction), and with the table so far, first answers first |

    With `answers` the texts are prompts to a causal language model ("smollm2" unless `by` names another). Its log-odds,
    how much likelier the first answers are than the second, are what words move. Every word is left out, replaced by
    real words and moved; a relative change of 1 toward the other answer brings the log-odds to 0, more turns them.

    Returns a `WordTable`; its `words` is a DataFrame with one row a text, word, subject and seed.

    Raises an `OnewordError`: `UnknownNameError` for a name that is no map or model, `TextError` for a text without
    words, `RangeError` for values out of range, `DTypeError` for 16 bits unless only models are named.

        >>> import oneword as ow
        >>> table = ow.measure("I love her much", by="attention", effort="quick", seeds=1)
        >>> list(table.words["word"])
        ['I', 'love', 'her', 'much']
    """
    check_function("progress", progress)
    if show is not None:
        check_function("show", show)
    jobs = prepare(texts, by, answers=answers, encoder=encoder, **options)
    for _ in jobs.steps(progress, first=show is not None):
        if show is not None:
            show(jobs.table())
    return jobs.table()


def prepare(
    texts: str | Context | Sequence[str | Context],
    by: By | Sequence[By] | None = None,
    *,
    answers: Answers | None = None,
    encoder: str | Encoder = "minilm",
    **options: Unpack[Options],
) -> Measurement:
    """Everything that `measure` does before its work begins; for those who want to pause it."""
    if not isinstance(texts, str | Context | Iterable):
        raise TextError(f"expected a text, a Context or a list of them, got {shown(texts)}: give one")
    given = [texts] if isinstance(texts, str | Context) else list(texts)
    wrong = [text for text in given if not isinstance(text, str | Context)]
    if wrong:
        raise TextError(f"expected texts as strings or Contexts, got {shown(wrong[0])}: encode it with ow.encode")
    if not isinstance(encoder, str | Encoder):
        raise UnknownNameError(f"expected encoder= a name or an Encoder, got {shown(encoder)}: give one of these")
    if not given:
        raise RangeError("expected at least one text, got none")
    request = _request(options, given, by)
    chosen, notes = _subjects(by, request) if answers is None else (_answering(by, two_sets(answers), request), [])
    return Measurement(given, chosen, encoder, request, notes)


def _request(options: Options, texts: Sequence[str | Context], by: By | Sequence[By] | None) -> Request:
    fields: dict[str, Any] = {"dtype": _dtype(texts, _listed(by)), **options}
    if fields.get("positions") is not None:
        fields["positions"] = tuple(numbered(fields["positions"]))
    unknown = set(fields) - set(Request.__dataclass_fields__)
    if unknown:
        raise TypeError(f"measure() got an unexpected keyword argument {sorted(unknown)[0]!r}")
    return Request(**fields)


def _dtype(texts: Sequence[str | Context], by: Sequence[By]) -> torch.dtype:
    """That of one's own maps and arrays; else float32, which is twice as fast: a person reads two of its six digits."""
    for each in by:
        if isinstance(each, nn.Module) and not isinstance(each, TransformerFeatures):
            weights = next((w for w in [*each.parameters(), *each.buffers()] if w.is_floating_point()), None)
            return torch.float64 if weights is None else weights.dtype
        if callable(each) and not isinstance(each, nn.Module | MapSubject | TrainedSubject):
            return torch.float64  # as `sensitivity` encodes texts for a function
    arrays = [text.X.dtype for text in texts if isinstance(text, Context)]
    return arrays[0] if arrays else torch.float32


def _listed(by: By | Sequence[By] | None) -> list[By]:
    if by is None:
        return []
    return list(by) if isinstance(by, Sequence) and not isinstance(by, str) else [by]


# Subjects -------------------------------------------------------------------------------------------------------------


def _subjects(by: By | Sequence[By] | None, request: Request) -> tuple[list[MapSubject | TrainedSubject], list[str]]:
    """What was named, each under a name of its own; and a note where the default model is not there."""
    if by is None:
        missing = [] if importlib.util.find_spec("transformers") else ["minilm"]
        found = [subject_of(name, request) for name in DEFAULT if name not in missing]
        return found, [f"{name} was left out: pip install 'oneword[hub]'" for name in missing]
    given = _listed(by)
    if not given:
        raise RangeError("expected at least one map or model, got none: choose one")
    names = [each for each in given if isinstance(each, str)]
    registry.each_once(names) if names else None
    return _distinct([subject_of(each, request) for each in given]), []


def _answering(
    by: By | Sequence[By] | None, answers: tuple[tuple[str, ...], tuple[str, ...]], request: Request
) -> list[MapSubject | TrainedSubject]:
    """The causal language models that were named, as they answer prompts."""
    found: list[MapSubject | TrainedSubject] = []
    for each in _listed("smollm2" if by is None else by):
        if isinstance(each, PromptSubject):
            found.append(replace(each, answers=answers))
            continue
        if isinstance(each, str) and registry.is_map(each):
            raise RangeError(f"expected causal language models with answers=, got the map {each}: leave it out")
        trained = subject_of(each, request)
        if not isinstance(trained, ModelSubject):
            raise RangeError(f"expected causal language models with answers=, got {shown(each)}: name one")
        found.append(PromptSubject(trained.phi, trained.by, trained.title, answers))
    return _distinct(found)


def subject_of(by: By, request: Request) -> MapSubject | TrainedSubject:
    """The map or model of this name, or this object."""
    if isinstance(by, TrainedSubject):
        return by
    if isinstance(by, TransformerFeatures):
        return ModelSubject(by)
    if not isinstance(by, str) or registry.is_map(by):
        check_precision(request.dtype)
    if isinstance(by, MapSubject):
        return by
    if not isinstance(by, str):
        ModuleFeatures(by) if not isinstance(by, FeatureMap) else None  # what is no map is refused before the work
        name = getattr(by, "__name__", type(by).__name__)
        return MapSubject(name, name, own=by)
    if registry.is_map(by):
        return MapSubject.named(by)
    trained = by.removesuffix(RANDOM)
    seed = request.seed if trained != by else None
    return ModelSubject(load_pooled(trained, dtype=request.dtype, device=request.device, random_init=seed))


def _distinct(subjects: list[MapSubject | TrainedSubject]) -> list[MapSubject | TrainedSubject]:
    """Subjects of the same name are told apart by what is measured, or by a number."""
    out: list[MapSubject | TrainedSubject] = []
    for subject in subjects:
        taken, by = {each.by for each in out}, subject.by
        if by in taken and isinstance(subject, TrainedSubject):
            by = f"{by} ({subject.what})"
        number = 2
        while by in taken:
            by, number = f"{subject.by} {number}", number + 1
        out.append(subject if by == subject.by else replace(subject, by=by, title=by))
    return out


# Measurements ---------------------------------------------------------------------------------------------------------


class Measurement:
    """Every window, map and seed, every text and model: first answers of all, then one after the other to its end."""

    def __init__(
        self,
        texts: list[str | Context],
        subjects: list[MapSubject | TrainedSubject],
        encoder: str | Encoder,
        request: Request,
        notes: Sequence[str] = (),
    ) -> None:
        self.texts, self.subjects, self.request = texts, subjects, request
        self.maps = [each for each in subjects if isinstance(each, MapSubject)]
        self.models = [each for each in subjects if isinstance(each, TrainedSubject)]
        self.encoder: Encoder | None = None
        self.windows: list[Window] = []
        self.words: Replacements | None = None
        self.covered: coverage.Coverage | None = None
        self.seeds = request.seeds or 1
        if self.maps:
            self._prepare_maps(encoder)
        check_size([tokens_of(text, each.phi.encoder) for text in texts for each in self.models], request.most)
        self.contents = [_content(text) for text in texts]
        self.notes = [*notes, *self._notes()]
        self._known: list[Measured] = []
        self._seconds_left: float | None = None

    def _prepare_maps(self, encoder: str | Encoder) -> None:
        request = self.request
        if any(isinstance(text, str) for text in self.texts):
            self.encoder = Encoder.load(encoder) if isinstance(encoder, str) else encoder
            check_size([tokens_of(text, self.encoder) for text in self.texts], request.most)
        else:
            encoders = {id(text.encoder): text.encoder for text in self.texts if isinstance(text, Context)}
            self.encoder = next(iter(encoders.values())) if len(encoders) == 1 else None
        self.windows = windows_of(self.texts, self.encoder, request)
        self.words = request.real_words(self.encoder)
        self.covered = None if self.words is None else maps.covered(self.windows, self.words)
        self.longest = max(window.context.n for window in self.windows)
        self.seeds = request.seeds or Effort.seeds(self.longest)

    def steps(self, progress: Progress, *, first: bool) -> Iterator[bool]:
        """The work, with a pause wherever there is more to see in `table`; True: what comes next may take long.

        `first`: every map and model gives a first answer before the long searches of any. No number that is found in
        the end depends on it.
        """
        began, jobs = time.monotonic(), list(self._jobs())
        self._known = [Measured() for _ in jobs]
        costs = [job.costs["first"] if first else 0.0 for job in jobs]
        costs += [sum(job.costs.values()) - job.costs["first"] for job in jobs]
        heard = shares(progress, costs)

        def look(job: MapJob | ModelJob, at: int, done: int) -> None:
            # Before there is much to go by, the machine counts as the one that the costs were measured on.
            pace = (time.monotonic() - began + _TRUSTED) / (sum(costs[:done]) + _TRUSTED)
            self._known[at], self._seconds_left = job.measured(), pace * sum(costs[done:])

        count = len(jobs)
        for k, job in enumerate(jobs if first else ()):
            job.first(_titled(heard[k], job.name))
            look(job, k, k + 1)
            yield k + 1 == count
        for k in range(count):
            job = jobs.pop(0)  # what it holds goes with it
            for _ in job.run(_titled(heard[count + k], job.name)):
                look(job, k, count + k)
                yield True
        self._seconds_left = None

    def table(self) -> WordTable:
        """All that is known so far."""
        done = sum(self._known, Measured())
        return replace(done.table(self.contents, self.notes, self._about(done)), seconds_left=self._seconds_left)

    def _jobs(self) -> Iterator[MapJob | ModelJob]:
        """Text after text, in the order in which subjects were given; each with the name of its result."""
        several, keep = len(self.texts) > 1, KEPT // max(1, len(self.windows) * len(self.maps) * self.seeds)
        windows = len(self.windows) > len({window.text for window in self.windows})
        for number, text in enumerate(self.texts):
            where = f"-text{number}" if several else ""
            mine = [window for window in self.windows if window.text == number]
            for subject in self.subjects:
                if isinstance(subject, TrainedSubject):
                    yield subject.job(number, text, self.request, f"{subject.by}{where}")
                    continue
                for window in mine:
                    for seed in subject.seeds(self.request, self.seeds):
                        piece = f"-window{window.number}" if windows else ""
                        draw = f"-seed{seed}" if self.seeds > 1 and subject.own is None else ""
                        name = f"{subject.by}{where}{piece}{draw}"
                        yield MapJob(subject, window, seed, self.request, self.words, name, keep)

    def _notes(self) -> list[str]:
        if not self.maps:
            return []
        left_out = () if self.covered is None else coverage.lines(self.covered.to_dict())
        return [*maps.notes(self.windows, self.maps, self.request, self.words), *left_out]

    def _about(self, done: Measured) -> dict[str, Any]:
        """What all numbers rest on."""
        first = done.results[0][1].provenance if done.results else {}
        about: dict[str, Any] = {"by": [subject.by for subject in self.subjects], "texts": len(self.texts)}
        if self.maps:
            draws = {subject.by: len(subject.seeds(self.request, self.seeds)) for subject in self.maps}
            pairs = dict.fromkeys(draws, 0)
            for row in done.words:
                if row["by"] in pairs:
                    pairs[row["by"]] += row.get("candidates") or 0
            random = [subject for subject in self.maps if subject.own is None]
            tried = None if self.covered is None else self.covered.to_dict()
            about |= {
                "encoder": None if self.encoder is None else self.encoder.describe(),
                "seeds": random[0].seeds(self.request, self.seeds) if random else [],
                "within": {each.by: each.within for each in done.subjects},
                "words": None if self.words is None else self.words.describe(),
                "tried": None
                if tried is None
                else tried | {"pairs": {name: count // draws[name] for name, count in pairs.items()}},
                "windows": len(self.windows),
                "tokens at once, at most": self.longest,
                "special tokens": list(dict.fromkeys(self._added())),
                "special tokens change": any(w.context.special[i] for w in self.windows for i in w.positions),
                "d": self.windows[0].context.d,
            }
        made = {name: first[name] for name in ("dtype", "device", "versions") if name in first}
        return about | made | {"digits": DIGITS}

    def _added(self) -> Iterator[str]:
        """The words that the tokenizer put in."""
        for window in self.windows:
            both = zip(window.context.words, window.context.special, strict=True)
            yield from (word for word, added in both if added)


def _content(text: str | Context) -> str:
    """A text as a person reads it."""
    return text if isinstance(text, str) else text.text or " ".join(text.words)


def _titled(progress: Progress, title: str) -> Progress:
    """The progress of one job, with its name; it never goes back, though stages begin anew."""
    furthest = 0.0

    def onward(stage: str, done: float) -> None:
        nonlocal furthest
        furthest = max(furthest, min(done, 1.0))
        progress(f"{title.replace('-', ' ')}: {stage}", furthest)

    return onward
