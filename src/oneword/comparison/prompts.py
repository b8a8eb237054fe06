"""Prompts that differ in one word: does the answer of a chat model flip with it? (Fig. 1 of the paper.)

    [[prompt]]
    name = "sentiment"
    text = "Reply with a {word} opinion about the film. Answer:"
    words = ["positive", "negative"]
    answers = ["good", "bad"]

`{word}` becomes each of the words. With `answers` the model chooses among these, by the first token of each; without,
its answer is the likeliest token of all.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import combinations
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from oneword.comparison.answers import Divergence, check_speaks, next_token, reads
from oneword.errors import FileFormatError, OnewordError, RangeError, UnknownNameError, did_you_mean
from oneword.maps.transformer import TransformerFeatures

BLANK = "{word}"


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A text with a blank, the words that may stand there, and the answers to choose from (none: any token)."""

    text: str
    words: tuple[str, ...]
    answers: tuple[str, ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        for field in ("text", "name"):
            if not isinstance(getattr(self, field), str):
                raise RangeError(f"expected {field} as a text, got {getattr(self, field)!r}: put it in quotes")
        if self.text.count(BLANK) != 1:
            raise RangeError(f"expected {BLANK} once in text, got it {self.text.count(BLANK)} times: mark one place")
        for field, least in (("words", 2), ("answers", 0)):
            object.__setattr__(self, field, _distinct(field, getattr(self, field), least))
        if len(self.answers) == 1:
            raise RangeError(f"expected answers to choose from, got {self.answers[0]!r} alone: give two, or none")
        object.__setattr__(self, "name", self.name or self.text)

    def filled(self, word: str) -> str:
        return self.text.replace(BLANK, word)


@dataclass(frozen=True, eq=False)
class Flips:
    """What became of the prompts.

    `flips` has one line a prompt and pair of words: the answer to each, whether it flips, and how far the distributions
    of the next token are apart. `answers` has one line a prompt, word and rank; `share` is the probability among the
    answers to choose from (NaN without).
    """

    flips: pd.DataFrame
    answers: pd.DataFrame


def read_prompts(path: Path) -> tuple[Prompt, ...]:
    """The prompts of a TOML file."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FileFormatError(
            f"expected a TOML file of prompts, got {path} ({error.strerror}): check its name"
        ) from None
    except ValueError as error:  # not UTF-8, or not TOML
        raise FileFormatError(f"expected a TOML file of prompts, got {path.name} ({error}): mend it") from None
    try:
        _check_keys(content, ["prompt"])
        tables = content.get("prompt", [])
        if not isinstance(tables, list) or not tables or not all(isinstance(table, dict) for table in tables):
            raise RangeError("expected at least one prompt, got none: write [[prompt]] above its keys")
        return tuple(_prompt(table, place) for place, table in enumerate(tables, 1))
    except OnewordError as error:
        raise type(error)(f"{path.name}: {error}") from None


def ask(
    phi: TransformerFeatures,
    prompts: Sequence[Prompt],
    *,
    top: int = 5,
    report: Callable[[str, float], None] = lambda stage, done: None,
) -> Flips:
    """Every prompt with every one of its words, one forward pass each."""
    check_speaks(phi)
    flips: list[dict[str, Any]] = []
    answers: list[dict[str, Any]] = []
    for count, prompt in enumerate(prompts):
        report(prompt.name, count / len(prompts))
        choice = _first_tokens(phi, prompt)
        said = [_Reply.of(phi, prompt.filled(word), choice) for word in prompt.words]
        for word, reply in zip(prompt.words, said, strict=True):
            about = {"prompt": prompt.name, "word": word}
            answers += [about | line for line in reply.leading(phi, top)]
        for (word_a, a), (word_b, b) in combinations(zip(prompt.words, said, strict=True), 2):
            flips.append(
                {
                    "prompt": prompt.name,
                    "text": prompt.text,
                    "word_a": word_a,
                    "word_b": word_b,
                    "answer_a": a.name(phi),
                    "answer_b": b.name(phi),
                    "probability_a": a.probability(a.best),
                    "probability_b": b.probability(b.best),
                    "flips": a.best != b.best,
                    **asdict(Divergence.between(a.log, b.log)),
                }
            )
    return Flips(pd.DataFrame(flips), pd.DataFrame(answers))


@dataclass(frozen=True, eq=False)
class _Reply:
    """The distribution of the next token, and the tokens to choose from with their names; none is all."""

    log: Tensor
    choice: dict[int, str]

    @classmethod
    def of(cls, phi: TransformerFeatures, text: str, choice: dict[int, str]) -> _Reply:
        with torch.no_grad():
            logits = phi.states(phi.encode(text).X, logits=True).logits
        assert logits is not None
        return cls(next_token(logits), choice)

    @property
    def best(self) -> int:
        return max(self.choice, key=self.probability) if self.choice else int(self.log.argmax())

    def probability(self, token: int) -> float:
        return float(self.log[token].exp())

    def name(self, phi: TransformerFeatures, token: int | None = None) -> str:
        token = self.best if token is None else token
        return self.choice.get(token) or reads(phi.encoder.tokenizer, token)

    def leading(self, phi: TransformerFeatures, top: int) -> Iterator[dict[str, Any]]:
        tokens = list(self.choice) or self.log.topk(min(top, len(self.log))).indices.tolist()
        among = sum(map(self.probability, self.choice))
        for rank, token in enumerate(sorted(tokens, key=self.probability, reverse=True), 1):
            p = self.probability(token)
            share = p / among if among else float("nan")
            yield {"rank": rank, "answer": self.name(phi, token), "probability": p, "share": share}


def _first_tokens(phi: TransformerFeatures, prompt: Prompt) -> dict[int, str]:
    """For each answer its first token where the prompt ends: after a space, unless the prompt ends with one."""
    attached = prompt.text[-1:].isspace()
    found: dict[int, str] = {}
    for answer in prompt.answers:
        tokens = phi.encoder.spelled(answer, attached=attached)
        if not tokens:
            raise RangeError(f"expected answers that {phi.name} can spell, got {answer!r}: choose another")
        if tokens[0] in found:
            raise RangeError(
                f"expected answers with different first tokens, got {found[tokens[0]]!r} and {answer!r}, which both "
                f"begin with {phi.encoder.tokenizer.id_to_token(tokens[0])!r}: choose others"
            )
        found[tokens[0]] = answer
    return found


def _prompt(table: dict[str, Any], place: int) -> Prompt:
    known = [field.name for field in fields(Prompt)]
    try:
        _check_keys(table, known)
        missing = [name for name in ("text", "words") if name not in table]
        if missing:
            raise RangeError(f"expected text and words, got no {' and no '.join(missing)}: add them")
        return Prompt(**table)
    except OnewordError as error:
        raise type(error)(f"[[prompt]] {place}: {error}") from None


def _check_keys(table: dict[str, Any], known: Sequence[str]) -> None:
    for name in table:
        if name not in known:
            raise UnknownNameError(f"expected {', '.join(known)}, got {name!r}{did_you_mean(name, known)}")


def _distinct(field: str, values: object, least: int) -> tuple[str, ...]:
    """A list of different texts, none of them empty."""
    if not isinstance(values, list | tuple) or not all(isinstance(value, str) and value.strip() for value in values):
        raise RangeError(f'expected {field} as a list of words, got {values!r}: write ["positive", "negative"]')
    if len(values) < least or len(set(values)) < len(values):
        raise RangeError(
            f"expected {field} of at least {max(least, 2)} different words, got {list(values)}: add others"
        )
    return tuple(values)
