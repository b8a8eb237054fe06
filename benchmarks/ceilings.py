"""Ceilings of trained models: attacked, and how far above the searched value they are.

An attack changes words without any limit: one of them or all that the ceiling covers, to random vectors of all sizes,
to zeros, constants and single entries, and by gradient ascent. Every output and layer of tiny random models of eight
families, and of all-MiniLM-L6-v2, in four precisions.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.models import review
from oneword import Ball, TransformerFeatures, sensitivity
from oneword.bounds.certificate import Certify, certificate
from oneword.errors import RangeError
from oneword.maps.last_steps import STEADY, unsteadiness
from oneword.maps.outputs import OUTPUTS, POOLINGS
from tests.text.tiny_models import write_model

BARS = {"beaten": "0", "minilm_pooled_best_attack": "≥ 0.9", "ratio_7": "≤ 1.3", "ratio_32": "≤ 1.6"}
FAMILIES = ("bert", "roberta", "mpnet", "electra", "distilbert", "gpt2", "llama", "gemma")
CLASSIFIERS = ("bert", "roberta", "mpnet", "electra", "distilbert")  # with heads of their own
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
SIZES = (1e-30, 1e-6, 1e-2, 0.3, 1.0, 10.0, 1e3, 1e6, 1e12, 1e30)
TEXTS = ("I love her smile.", "It wasn't unhappily made: watch it twice!", "not good, not bad, not for everyone", "no")


def attack(
    count: int, *, seed: int = 0, families: tuple[str, ...] = (*FAMILIES, "minilm"), steps: int = 20, stride: int = 1
) -> dict[str, Any]:
    """At least `count` changed texts, and each `stride`th map once; `best` is the largest change over its ceiling."""
    rng = np.random.default_rng(seed)
    tried, unsteady, above, beaten, without = 0, 0, 0, [], set()
    best: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        maps = list(_maps(Path(folder), families))[::stride]
        for turn, phi in enumerate(cycle(maps)):
            text = phi.encode(TEXTS[int(rng.integers(len(TEXTS)))])
            probe = phi.at(text.X)
            row = int(rng.integers(probe.n))
            made = certificate(probe, torch.tensor([[row]]), Ball(), torch.zeros(1), Certify.plain())
            case = f"{phi.name} {phi.precision} {phi.selection.output.name} {phi.selection.layer} {phi.pooling}"
            if made.upper is None:
                without.add(f"{case}: {made.how}")
            else:
                changed = _changed(phi, probe.X, row, made.how, rng, steps)
                with torch.no_grad():
                    moved = phi(changed).double().flatten(1) - probe.clean.double().flatten()
                share = moved.norm(dim=1) / float(made.upper[0])
                # Numbers that overflow are refused elsewhere; where the mean of a row drowns its spread, a LayerNorm in
                # the model's precision is none any more.
                sound = share.isfinite()
                normalised = phi.selection.source == "attention" or phi.selection.output.unit_rows
                if not normalised and made.kind == "ceiling":
                    sound &= unsteadiness(phi, changed) <= STEADY
                unsteady += int((~sound).sum())
                above += int((share[~sound] > 1).sum())
                assert bool(sound.any()), case
                share = share[sound]
                tried += len(share)
                key = f"{phi.name} {phi.selection.output.name}"
                best[key] = max(best.get(key, 0.0), float(share.max()))
                beaten += (
                    [f"{case}, {text.text!r}, row {row}, {int(share.argmax())}: {float(share.max()):.3f}"]
                    if float(share.max()) > 1
                    else []
                )
            if tried >= count and turn + 1 >= len(maps):
                return {
                    "attacks": tried,
                    "beaten": len(beaten),
                    "cases": beaten,
                    "unsteady": unsteady,
                    "unsteady_above": above,
                    "maps": len(maps),
                    "best": best,
                    "without": sorted(without),
                }
    raise AssertionError("no maps")


def _maps(folder: Path, families: tuple[str, ...]) -> Iterator[TransformerFeatures]:
    """Every output, layer, pooling and precision that there is."""
    for family in families:
        heads = [True, *(["ForSequenceClassification"] if family in CLASSIFIERS else [])]
        for head in [None] if family == "minilm" else heads:
            name = family
            if head is not None:
                name = str(folder / f"{family} {head}")
                write_model(Path(name), family, head=head, layers=2, spread=0.3)
            for dtype in DTYPES[:1] if family == "minilm" else DTYPES:
                yield from _selections(TransformerFeatures.load(name, dtype=dtype), language=head is not None)


def _selections(phi: TransformerFeatures, language: bool) -> Iterator[TransformerFeatures]:
    for output, about in OUTPUTS.items():
        for layer in range(about.first_layer, phi.layers + 1):
            if not about.has_layers and (layer < phi.layers or not language):
                continue
            try:
                asked = phi.select(output=output, layer=layer)
            except RangeError:  # a head that was not saved, or none
                continue
            for pooling in POOLINGS if output == "pooled" else [phi.checkpoint.pooling]:
                yield TransformerFeatures(replace(phi.checkpoint, pooling=pooling), asked.selection)


def _changed(
    phi: TransformerFeatures, X: Tensor, row: int, covers: str, rng: np.random.Generator, steps: int
) -> Tensor:
    """Texts that the bound speaks of: the rows that it covers become anything at all, or move within the radius."""
    n, d = X.shape
    if "the change itself" in covers:  # layer 0 of decoders
        texts = X.repeat(50, 1, 1)
        wild = torch.from_numpy(rng.standard_normal((50, d))).to(X)
        texts[:, row] += math.sqrt(d) * wild / wild.norm(dim=1, keepdim=True)
        return texts
    last = row + 1 if "these rows" in covers else n
    first = 0 if "any words" in covers else row
    largest = float(torch.finfo(phi.precision).max) / 1e3
    texts = []
    for size in SIZES:
        size = min(size, largest)
        for rows in ((row, row + 1), (first, last)):
            wild = torch.from_numpy(rng.standard_normal((rows[1] - rows[0], d)))
            single = torch.eye(d, dtype=torch.float64)[rng.integers(d, size=len(wild))]
            for new in (wild, single, torch.ones_like(wild), torch.ones_like(wild) + 1e-7 * wild, X[rows[0]] / size):
                text = X.double().clone()
                text[rows[0] : rows[1]] = size * new
                texts.append(text)
    texts.append(torch.where(torch.arange(n)[:, None] >= first, 0.0, X.double()) if last == n else X.double())
    return torch.cat([torch.stack(texts).to(X), _climb(phi, X, first, last, rng, steps)])


def _climb(phi: TransformerFeatures, X: Tensor, first: int, last: int, rng: np.random.Generator, steps: int) -> Tensor:
    """The iterates of a gradient ascent of the change over all rows that the ceiling covers."""
    if phi.precision not in (torch.float32, torch.float64):
        return X[:0, None].expand(0, *X.shape)
    clean = phi(X).detach()
    free = X + 0.5 * X.norm(dim=1).mean() * torch.from_numpy(rng.standard_normal(X.shape)).to(X) / X.shape[1] ** 0.5
    free = free.detach().requires_grad_(True)
    mask = torch.zeros_like(X)
    mask[first:last] = 1
    climb = torch.optim.Adam([free], lr=0.1 * float(X.norm(dim=1).mean()) / X.shape[1] ** 0.5)
    seen = []
    for _ in range(steps):
        at = X + mask * (free - X)
        seen.append(at.detach().clone())
        climb.zero_grad()
        (-(phi(at) - clean).square().sum()).backward()
        climb.step()
    return torch.stack(seen)


def best_attack(texts: int = 3, steps: int = 400, starts: int = 4) -> float:
    """How much of the pooled ceiling of all-MiniLM-L6-v2 a long ascent over all words reaches."""
    phi = TransformerFeatures.load("minilm", output="pooled")
    shares = []
    for k, words in enumerate(TEXTS[:texts]):
        X = phi.encode(words).X
        probe = phi.at(X)
        upper = certificate(probe, torch.tensor([[0]]), Ball(), torch.zeros(1), Certify.plain()).upper
        assert upper is not None
        free = torch.from_numpy(np.random.default_rng(k).standard_normal((starts, *X.shape))).to(X)
        free = (X + free * X.norm(dim=1).mean() / X.shape[1] ** 0.5).requires_grad_(True)
        climb = torch.optim.Adam([free], lr=0.02)
        rate = torch.optim.lr_scheduler.CosineAnnealingLR(climb, steps)
        best = 0.0
        for _ in range(steps):
            climb.zero_grad()
            moved = (phi(free) - probe.clean).flatten(1).norm(dim=1)
            best = max(best, float(moved.detach().max()))
            (-moved.sum()).backward()
            climb.step()
            rate.step()
        shares.append(best / float(upper[0]))
    return max(shares)


def ratios(reviews: int = 5) -> dict[str, Any]:
    """Ceiling over searched value on the pooled vector of all-MiniLM-L6-v2: medians over reviews.

    Default search; all words up to 32 tokens, eight of them, evenly spread, beyond.
    """
    phi = TransformerFeatures.load("minilm", output="pooled")
    out: dict[str, Any] = {}
    for n in (7, 32, 128, 256):
        found = []
        for trial in range(reviews):
            text = review(phi, n, trial)
            able = [i for i, special in enumerate(text.special) if not special]
            spots = able if n <= 32 else [able[(2 * k + 1) * len(able) // 16] for k in range(8)]
            found.append(sensitivity(phi, text, positions=spots, baseline=0))
        out[f"ratio_{n}"] = statistics.median(each.ratio for each in found)
        out[f"all_{n}"] = [{"value": each.value, "upper": each.upper} for each in found]
    return out


def measure() -> dict[str, Any]:
    attacked = attack(20_000)
    attacked["without"] = dict(Counter(why.partition("no ceiling: ")[2] for why in attacked["without"]))
    return {"bars": BARS, **attacked, "minilm_pooled_best_attack": best_attack(), **ratios()}


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(json.dumps(attack(int(sys.argv[1]) if sys.argv[1:] else 2_000), indent=1))
