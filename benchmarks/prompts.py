"""One word of a prompt, for the embedded chat model: what reading the clean prefix once saves, and how soon one knows.

    python -m benchmarks.prompts

The prompt has 60 tokens, and changes are in its second half: random vectors, so many for each word. A full pass keeps
the logits of the answers alone, and takes as many changes at once as the fast way does.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

import oneword as ow
from oneword.chat.model import ChatModel
from oneword.chat.odds import AnswerOdds
from oneword.maps.base import replace_rows
from oneword.maps.transformer import TransformerFeatures
from oneword.report.words.table import WordTable
from oneword.text.context import spread_positions

REVIEW = "I did not like this film at all, it was long and boring."
PROMPT = f"Here is a review: {REVIEW} Is it positive or negative? One word."
SHORT = ("Positive", "Negative")
LONG = ("The review is positive.", "The review is negative.")
CHANGES = 8  # at each word: one round of a shortlist
WORDS = 4  # evenly spread over the second half
ROUNDS = 2


def seconds(work: Callable[[], Tensor]) -> tuple[float, Tensor]:
    """The least of a few."""
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.perf_counter()
        with torch.no_grad():
            found = work()
        best = min(best, time.perf_counter() - started)
    return best, found


def reuse(model: ChatModel, answers: tuple[str, str]) -> dict[str, Any]:
    """Changes of the words in the second half of the prompt, the fast way and by full passes."""
    text, sent = model.context(PROMPT), model.send_message(PROMPT)
    first, second = (model.spelled(sent, answer) for answer in answers)
    phi = AnswerOdds(model.phi, ((first,), (second,)))
    probe, X = phi.at(text.X), text.X
    words = [i for i, special in enumerate(text.special) if not special and text.rows[i][0] >= text.n // 2]
    words = spread_positions(words, WORDS)
    draw = torch.Generator().manual_seed(0)
    fast, full, gap, largest = 0.0, 0.0, 0.0, 0.0
    for i in words:
        rows = torch.tensor([text.rows[i]] * CHANGES)
        y = X[rows] + 0.5 * X[rows].norm(dim=-1, keepdim=True) / X.shape[1] ** 0.5 * torch.randn(
            *rows.shape, X.shape[1], generator=draw
        )
        quick, some = seconds(partial(probe.features, y, rows))
        slow, all_ = seconds(partial(phi, replace_rows(X, y, rows)))
        fast, full = fast + quick, full + slow
        gap, largest = max(gap, float((some - all_).abs().max())), max(largest, float(all_.abs().max()))
    return {
        "answers": list(answers),
        "tokens": text.n,
        "words": len(words),
        "changes": CHANGES * len(words),
        "ms_a_change": round(1000 * fast / CHANGES / len(words), 2),
        "times_faster": round(full / fast, 2),
        "largest_gap": gap,
        "largest_log_odds": round(largest, 2),
    }


def first_answer() -> dict[str, Any]:
    """From the call to the first table and to the last one, the model read before."""
    told: list[float] = []
    started = time.perf_counter()

    def show(table: WordTable) -> None:
        if table.words["left_out"].notna().all():
            told.append(time.perf_counter() - started)

    table = ow.measure(PROMPT, by="smollm2", answers=SHORT, show=show)
    whole = time.perf_counter() - started
    return {"words": len(table.words), "first_answer": round(told[0], 1), "everything": round(whole, 1)}


def measure() -> dict[str, Any]:
    model = ChatModel.of(TransformerFeatures.load("smollm2"))
    return {"reuse": [reuse(model, answers) for answers in (SHORT, LONG)], "first_answer": first_answer()}


if __name__ == "__main__":
    print(json.dumps(measure(), indent=1))
