"""The next token of a causal language model after two texts.

Distributions P, Q of the next token: KL(P ‖ Q) = Σ P log(P/Q), Jensen–Shannon = ½ KL(P ‖ M) + ½ KL(Q ‖ M) with
M = (P + Q)/2, both in nats, and total variation ½ Σ |P − Q|.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float
from tokenizers import Tokenizer
from torch import Tensor

from oneword.errors import RangeError
from oneword.maps.transformer import TransformerFeatures


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
