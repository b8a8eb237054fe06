"""Every word of a prompt: how far it moves the log-odds of two sets of answers, and what turns the answer.

S counts changes toward the other answers alone, relative to |log-odds|: 1 brings them to 0, more turns the answer.
Every word is left out (the prompt is sent without it), replaced by real words (the prompt is sent with them), and moved
within the allowed set.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, final

import torch

from oneword.chat.model import ChatModel, Sent, check_apart
from oneword.chat.odds import AnswerOdds, OddsProbe
from oneword.checks import check_string, shown
from oneword.errors import OnewordError, RangeError, TextError
from oneword.progress import Progress
from oneword.report.words.table import Subject
from oneword.search.shortlist import Listed
from oneword.text.context import Context
from oneword.words.cost import Costs, prompt_costs
from oneword.words.effort import Effort
from oneword.words.job import ModelJob, Stages, TrainedSubject, window_of, words_for
from oneword.words.request import Request

Answers = Sequence[str | Sequence[str]]


@final
@dataclass(frozen=True, eq=False)
class PromptSubject(TrainedSubject):
    """A causal language model that answers prompts.

    | field | meaning |
    |---|---|
    | `answers` | two sets of whole answers |
    | `system` | the system message; none by default |
    """

    answers: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    system: str = ""

    @cached_property
    def model(self) -> ChatModel:
        return ChatModel.of(self.phi)

    @property
    def what(self) -> str:
        first, second = (" / ".join(f"“{each}”" for each in some) for some in self.answers)
        return f"log-odds of {first} over {second}"

    def job(self, number: int, text: str | Context, request: Request, name: str) -> PromptJob:
        if not isinstance(text, str):
            raise TextError("expected prompts as strings with answers=, got a Context: give the text itself")
        context = self.model.context(text, self.system)
        window = window_of(number, context, request)
        sent = self.model.send_message(text, self.system)
        first, second = (tuple(self.model.spelled(sent, each) for each in some) for some in self.answers)
        check_apart(list(zip((*first, *second), (*self.answers[0], *self.answers[1]), strict=True)))
        effort = Effort.of_prompt(request.effort, context.n, request.certify)
        probe = AnswerOdds(self.phi, (first, second)).at(context.X)
        return PromptJob(self, window, request, words_for(window, request, self.phi), effort, probe, name, sent=sent)


def two_sets(answers: object) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Answers as two sets. Raises RangeError for what is no pair of answers, or of lists of them."""
    example = 'for example answers=("good", "bad"), or two lists of answers'
    if isinstance(answers, str) or not isinstance(answers, Sequence) or len(answers) != 2:
        raise RangeError(f"expected two answers, or two lists of them, got {shown(answers)}: {example}")
    sets = []
    for some in answers:
        listed = [some] if isinstance(some, str) else some
        if not isinstance(listed, Sequence) or not listed or not all(isinstance(x, str) and x.strip() for x in listed):
            raise RangeError(f"expected answers as texts, got {shown(some)}: {example}")
        for each in listed:
            check_string(each)
        sets.append(tuple(listed))
    return sets[0], sets[1]


@final
@dataclass(eq=False)
class PromptJob(ModelJob):
    """The measurement of one prompt."""

    subject: PromptSubject
    probe: OddsProbe
    sent: Sent = field(kw_only=True)
    without: dict[int, float] = field(default_factory=dict)  # relative change where a word is left out

    @property
    def map(self) -> AnswerOdds:
        return self.probe.phi

    @cached_property
    def costs(self) -> Costs:
        tries = 0 if self.tries is None else self.tries.left
        return prompt_costs(self.probe, list(self.window.positions), self.effort, tries)

    def _before_search(self) -> Stages:
        return {"words left out": self._leave_out}

    @property
    def _estimate_passes(self) -> float:
        return 3.0 + len(self.window.positions)

    def _estimate(self, progress: Progress) -> None:
        """Each word is left out; first order is one gradient."""
        for stage in (self._leave_out(progress), self._first_order(progress)):
            for _ in stage:
                pass

    def _first_order(self, progress: Progress) -> Iterator[None]:
        """Of all words: one gradient is all of it."""
        for i in self.window.positions:
            rows = torch.tensor([self.text.rows[i]])
            self.gains[i] = float(self._radius(rows) * self.probe.gains(rows).norm) / self.probe.norm
        self.estimated = self.gains
        yield from ()

    def _leave_out(self, progress: Progress) -> Iterator[None]:
        """The prompt is sent without each word: what the model says of the text as one would type it."""
        spots = [i for i in self.window.positions if i not in self.without]
        for count, i in enumerate(spots, 1):
            self.without[i] = self._typed(i, "")
            progress("words left out", count / len(spots))
        yield from ()

    def _rank(self, i: int) -> float:
        left_out = self.without.get(i, math.nan)
        return max(super()._rank(i), 0.0 if math.isnan(left_out) else left_out)

    def _kept(self, i: int, listed: Listed) -> Listed:
        """Words are evaluated as one would type them, where tokens may be others; what cannot be sent is left out."""
        typed = {word: self._typed(i, word) for word, _ in listed.best}
        best = sorted(((word, x) for word, x in typed.items() if not math.isnan(x)), key=lambda pair: -pair[1])
        return replace(listed, best=tuple(best))

    def _typed(self, i: int, word: str) -> float:
        """The relative change where another word, or none, is typed in the place of word i; NaN: it cannot be sent."""
        text, span = str(self.text.text), self.text.spans[i]
        changed = "" if span is None else _replaced(text, span, word)  # nobody types a word of the template
        if not changed.strip():
            return math.nan
        try:
            sent = self.subject.model.send_message(changed, self.subject.system)
        except OnewordError:  # it is too long, or a special token came about
            return math.nan
        X = self.map.embedded(sent.ids, self.probe.X[None])
        with torch.no_grad():
            return self.probe.relative(float(self.probe.odds(X)))

    def _facts(self) -> Subject:
        subject, odds = self.subject, float(self.probe.clean)
        about = {"sent": self.sent.text, "log-odds": odds, "answers": [list(some) for some in subject.answers]}
        return Subject(self.window.text, subject.by, subject.title, "prompt", subject.what, log_odds=odds, about=about)

    def _more(self, i: int, row: Mapping[str, Any]) -> dict[str, Any]:
        return {"left_out": self.without.get(i), "below_noise": False}

    def _notes(self) -> Iterator[str]:
        yield from super()._notes()
        if self.subject.model.template is None:
            yield f"{self.subject.by}: the model's files have no chat template: the plain text was sent"

    @property
    def _ranked_by(self) -> str:
        return "move the log-odds most when left out or replaced by a random word"


def _replaced(text: str, span: tuple[int, int], word: str) -> str:
    """The text with another word; without one, the space before it goes, too, or the one behind the first word."""
    start, end = span
    if not word and text[:start].rstrip() != text[:start]:
        start = len(text[:start].rstrip())
        return text[:start] + text[end:] if start else text[end:].lstrip()
    if not word and not text[:start]:
        return text[end:].lstrip()
    return text[:start] + word + text[end:]
