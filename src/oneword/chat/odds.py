"""How much likelier a causal language model finds one set of answers than another, as a map of the prompt.

    φ(X) = log Σ_{y ∈ A} p(y | X) − log Σ_{y ∈ B} p(y | X),    log p(y | X) = Σ_t log p(y_t | X, y_<t)

X are the embeddings of all tokens that are sent, bare ones as the model takes them. `AnswerOdds` is the plain form, a
full pass for each answer. `OddsProbe` is φ prepared at one prompt: a change of word i leaves the keys and values of the
tokens before it as they are, so only those from i on are computed, and all answers in the same pass.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from oneword.errors import NonFiniteError, RangeError
from oneword.maps.base import FeatureMap, bytes_kept, check_matches, feature_norm, replace_rows
from oneword.maps.checkpoints import accepts
from oneword.maps.jacobian import Gains
from oneword.maps.transformer import TransformerFeatures
from oneword.maps.transformer_probe import ModelProbe
from oneword.progress import Progress
from oneword.text.context import check_text
from oneword.text.encoders import Encoder

Ids = tuple[int, ...]
_PASS = 48  # tokens that a forward pass costs by itself: fewer are computed again rather than begin another pass


@final
class AnswerOdds(FeatureMap):
    """φ for two sets of answers, each answer as its tokens; `phi` is any map of the model."""

    def __init__(self, phi: TransformerFeatures, answers: tuple[tuple[Ids, ...], tuple[Ids, ...]]) -> None:
        super().__init__()
        if len(answers) != 2 or not all(some and all(some) for some in answers):
            raise RangeError(f"expected two sets of answers of at least one token, got {answers}")
        self.phi, self.answers = phi, answers

    @property
    def model(self) -> nn.Module:
        return self.phi.model

    @property
    def encoder(self) -> Encoder:
        return self.phi.encoder

    @property
    def layers(self) -> int:
        return self.phi.layers

    @property
    def like(self) -> Tensor:
        return torch.empty(0, dtype=self.phi.dtype, device=self.phi.device)

    def forward(self, X: Float[Tensor, "*batch n d"]) -> Float[Tensor, "*batch 1"]:
        check_matches(X, self.like, self.encoder.d)
        batch = X.reshape(-1, *X.shape[-2:])
        found = torch.stack([self._log_p(batch, ids) for some in self.answers for ids in some], 1)
        return difference(found, len(self.answers[0])).to(X.dtype).reshape(*X.shape[:-2], 1)

    def at(self, X: Float[Tensor, "n d"]) -> OddsProbe:
        check_matches(X, self.like, self.encoder.d)
        return OddsProbe(self, X)

    def describe(self) -> Mapping[str, Any]:
        text = [[self.encoder.tokenizer.decode(list(ids)) for ids in some] for some in self.answers]
        return {**self.phi.describe(), "map": "AnswerOdds", "output": "log-odds", "answers": text}

    def embedded(self, ids: Ids, like: Float[Tensor, "b n d"]) -> Float[Tensor, "b m d"]:
        """Tokens as the model takes them, once for each text of a batch."""
        table = self.encoder.layer0.word
        return table[torch.tensor(ids, dtype=torch.long)].to(like).expand(len(like), -1, -1)

    def _log_p(self, X: Float[Tensor, "b n d"], ids: Ids) -> Float[Tensor, " b"]:
        whole = torch.cat([X, self.embedded(ids[:-1], X)], 1)
        logits = run(self.phi, whole, None, torch.arange(X.shape[1] - 1, whole.shape[1]))
        at = torch.arange(len(ids), device=X.device), torch.tensor(ids, device=X.device)
        return logits.double().log_softmax(-1)[:, at[0], at[1]].sum(1)


def difference(log_p: Float[Tensor, "b answers"], first: int) -> Float[Tensor, " b"]:
    """The log-odds, from log p of the answers of the first set and then of the second."""
    return log_p[:, :first].logsumexp(1) - log_p[:, first:].logsumexp(1)


def run(
    phi: TransformerFeatures, X: Float[Tensor, "b s d"], cache: Any, keep: Int[Tensor, " k"], **more: Any
) -> Float[Tensor, "b k vocabulary"]:
    """The logits of the rows `keep`, after what the cache holds."""
    model = phi.model
    if accepts(model, "logits_to_keep"):
        more["logits_to_keep"] = keep.to(X.device)
    given = X.to(phi.precision, copy=True)  # some models write into what they are given
    found = model(inputs_embeds=given, past_key_values=cache, use_cache=cache is not None, return_dict=True, **more)
    logits: Tensor = found.logits if accepts(model, "logits_to_keep") else found.logits[:, keep]
    if wrong := int(logits.isnan().sum()):
        got = f"{wrong} of {logits.numel()} that are NaN: load the model in float32"
        raise NonFiniteError(f"expected logits that are numbers, got {got}")
    return logits


@final
class OddsProbe(ModelProbe):
    """φ prepared at one prompt X.

    What counts is how far the log-odds fall toward the other set of answers: `change2` is the square of the fall, and
    negative where they rise. A relative change of 1 brings them to 0, a larger one turns the answer.
    """

    phi: AnswerOdds

    def __init__(self, phi: AnswerOdds, X: Float[Tensor, "n d"]) -> None:
        super().__init__()
        self.phi, self.X = phi, check_text(X).detach()
        self._packed = _Packed.side_by_side([ids for some in phi.answers for ids in some], self.X.device)
        self._together, self._reuses, half = True, False, self.n // 2
        with torch.no_grad():
            plain = phi(self.X)
            self._cache = self._read_prompt()
            # Models in which one of these ways gives other numbers are measured without it.
            self._together = self._agrees(plain, lambda: self._fast(self.X[None], 0))
            self._reuses = self._cache is not None and self._agrees(
                plain, lambda: self._fast(self.X[None, half:], half)
            )
            self.clean = self.odds(self.X[None])
        self.norm = feature_norm(self.clean)

    def features(self, y: Tensor, i: Tensor) -> Float[Tensor, "b 1"]:
        changed, first = replace_rows(self.X, y, i), i.reshape(len(i), -1).amin(1)
        found, places = [], []
        for begin, some in self._groups(first):
            found.append(self._fast(changed[some, begin:], begin))
            places.append(some)
        return torch.cat(found)[torch.cat(places).argsort()][:, None].to(self.X.dtype)

    def change2(self, y: Tensor, i: Tensor) -> Float[Tensor, " b"]:
        fall = (self.clean - self.features(y, i))[:, 0] * self.clean.sign()
        return fall * fall.abs()

    def odds(self, X: Float[Tensor, "b n d"]) -> Float[Tensor, " b"]:
        """The log-odds of other prompts, of any length; what they begin with in common is not read again."""
        most = min(self.n, X.shape[1] - 1)
        same = (X[:, :most] == self.X[:most]).all(2).all(0)
        begin = int(same.long().cumprod(0).sum()) if self._reuses else 0
        return self._fast(X[:, begin:], begin).to(self.X.dtype)

    def relative(self, odds: float) -> float:
        """How far log-odds have fallen toward the other answers, relative to those of the prompt: 1 is undecided."""
        clean = float(self.clean)
        return (clean - odds) / clean

    def bytes_per_candidate(self, m: int) -> int:
        return self._kept

    @cached_property
    def _kept(self) -> int:
        one: Ids = (0,)  # an answer of one token: a single pass over the prompt
        once = bytes_kept(AnswerOdds(self.phi.phi, ((one,), (one,))), self.X) // 2
        read = once * (self.n + self._packed.count) // self.n + 2 * self.X.numel() * self.X.element_size()
        logits = 8 * (1 + self._packed.count) * self.phi.encoder.vocabulary_size  # in float64
        return 2 * (read + 2 * logits)

    def _found_gains(self, i: Int[Tensor, "p m"], progress: Progress) -> Gains:
        """One number has one gradient, which is all of first order."""
        block = self._gradient[i]
        norm = block.flatten(1).norm(dim=1)
        return Gains(norm, block / norm.clamp_min(torch.finfo(norm.dtype).tiny)[:, None, None])

    @cached_property
    def _gradient(self) -> Float[Tensor, "n d"]:
        base = self.X.clone().requires_grad_(True)
        with torch.enable_grad():
            (found,) = torch.autograd.grad(self._fast(base[None], 0).sum(), base)
        return found

    # Passes

    def _groups(self, first: Int[Tensor, " b"]) -> Iterator[tuple[int, Int[Tensor, " g"]]]:
        """Candidates that run together, and from which token on: those that change the same row, or one soon after."""
        rows = first.tolist() if self._reuses else [0] * len(first)
        order = sorted(range(len(rows)), key=rows.__getitem__)
        group: list[int] = []
        again = 0  # tokens that the group computes although they are as before
        for k in order:
            if group and again + rows[k] - rows[group[0]] > _PASS:
                yield rows[group[0]], torch.tensor(group, device=first.device)
                group, again = [], 0
            group.append(k)
            again += rows[k] - rows[group[0]]
        yield rows[group[0]], torch.tensor(group, device=first.device)

    def _fast(self, X: Float[Tensor, "b s d"], begin: int) -> Float[Tensor, " b"]:
        """The log-odds of prompts whose tokens from `begin` on are X."""
        if self._together:
            return difference(self._in_one_pass(X, begin), len(self.phi.answers[0]))
        each = [self._one_answer(X, begin, ids) for some in self.phi.answers for ids in some]
        return difference(torch.stack(each, 1), len(self.phi.answers[0]))

    def _one_answer(self, X: Float[Tensor, "b s d"], begin: int, ids: Ids) -> Float[Tensor, " b"]:
        whole = torch.cat([X, self.phi.embedded(ids[:-1], X)], 1)
        keep = torch.arange(X.shape[1] - 1, whole.shape[1])
        log_p = run(self.phi.phi, whole, self._prefix(begin, len(X)), keep).double().log_softmax(-1)
        return log_p[:, torch.arange(len(ids)), torch.tensor(ids)].sum(1)

    def _in_one_pass(self, X: Float[Tensor, "b s d"], begin: int) -> Float[Tensor, "b answers"]:
        """log p of every answer: their tokens follow the prompt side by side, and see it and their own alone."""
        packed, (b, s) = self._packed, X.shape[:2]
        more: dict[str, Any] = {}
        if packed.count:
            X = torch.cat([X, self.phi.embedded(packed.ids, X)], 1)
            sees = packed.sees(begin, s)
            hidden = torch.finfo(self.phi.phi.precision).min
            more["attention_mask"] = (
                torch.zeros(sees.shape, dtype=self.phi.phi.precision, device=X.device)
                .masked_fill(~sees, hidden)[None, None]
                .expand(b, -1, -1, -1)
            )
            places = torch.cat([torch.arange(begin, begin + s, device=X.device), begin + s + packed.depth])
            more["position_ids"] = places.expand(b, -1)
        keep = torch.arange(s - 1, X.shape[1])
        log_p = run(self.phi.phi, X, self._prefix(begin, b), keep, **more).double().log_softmax(-1)
        each = log_p[:, packed.rows, packed.tokens]
        return each.new_zeros((b, packed.answers)).index_add(1, packed.owner, each)

    def _read_prompt(self) -> Any:
        """The keys and values of all tokens; None for a model that keeps none, or none that can be cut."""
        model = self.phi.model
        if not accepts(model, "past_key_values"):
            return None
        given = self.X[None].to(self.phi.phi.precision, copy=True)
        found = model(inputs_embeds=given, use_cache=True, return_dict=True)
        cache = getattr(found, "past_key_values", None)
        return cache if hasattr(cache, "crop") and hasattr(cache, "batch_repeat_interleave") else None

    def _prefix(self, begin: int, count: int) -> Any:
        """The keys and values of the tokens before `begin`, once for each candidate; None for none."""
        if not begin:
            return None
        cache = copy.deepcopy(self._cache)
        if begin < self.n:
            cache.crop(begin - self.n)  # less than 0: so many tokens fewer
        cache.batch_repeat_interleave(count)
        return cache

    def _agrees(self, plain: Tensor, fast: Callable[[], Tensor]) -> bool:
        """Whether a faster way gives the same number, but for what the model's own precision can do."""
        try:
            found = fast()
        except (RuntimeError, ValueError, TypeError, IndexError, AttributeError, NotImplementedError):
            return False
        slack = torch.finfo(self.phi.phi.precision).eps ** 0.5 * max(1.0, float(plain.abs()))
        return abs(float(found) - float(plain)) <= slack


@final
@dataclass(frozen=True, eq=False)
class _Packed:
    """All answers behind one prompt, in one sequence: each token sees the prompt and what its own answer began with.

    | field | meaning |
    |---|---|
    | `ids` | the tokens that are read: those of each answer but its last |
    | `depth`, `of` | for each of them, how deep in its answer it stands, and which answer that is |
    | `rows`, `tokens`, `owner` | where each token's log-probability is read (0: after the prompt), and whose it is |
    | `answers` | how many there are |
    """

    ids: Ids
    depth: Int[Tensor, " t"]
    of: Int[Tensor, " t"]
    rows: Int[Tensor, " r"]
    tokens: Int[Tensor, " r"]
    owner: Int[Tensor, " r"]
    answers: int

    @classmethod
    def side_by_side(cls, answers: Sequence[Ids], device: torch.device) -> _Packed:
        read = [(token, deep, k) for k, ids in enumerate(answers) for deep, token in enumerate(ids[:-1])]
        row = {(k, deep): at for at, (_, deep, k) in enumerate(read, 1)}
        reads = [
            (row[k, deep - 1] if deep else 0, token, k)
            for k, ids in enumerate(answers)
            for deep, token in enumerate(ids)
        ]
        depth, of = (torch.tensor([each[k] for each in read], dtype=torch.long, device=device) for k in (1, 2))
        rows, tokens, owner = torch.tensor(reads, dtype=torch.long, device=device).unbind(1)
        return cls(tuple(token for token, _, _ in read), depth, of, rows, tokens, owner, len(answers))

    @property
    def count(self) -> int:
        return len(self.ids)

    def sees(self, begin: int, s: int) -> Bool[Tensor, "q kv"]:
        """Which tokens see which: the s tokens of the prompt from `begin` on, and then those of the answers."""
        place = torch.arange(self.count, device=self.of.device)
        own = (self.of[:, None] == self.of) & (place[:, None] >= place)
        prompt = torch.ones(s, begin + s, dtype=torch.bool, device=own.device).tril(begin)
        beside = own.new_zeros((s, self.count)), own.new_ones((self.count, begin + s))
        return torch.cat([torch.cat([prompt, beside[0]], 1), torch.cat([beside[1], own], 1)])
