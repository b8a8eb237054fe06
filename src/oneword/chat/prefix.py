"""Tokens that a causal language model has read: their keys and values are kept, so that what follows is cheap.

log p(y | x) = Σ_t log p(y_t | x, y_<t): the prompt x is read once, and answers y cost their own tokens only, several of
them in one pass.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from oneword.checks import number, whole_number
from oneword.errors import NonFiniteError, RangeError
from oneword.maps.checkpoints import accepts, eager
from oneword.random import resolve_seed, stream

Choose = Callable[[Float[Tensor, " vocabulary"]], int]  # the next token, given the logits
AT_ONCE = 8  # answers in one pass: their logits are the largest thing in memory


@dataclass(frozen=True)
class Reply:
    """The tokens that a model wrote, and whether it came to an end; if so, the last token is the one that ends it."""

    ids: tuple[int, ...]
    ended: bool

    @property
    def words(self) -> tuple[int, ...]:
        """The tokens without the one that ends the reply."""
        return self.ids[:-1] if self.ended else self.ids


@dataclass(frozen=True, eq=False)
class Prefix:
    """A prompt that was read once; nothing that is asked of it changes it."""

    model: nn.Module
    ids: tuple[int, ...]
    cache: Any
    last: Float[Tensor, " vocabulary"]

    @classmethod
    def read(cls, model: nn.Module, ids: Sequence[int]) -> Prefix:
        """Read a prompt. Raises RangeError for a model that keeps no keys and values."""
        if not accepts(model, "past_key_values"):
            got = f"{type(model).__name__}: choose another"
            raise RangeError(f"expected a model that keeps keys and values (past_key_values), got {got}")
        found = _run(model, [ids], None, last=True)
        return cls(model, tuple(ids), found.past_key_values, found.logits[0, -1])

    def log_probabilities(self, ids: Sequence[int]) -> Float[Tensor, "k vocabulary"]:
        """log p(· | x, y_<t) for each token y_t of what follows, in float64."""
        rows = self.last[None]
        if len(ids) > 1:
            rows = torch.cat([rows, _run(self.model, [ids[:-1]], self._copy()).logits[0]])
        return rows.double().cpu().log_softmax(-1)

    def log_likelihoods(self, answers: Sequence[Sequence[int]]) -> list[float]:
        """log p(y | x) of each answer: the sum over all its tokens."""
        out = []
        for begin in range(0, len(answers), AT_ONCE):
            some = answers[begin : begin + AT_ONCE]
            longest = max(map(len, some)) - 1
            rows = self.last.expand(len(some), 1, -1)
            if longest:
                # Filled up behind, where no token that counts can see it.
                filled = [[*ids[:-1], *[ids[-1]] * (1 + longest - len(ids))] for ids in some]
                cache = self._copy()
                cache.batch_repeat_interleave(len(some))
                rows = torch.cat([rows, _run(self.model, filled, cache).logits], 1)
            for ids, own in zip(some, rows, strict=True):
                log_p = own[: len(ids)].double().cpu().log_softmax(-1)
                out.append(float(log_p[torch.arange(len(ids)), torch.tensor(ids)].sum()))
        return out

    def generate(self, tokens: int, ends: Collection[int], choose: Choose | None = None) -> Reply:
        """Write at most so many tokens, up to one of `ends`; the likeliest each time unless `choose` says which."""
        logits, cache, ids = self.last, self._copy(), list[int]()
        while len(ids) < tokens:
            ids.append(int(logits.argmax()) if choose is None else choose(logits))
            if ids[-1] in ends:
                return Reply(tuple(ids), True)
            if len(ids) < tokens:
                logits = _run(self.model, [ids[-1:]], cache, last=True).logits[0, -1]
        return Reply(tuple(ids), False)

    def attention(self, ids: Sequence[int], to: Sequence[int]) -> dict[int, Float[Tensor, " heads"]]:
        """By layer (from 1) and head: the attention that the tokens of what follows pay to rows `to`, on average.

        The sum over these rows, and the mean over the tokens. Layers without attention matrices are left out.
        """
        with eager(self.model):
            found = _run(self.model, [ids], self._copy(), output_attentions=True).attentions
        out = {}
        for layer, weights in enumerate(found or (), 1):
            if weights is None:
                continue
            gone = len(self.ids) + len(ids) - weights.shape[-1]  # rows that a sliding window has left behind
            seen = [row - gone for row in to if row >= gone]
            out[layer] = weights[0, :, :, seen].double().sum(-1).mean(-1).cpu()
        return out

    def _copy(self) -> Any:
        """The cache grows with what is read: each question gets its own."""
        return copy.deepcopy(self.cache)


@dataclass(frozen=True)
class Sampling:
    """Tokens drawn by their probabilities: softmax(logits / temperature), among the likeliest that sum to `top_p`."""

    seed: int = 0
    temperature: float = 1.0
    top_p: float = 1.0

    def __post_init__(self) -> None:
        resolve_seed(self.seed, None)
        if not number("temperature", self.temperature) > 0:
            raise RangeError(f"expected temperature > 0, got {self.temperature}: without sampling, answers are greedy")
        if not 0 < number("top_p", self.top_p) <= 1:
            raise RangeError(f"expected 0 < top_p <= 1, got {self.top_p}: 1 keeps every token")

    def chooser(self, sample: int = 0) -> Choose:
        """How to draw the tokens of sample 0, 1, …: the same draws for every prompt, so that only the word differs."""
        draws = stream(self.seed, "chat", whole_number("sample", sample))
        return lambda logits: self._choose(logits, float(draws.random()))

    def _choose(self, logits: Float[Tensor, " vocabulary"], draw: float) -> int:
        p, ids = (logits.double().cpu() / self.temperature).softmax(-1).sort(descending=True, stable=True)
        total = p.cumsum(0)
        kept = max(1, int((total - p < self.top_p).sum()))
        at = int(torch.searchsorted(total[:kept], draw * float(total[kept - 1]), right=True))
        return int(ids[min(at, kept - 1)])


def _run(model: nn.Module, ids: Sequence[Sequence[int]], cache: Any, *, last: bool = False, **wanted: Any) -> Any:
    """A forward pass after what the cache holds, which grows; `last`: only the logits of the last token are wanted."""
    if last and accepts(model, "logits_to_keep"):
        wanted["logits_to_keep"] = 1
    given = torch.tensor([list(row) for row in ids], device=next(model.parameters()).device)
    with torch.no_grad():
        found = model(input_ids=given, past_key_values=cache, use_cache=True, return_dict=True, **wanted)
    wrong = int(found.logits.isnan().sum())
    if wrong:
        got = f"{wrong} of {found.logits.numel()} that are NaN: load the model in float32"
        raise NonFiniteError(f"expected logits that are numbers, got {got}")
    return found
