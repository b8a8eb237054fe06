"""The next token of a causal language model, after two texts or after prompts that differ in one word.

Distributions P, Q of the next token: KL(P ‖ Q) = Σ P log(P/Q), Jensen–Shannon = ½ KL(P ‖ M) + ½ KL(Q ‖ M) with
M = (P + Q)/2, both in nats, and total variation ½ Σ |P − Q|.

A file of prompts (Fig. 1 of the paper: does the answer of a chat model flip with one word?):

    [[prompt]]
    name = "sentiment"
    text = "Reply with a {word} opinion about the film. Answer:"
    words = ["positive", "negative"]
    answers = ["good", "bad"]

`{word}` becomes each of the words. With `answers` the model chooses among these, by the first token of each; without,
its answer is the likeliest token of all.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any

import pandas as pd
import torch
from jaxtyping import Float
from pydantic import Field, field_validator, model_validator
from tokenizers import Tokenizer
from torch import Tensor

from oneword.checks import shown
from oneword.errors import RangeError
from oneword.maps.transformer import TransformerFeatures
from oneword.progress import Progress, silent
from oneword.validation import FileModel, read_model, read_toml

BLANK = "{word}"


@dataclass(frozen=True)
class Divergence:
    """Distances between two distributions P and Q."""

    kl_ab: float
    kl_ba: float
    js: float
    tv: float

    @classmethod
    def between(cls, a: Float[Tensor, " vocabulary"], b: Float[Tensor, " vocabulary"]) -> Divergence:
        """Of two distributions, given by the logarithms of their probabilities."""
        middle = torch.logaddexp(a, b) - torch.tensor(2.0, dtype=a.dtype).log()
        tv = float((a.exp() - b.exp()).abs().sum() / 2)
        return cls(_kl(a, b), _kl(b, a), (_kl(a, middle) + _kl(b, middle)) / 2, tv)


def next_token(logits: Float[Tensor, "n vocabulary"]) -> Float[Tensor, " vocabulary"]:
    """The logarithms of the probabilities of the next token after a text, in float64."""
    return logits[-1].double().cpu().log_softmax(-1)


def has_next_token(phi: TransformerFeatures) -> bool:
    """Whether the model is a causal language model, which has a next token."""
    return phi.causal and phi.model.get_output_embeddings() is not None  # type: ignore[operator]


def check_has_next_token(phi: TransformerFeatures) -> None:
    """Raise RangeError for a model that has no next token."""
    if not has_next_token(phi):
        why = "was saved without its output layer" if phi.causal else "reads both ways and has no next word"
        raise RangeError(
            f"expected a causal language model (GPT-2, Llama, Mistral, Qwen and their like), got {phi.name}, which "
            f"{why}: choose another model"
        )


@dataclass(frozen=True, eq=False)
class Answers:
    """The next token after each of two texts.

    `top` is a tidy table: text (a or b), rank, token (as in the vocabulary), answer (as text), probability, and
    `elsewhere`, the probability after the other text.
    """

    top: pd.DataFrame
    divergence: Divergence
    flips: bool

    @classmethod
    def of(cls, a: Tensor, b: Tensor, tokenizer: Tokenizer, top: int) -> Answers:
        """Of two distributions, given by the logarithms of their probabilities."""
        lines = [*_leading("a", a, b, tokenizer, top), *_leading("b", b, a, tokenizer, top)]
        return cls(pd.DataFrame(lines), Divergence.between(a, b), int(a.argmax()) != int(b.argmax()))


def token_text(tokenizer: Tokenizer, token: int) -> str:
    """A token as a person reads it, the space before it included where the tokenizer keeps one; bytes as spelled."""
    text = tokenizer.decode([token], skip_special_tokens=False)
    return text if text and "\N{REPLACEMENT CHARACTER}" not in text else token_name(tokenizer, token)


def token_name(tokenizer: Tokenizer, token: int) -> str:
    """A token as the vocabulary has it; models may have more outputs than their tokenizer has tokens."""
    return tokenizer.id_to_token(token) or f"[{token}]"


def _leading(text: str, own: Tensor, other: Tensor, tokenizer: Tokenizer, top: int) -> Iterator[dict[str, Any]]:
    for rank, token in enumerate(own.topk(min(top, len(own))).indices.tolist(), 1):
        names = {"token": token_name(tokenizer, token), "answer": token_text(tokenizer, token)}
        probabilities = {"probability": float(own[token].exp()), "elsewhere": float(other[token].exp())}
        yield {"text": text, "rank": rank, **names, **probabilities}


def _kl(p: Tensor, q: Tensor) -> float:
    """A token that a model rules out (log 0) adds nothing; rounding may leave −1e-17 where the distributions agree."""
    return max(0.0, float((p.exp() * (p - q)).nansum()))


# Prompts --------------------------------------------------------------------------------------------------------------


class Prompt(FileModel):
    """A text with a blank, the words that may stand there, and the answers to choose from (none: any token)."""

    text: str
    words: Annotated[tuple[str, ...], Field(strict=False)]
    answers: Annotated[tuple[str, ...], Field(strict=False)] = ()
    name: str = ""

    @field_validator("text")
    @classmethod
    def _one_blank(cls, text: str) -> str:
        if text.count(BLANK) != 1:
            raise ValueError(f"expected {BLANK} once in text, got it {text.count(BLANK)} times: mark one place")
        return text

    @field_validator("words", "answers", mode="before")
    @classmethod
    def _different(cls, values: object, info: Any) -> object:
        if not isinstance(values, list | tuple) or not all(isinstance(each, str) and each.strip() for each in values):
            example = '["positive", "negative"]'
            raise ValueError(f"expected {info.field_name} as a list of words, got {shown(values)}: write {example}")
        if (len(values) < 2 and info.field_name == "words") or len(set(values)) < len(values):
            wanted = f"{info.field_name} of at least 2 different words"
            raise ValueError(f"expected {wanted}, got {shown(list(values))}: add others")
        if len(values) == 1:
            raise ValueError(f"expected answers to choose from, got {shown(values[0])} alone: give two, or none")
        return values

    @property
    def title(self) -> str:
        """Its name, or its text where it has none."""
        return self.name or self.text

    def filled(self, word: str) -> str:
        return self.text.replace(BLANK, word)


class PromptFile(FileModel):
    """The content of a file of prompts."""

    prompt: Annotated[tuple[Prompt, ...], Field(strict=False)]

    @model_validator(mode="before")
    @classmethod
    def _some(cls, content: Any) -> Any:
        if not content or content.get("prompt", True) in ([], ()):
            raise ValueError("expected at least one prompt, got none: write [[prompt]] above its keys")
        return content


@dataclass(frozen=True, eq=False)
class PromptAnswers:
    """The answers to prompts.

    `flips` has one row per prompt and pair of words: the answer to each, whether it flips, and the distances between
    the distributions of the next token. `answers` has one row per prompt, word and rank; `share` is the probability
    among the answers to choose from (NaN without).
    """

    flips: pd.DataFrame
    answers: pd.DataFrame


def read_prompts(path: str | os.PathLike[str]) -> tuple[Prompt, ...]:
    """The prompts of a TOML file. Raises FileFormatError, UnknownNameError or RangeError, in one line."""
    file = Path(path)
    return read_model(PromptFile, read_toml(file, "a TOML file of prompts"), file.name).prompt


def answer_prompts(
    phi: TransformerFeatures,
    prompts: Sequence[Prompt | Mapping[str, Any]],
    *,
    top: int = 5,
    progress: Progress = silent,
) -> PromptAnswers:
    """Run every prompt with each of its words; keep the `top` answers of prompts without a list of answers.

    A prompt may be given as a mapping with the keys of a file. Raises RangeError for a model that has no next token, or
    answers that begin with the same token.
    """
    check_has_next_token(phi)
    flips: list[dict[str, Any]] = []
    answers: list[dict[str, Any]] = []
    for count, given in enumerate(prompts):
        prompt = given if isinstance(given, Prompt) else read_model(Prompt, given, f"prompt {count + 1}")
        progress(prompt.title, count / len(prompts))
        choice = _first_tokens(phi, prompt)
        said = [_Reply.of(phi, prompt.filled(word), choice) for word in prompt.words]
        for word, reply in zip(prompt.words, said, strict=True):
            answers += [{"prompt": prompt.title, "word": word} | line for line in reply.leading(phi, top)]
        for (word_a, a), (word_b, b) in combinations(zip(prompt.words, said, strict=True), 2):
            line: dict[str, Any] = {"prompt": prompt.title, "text": prompt.text, "word_a": word_a, "word_b": word_b}
            line |= {"answer_a": a.name(phi), "answer_b": b.name(phi)}
            line |= {"probability_a": a.probability(a.best), "probability_b": b.probability(b.best)}
            flips.append(line | {"flips": a.best != b.best, **asdict(Divergence.between(a.log, b.log))})
    return PromptAnswers(pd.DataFrame(flips), pd.DataFrame(answers))


@dataclass(frozen=True, eq=False)
class _Reply:
    """The distribution of the next token, and the tokens to choose from (none: all) with their names."""

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
        return self.choice.get(token) or token_text(phi.encoder.tokenizer, token)

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
