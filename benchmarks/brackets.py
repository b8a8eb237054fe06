"""How tight the certificate is: upper/value over all positions for softmax attention on Gaussian words, one thread."""

from __future__ import annotations

import statistics

import torch

from oneword import AttentionFeatures, Certify, gaussian, sensitivity

TARGETS = {10: 1.05, 20: 1.06, 50: 1.10, 100: 1.12, 200: 1.15, 400: 1.20}


def measure(seeds: int = 5, seconds: float = 30.0) -> list[dict[str, object]]:
    """d = 384, average cosine 0.07; the median of the seeds is what counts."""
    torch.set_num_threads(1)
    warm = gaussian(5, 8, seed=0)
    sensitivity(AttentionFeatures.draw(8, seed=0), warm, certify=Certify(1.0, 1.0))  # compiles the kernels
    lines: list[dict[str, object]] = []
    for n, target in TARGETS.items():
        ratios, spent, plain = [], [], []
        for seed in range(seeds):
            text, phi = gaussian(n, 384, cosine=0.07, seed=seed), AttentionFeatures.draw(384, seed=seed)
            found = sensitivity(phi, text, certify=Certify.plain(), baseline=0)
            refined = sensitivity(phi, text, certify=Certify(target, seconds), baseline=0)
            ratios.append(refined.ratio)
            plain.append(found.ratio)
            spent.append(refined.provenance["certificate_seconds"])
        line: dict[str, object] = {
            "n": n,
            "bar": target,
            "median_upper_over_value": statistics.median(ratios),
            "each": ratios,
            "median_closed_form": statistics.median(plain),
            "most_seconds": max(spent),
        }
        lines.append(line)
        print(f"  n = {n}: {line}", flush=True)
    return lines
