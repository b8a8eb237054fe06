"""The verb `ow.chat.ask`: send prompts that differ in one word to a causal language model, and measure what differs.

A flip is decided over whole answers: log-odds = log Σ_{y ∈ A} p(y | x) − log Σ_{y ∈ B} p(y | x) for the given sets A
and B, and the word flips the answer if the log-odds of the two prompts have different signs. No answer begins another
one, so that each sum is the probability that the reply begins with an answer of that set.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch

from oneword.chat.model import ChatModel, Sent, check_apart
from oneword.chat.prefix import Prefix, Reply, Sampling
from oneword.chat.prompts import Prompt, given_prompts
from oneword.chat.result import Chat
from oneword.checks import check_function, shown, whole_number
from oneword.comparison.answers import Divergence, token_text
from oneword.comparison.verb import describe_model
from oneword.errors import RangeError, UnknownNameError
from oneword.maps.transformer import TransformerFeatures
from oneword.progress import Progress, part, silent

TOKENS = 48  # of an answer at most


def ask(
    prompts: Prompt | Mapping[str, Any] | Sequence[Prompt | Mapping[str, Any]],
    by: str | TransformerFeatures = "smollm2",
    *,
    tokens: int = TOKENS,
    samples: int = 0,
    seed: int = 0,
    temperature: float = 1.0,
    top_p: float = 1.0,
    progress: Progress = silent,
) -> Chat:
    """Send prompts that differ in one word: whole answers, log-odds of given answers, and where the answers part.

    | argument | meaning |
    |---|---|
    | `prompts` | one `Prompt` or several, or mappings with the same keys |
    | `by` | a causal language model: "smollm2" (default, offline), a folder, a hub name or TransformerFeatures |
    | `tokens` | how long the answers that the model writes may be |
    | `samples` | answers drawn at random beside the greedy one, with `seed`, `temperature` and `top_p` |
    | `progress` | called with what is being done and the fraction that is done |

    Returns a `Chat`. Raises RangeError for a model without a next token, for messages or answers that hold special
    tokens of the model, for an answer that begins another one, and for prompts that are too long.
    """
    asked, tokens, samples = given_prompts(prompts), whole_number("tokens", tokens), whole_number("samples", samples)
    if not asked:
        raise RangeError("expected at least one prompt, got none: give some")
    if tokens < 1 or samples < 0:
        raise RangeError(f"expected tokens of at least 1 and samples of at least 0, got {tokens} and {samples}")
    check_function("progress", progress)
    sampling = Sampling(seed, temperature, top_p)
    if not isinstance(by, str | TransformerFeatures):
        raise UnknownNameError(f"expected by= a name or TransformerFeatures, got {shown(by)}: give one of these")
    progress("reading the model", 0.0)
    began = time.perf_counter()
    model = ChatModel.of(TransformerFeatures.load(by) if isinstance(by, str) else by)
    tables: dict[str, list[dict[str, Any]]] = {name: [] for name in ("prompts", "answers", "steps", "attention")}
    tables["samples"] = []
    for count, prompt in enumerate(asked):
        own = part(progress, count / len(asked), (count + 1) / len(asked), prompt.title)
        for name, lines in _one(model, prompt, tokens, samples, sampling, own).items():
            tables[name] += [{"prompt": prompt.title, "number": count + 1} | line for line in lines]
    how: dict[str, Any] = {"tokens": tokens, "samples": samples}
    how |= {"seed": seed, "temperature": temperature, "top_p": top_p} if samples else {}
    about = describe_model(model.phi) | {"template": model.template is not None, **how}
    found = {name: pd.DataFrame(lines) for name, lines in tables.items()}
    return Chat(found, about | {"seconds": round(time.perf_counter() - began, 1)}, tuple(_notes(model, found)))


@dataclass(frozen=True, eq=False)
class _Side:
    """A prompt with one of its words, read by the model, and its greedy answer."""

    name: str
    word: str
    sent: Sent
    prefix: Prefix
    reply: Reply

    @classmethod
    def of(cls, model: ChatModel, name: str, prompt: Prompt, word: str, tokens: int) -> _Side:
        sent = model.send(prompt, word)
        prefix = model.read(sent)
        return cls(name, word, sent, prefix, prefix.generate(model.room(sent, tokens), model.ends))


def _one(
    model: ChatModel, prompt: Prompt, tokens: int, samples: int, sampling: Sampling, progress: Progress
) -> dict[str, list[dict[str, Any]]]:
    """The rows that one prompt adds to each of the tables."""
    sides: list[_Side] = []
    for name, word in zip("ab", prompt.words, strict=True):
        progress("", 0.4 * len(sides))
        sides.append(_Side.of(model, name, prompt, word, tokens))
    a, b = sides
    progress("", 0.8)
    scores = [line for side in sides for line in _scored(model, prompt, side)]
    line: dict[str, Any] = {"system": prompt.system, "user": prompt.user}
    for side in sides:
        own = {"word": side.word, "sent": side.sent.text, "sent_tokens": len(side.sent.ids)}
        own |= {"answer": model.text(side.reply.words), "tokens": len(side.reply.words), "ended": side.reply.ended}
        own["log_odds"] = _log_odds([each for each in scores if each["side"] == side.name])
        line |= {f"{key}_{side.name}": value for key, value in own.items()}
    line["flips"] = line["log_odds_a"] * line["log_odds_b"] < 0 if scores else None
    drawn = [
        {"side": side.name, "word": side.word, "sample": k, "answer": model.text(reply.words), "ended": reply.ended}
        for side in sides
        for k in range(samples)
        for reply in [side.prefix.generate(model.room(side.sent, tokens), model.ends, sampling.chooser(k))]
    ]
    return {
        "prompts": [line | _parting(model, a.reply, b.reply)],
        "answers": scores,
        "steps": list(_steps(model, a, b)),
        "attention": [each for side in sides for each in _attention(side)],
        "samples": drawn,
    }


# Given answers --------------------------------------------------------------------------------------------------------


def _scored(model: ChatModel, prompt: Prompt, side: _Side) -> Iterator[dict[str, Any]]:
    """log p of every given answer."""
    spelled = [(number, each, model.spelled(side.sent, each)) for number, own in enumerate(prompt.answers, 1)
               for each in own]  # fmt: skip
    check_apart([(ids, answer) for _, answer, ids in spelled])
    values = side.prefix.log_likelihoods([ids for _, _, ids in spelled])
    for (number, answer, ids), value in zip(spelled, values, strict=True):
        own = {"answer": answer, "tokens": len(ids), "log_likelihood": value, "per_token": value / len(ids)}
        yield {"side": side.name, "word": side.word, "set": number, **own}


def _log_odds(scores: Sequence[Mapping[str, Any]]) -> float:
    """How much likelier the first set of answers is than the second; NaN without answers."""
    if not scores:
        return math.nan
    sets = [[line["log_likelihood"] for line in scores if line["set"] == number] for number in (1, 2)]
    first, second = (float(torch.tensor(each, dtype=torch.float64).logsumexp(0)) for each in sets)
    return first - second


# What the model writes ------------------------------------------------------------------------------------------------


def _parting(model: ChatModel, a: Reply, b: Reply) -> dict[str, Any]:
    """How many tokens the two greedy answers have in common, and the tokens at which they part; None: they do not."""
    common = next((k for k, both in enumerate(zip(a.ids, b.ids, strict=False)) if both[0] != both[1]), None)
    if common is None:  # the same, or one was cut where the other goes on
        return {"common": min(len(a.ids), len(b.ids)), "part_a": None, "part_b": None}
    tokenizer = model.phi.encoder.tokenizer
    said = {f"part_{name}": token_text(tokenizer, reply.ids[common]) for name, reply in (("a", a), ("b", b))}
    return {"common": common, **said}


def _steps(model: ChatModel, a: _Side, b: _Side) -> Iterator[dict[str, Any]]:
    """Along the first answer: how far apart the distributions of the next token are after the two prompts."""
    ids = a.reply.ids
    both = [side.prefix.log_probabilities(ids) for side in (a, b)] if _fits(model, b, ids) else []
    for step, (token, *rows) in enumerate(zip(ids, *both, strict=True) if both else ()):
        own = {f"p_{name}": float(row[token].exp()) for name, row in zip("ab", rows, strict=True)}
        text = token_text(model.phi.encoder.tokenizer, token)
        yield {"step": step + 1, "token": text, **own, "js": Divergence.between(*rows).js}


def _fits(model: ChatModel, side: _Side, ids: Sequence[int]) -> bool:
    return len(side.sent.ids) + len(ids) <= model.phi.encoder.longest


def _attention(side: _Side) -> Iterator[dict[str, Any]]:
    """What the tokens of the answer pay to the changed word, by layer and head."""
    if not side.sent.word:
        return
    for layer, heads in side.prefix.attention(side.reply.words or side.reply.ids, side.sent.word).items():
        for head, weight in enumerate(heads.tolist()):
            yield {"side": side.name, "layer": layer, "head": head, "weight": weight}


def _notes(model: ChatModel, tables: Mapping[str, pd.DataFrame]) -> Iterator[str]:
    """What a reader has to know to interpret the numbers."""
    if model.template is None:
        yield "the model's files have no chat template: the plain text was sent"
    lines = tables["prompts"]
    cut = int((~lines[["ended_a", "ended_b"]].to_numpy(dtype=bool)).sum())
    if cut:
        yield f"{cut} of {2 * len(lines)} answers were cut at the largest number of tokens; … marks them"
    if len(tables["attention"]) == 0:
        yield "no attention: the changed word was not found in what was sent, or the model does not show its attention"
