"""How tight the certificates are: upper/value over all positions, medians of five seeds or texts, one thread.

python -m benchmarks.brackets [section …]
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from oneword import AttentionFeatures, Ball, Certify, Context, Corpus, Sphere, encode, gaussian, sensitivity
from oneword.sets.constraints import Constraint

SEEDS = 5
Case = tuple[AttentionFeatures, Context | Tensor]
# n: the bar and the target, d = 384.
TABLE = {10: (1.05, 1.03), 20: (1.06, 1.03), 50: (1.10, 1.05), 100: (1.12, 1.06), 200: (1.15, 1.1), 400: (1.20, 1.18)}
# n, d: the bar; the target is the default.
DEFAULT = {(100, 96): 1.35, (200, 96): 1.55, (250, 192): 1.25}
RELU = {(10, 384): 1.3, (30, 384): 1.4, (120, 384): 1.75}
SPHERE = {18: 1.35, 65: 1.65}  # tokens of a review
SMALL = {(10, 24): 8.0}  # Ball(0.001√d)


def drawn(n: int, d: int, score: str = "softmax") -> Iterator[Case]:
    for seed in range(SEEDS):
        yield AttentionFeatures.draw(d, seed=seed, score=score), gaussian(n, d, cosine=0.07, seed=seed)


def reviews(tokens: int, score: str = "softmax") -> Iterator[Case]:
    """The first tokens of real reviews under the embedded encoder, each a word of its own, as in the paper."""
    texts = (text for text in Corpus.load().texts if len(text.split()) >= tokens)
    for seed, text in zip(range(SEEDS), texts, strict=False):
        X = encode(" ".join(text.split()[:tokens])).X[:tokens].double()
        yield AttentionFeatures.draw(X.shape[1], seed=seed, score=score), X


def bracket(cases: Iterator[Case], bar: float, effort: Certify, within: Constraint = Ball()) -> dict[str, Any]:  # noqa: B008
    """The default search, the closed form and the refined certificate of every case."""
    ratios, plain, spent, ended = [], [], [], set()
    for phi, text in cases:
        closed = sensitivity(phi, text, within=within, certify=Certify.plain(), baseline=0)
        refined = sensitivity(phi, text, within=within, certify=effort, baseline=0)
        ratios.append(refined.ratio)
        plain.append(closed.ratio)
        spent.append(refined.provenance["certificate_seconds"])
        ended.add(refined.certificate)
    return {
        "bar": bar,
        "median_upper_over_value": statistics.median(ratios),
        "each": ratios,
        "median_closed_form": statistics.median(plain),
        "most_seconds": max(spent),
        "certificates": sorted(ended),
    }


def table() -> dict[str, Any]:
    """Softmax, Gaussian words, d = 384."""
    return {f"n={n} d=384": bracket(drawn(n, 384), bar, Certify(target)) for n, (bar, target) in TABLE.items()}


def default() -> dict[str, Any]:
    return {f"n={n} d={d}": bracket(drawn(n, d), bar, Certify()) for (n, d), bar in DEFAULT.items()}


def relu() -> dict[str, Any]:
    return {f"n={n} d={d}": bracket(drawn(n, d, "relu"), bar, Certify()) for (n, d), bar in RELU.items()}


def sphere() -> dict[str, Any]:
    """Real text, all words of norm √d; softmax has the bar."""
    return {
        f"{score} tokens={tokens}": bracket(reviews(tokens, score), bar, Certify(), Sphere())
        for tokens, bar in SPHERE.items()
        for score in ("softmax", "relu")
    }


def small() -> dict[str, Any]:
    return {
        f"n={n} d={d} r=0.001√d": bracket(drawn(n, d), bar, Certify(), Ball(1e-3 * math.sqrt(d)))
        for (n, d), bar in SMALL.items()
    }


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    section.__name__: section for section in (table, default, relu, sphere, small)
}


def measure(names: list[str] | None = None) -> dict[str, Any]:
    torch.set_num_threads(1)
    sensitivity(AttentionFeatures.draw(8, seed=0), gaussian(5, 8, seed=0), certify=Certify(1.0, 0.01))  # compiles
    lines = {}
    for name in names or SECTIONS:
        lines[name] = SECTIONS[name]()
        print(json.dumps({name: lines[name]}, indent=1, ensure_ascii=False), flush=True)
    return lines


if __name__ == "__main__":
    measure(sys.argv[1:])
