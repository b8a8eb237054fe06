"""The laws of theory against measurement: RF for several activations, DRF by depth, attention, several words."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from oneword import (
    Ascent,
    AttentionFeatures,
    Ball,
    DeepRandomFeatures,
    FeatureMap,
    RandomFeatures,
    gaussian,
    sensitivity,
    theory,
)
from oneword.search.defaults import DefaultSearch

SPREAD = (("over_guide", lambda x: float(np.mean(x))), ("least", min), ("largest", max))


def _sup(phi: FeatureMap, X: torch.Tensor, positions: list[int], search: Ascent) -> float:
    probe = phi.at(X)
    return math.sqrt(float(search.run(probe, torch.tensor(positions)[:, None], Ball()).change2.max())) / probe.norm


def _exponent(ns: list[int], values: list[float]) -> float:
    return float(np.polyfit(np.log(ns), np.log(values), 1)[0])


def random_features(d: int = 128, trials: int = 5) -> dict[str, Any]:
    """S_RF of one position, exact in law, k = D, against the prediction of any activation."""
    lines, ns, scaled = [], [], []
    for sigma in ("relu", "tanh", "gelu"):
        for n in (50, 75, 100, 150):
            values = []
            for seed in range(trials):
                phi = RandomFeatures.draw(n, d, activation=sigma, seed=seed).alone(0)
                values.append(_sup(phi, gaussian(n, d, seed=seed).X, [0], DefaultSearch()))
            predicted = theory.rf_sensitivity(n, d, activation=sigma)
            lines.append(
                {"activation": sigma, "n": n, "measured": float(np.mean(values)), "predicted": predicted}
                | {"measured_over_predicted": float(np.mean(values)) / predicted}
            )
            print(f"  {lines[-1]}", flush=True)
            if sigma == "relu":
                ns += [n] * trials
                scaled += [value / (1 + math.sqrt(2 / n)) for value in values]
    worst = max(abs(line["measured_over_predicted"] - 1) for line in lines)
    return {"d": d, "each": lines, "largest_deviation": worst, "exponent_of_S/(1+√(2d/k))": _exponent(ns, scaled)}


def deep_random_features(d: int = 192) -> list[dict[str, float]]:
    """S_DRF of one position, ReLU, k = D, float32; the depths share their weights."""
    lines = []
    for n in (50, 80):
        text = gaussian(n, d, seed=0, dtype=torch.float32)
        deepest = DeepRandomFeatures.draw(n, d, depth=8, seed=0, dtype=torch.float32)
        for depth in (2, 4, 8):
            value = _sup(deepest.truncated(depth), text.X, [0], Ascent(polish=30))
            lines.append({"n": n, "depth": depth, "measured": value, "guide": theory.drf_guide(n, depth)})
            print(f"  {lines[-1]}", flush=True)
        del deepest
    return lines


def deep_guide(most: int = 4000) -> list[dict[str, Any]]:
    """S_DRF over its guide, ReLU, k = D, float32, full search: one position, and all where D ≤ `most`."""
    lines = []
    for n, d in ((n, d) for d in (32, 96) for n in (10, 20, 40, 80)):
        trials = 10 if n * d <= 1280 else 4  # narrow layers differ more from draw to draw
        one: dict[int, list[float]] = {}
        every: dict[int, list[float]] = {}
        for seed in range(trials):
            text = gaussian(n, d, seed=seed, dtype=torch.float32)
            deepest = DeepRandomFeatures.draw(n, d, depth=8, seed=seed, dtype=torch.float32)
            for depth in (2, 4, 8):
                phi, guide = deepest.truncated(depth), theory.drf_guide(n, depth)
                one.setdefault(depth, []).append(_sup(phi, text.X, [0], DefaultSearch()) / guide)
                if n * d <= most:
                    every.setdefault(depth, []).append(_sup(phi, text.X, list(range(n)), DefaultSearch()) / guide)
        for depth in one:
            ratios = {"one_position": one[depth], "all_positions": every.get(depth, [])}
            about = {f"{name}_{what}": of(values) for name, values in ratios.items() if values for what, of in SPREAD}
            lines.append({"n": n, "d": d, "depth": depth, "trials": trials} | about)
            print(f"  {lines[-1]}", flush=True)
    return lines


def attention(d: int = 768, trials: int = 3) -> dict[str, Any]:
    """S_RAF and S_ReLU-RAF, sup over all positions, n = 10 … 250."""
    out: dict[str, Any] = {"d": d, "search": "quick"}
    for score in ("softmax", "relu"):
        ns, values = [], []
        for n in (10, 25, 50, 100, 175, 250):
            for seed in range(trials):
                phi = AttentionFeatures.draw(d, score=score, seed=seed)
                ns.append(n)
                values.append(_sup(phi, gaussian(n, d, seed=seed).X, list(range(n)), DefaultSearch(quick=True)))
        mean = {n: float(np.mean([v for m, v in zip(ns, values, strict=True) if m == n])) for n in dict.fromkeys(ns)}
        out[score] = {"mean": mean, "exponent": _exponent(ns, values)}
        print(f"  {score}: {out[score]}", flush=True)
    return out


def several_words(n: int = 50, d: int = 192) -> list[dict[str, float]]:
    """S^(m) of RF, ReLU, k = D, words chosen greedily, against √(m/n)(1+√(2md/k))."""
    lines = []
    text, phi = gaussian(n, d, seed=0), RandomFeatures.draw(n, d, seed=0)
    for m in (1, 5, 12, 25, 50):
        value = sensitivity(phi, text, words=m, certify=False, baseline=0).value
        predicted = theory.rf_words(m, n, d)
        lines.append({"m": m, "measured": value, "predicted": predicted, "measured_over_predicted": value / predicted})
        print(f"  {lines[-1]}", flush=True)
    return lines
