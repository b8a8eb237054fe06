"""Trained models at texts made by hand: the columns of the table of words, the sizes that MiniLM shows, no model."""

import math

import numpy as np
import pandas as pd

from oneword.report.words.table import Part, Subject

REVIEW = (
    "I went in expecting very little and left the cinema richer. The plot is not new, the jokes are old, and nobody "
    "in it can act; still, there is a warmth in every scene that I have missed for years. "
)


def profile(
    text: str = REVIEW,
    model: str = "all-MiniLM-L6-v2",
    *,
    layers: int = 6,
    heads: int = 12,
    scale: float = 1.0,
    noise: float = 2e-6,
    seed: int = 0,
) -> Part:
    """One model at a text: words are what stands between spaces, with a special token before and after them."""
    draw = np.random.default_rng(seed)
    words = _words(text, scale, noise, draw)
    objective = f"pooled, layer {layers}"
    subject = Subject(
        text=0,
        by=model,
        title=model,
        kind="model",
        what=objective,
        noise=noise,
        about={
            "model": {"model": model, "revision": f"0123abc{seed}"},
            "within": {"set": "Ball", "radius": None, "relative": 1.0, "shown": "‖Δ‖ ≤ ‖x‖"},
            "positions": list(range(len(words))),
            "seed": seed,
            "seconds": {"search": 12.5, "real words": 3.25, "layers": 0.75},
            "versions": {"oneword": "0.1.0", "torch": "2.13.0"},
        },
    )
    return Part(subject, text, words, _layers(words, layers, objective, draw), _heads(layers, heads, draw), {})


def _words(text: str, scale: float, noise: float, draw: np.random.Generator) -> pd.DataFrame:
    lines, at = [], 0
    pieces = ["[CLS]", *text.split(), "[SEP]"]
    n = len(pieces)
    for position, word in enumerate(pieces):
        special = position in (0, n - 1)
        start = None if special else text.index(word, at)
        at = at if start is None else start + len(word)
        sup = scale * draw.uniform(0.6, 1.05)
        below = position % 17 == 11
        best = math.nan if special else sup * draw.uniform(0.4, 0.8)
        lines.append(
            {
                "position": position,
                "word": word,
                "start": start,
                "end": None if special else at,
                "tokens": 1,
                "value": noise / 2 if below else sup,
                "first_order": sup * draw.uniform(0.7, 1.6),
                "random": sup * draw.uniform(0.05, 0.1),
                "random_word": math.nan if special else scale * draw.uniform(0.5, 1.5) * 1.2 / math.sqrt(n),
                "best_word": best,
                "replacement": None if special else f"word{position}",
                "kind": None if special else ("exact", "shortlist", "sampled")[position % 3],
                "below_noise": below,
            }
        )
    return pd.DataFrame(lines).astype({"start": "Int64", "end": "Int64"})


def _layers(words: pd.DataFrame, layers: int, objective: str, draw: np.random.Generator) -> pd.DataFrame:
    lines = []
    for line in words.to_dict("records"):
        start = draw.uniform(0.05, 0.2)
        for layer in range(layers + 1):
            share = start + (1 - start) * (layer / layers) ** draw.uniform(0.6, 1.8)
            how = "searched" if layer == layers else f"at the change of {objective}"
            lines.append({**{name: line[name] for name in ("position", "word")}, "layer": layer,
                          "value": line["value"] * share, "how": how})  # fmt: skip
    return pd.DataFrame(lines)


def _heads(layers: int, heads: int, draw: np.random.Generator) -> pd.DataFrame:
    lines = [
        {
            "layer": layer,
            "head": head,
            "change": draw.beta(1.2, 5),
            "before": draw.uniform(0.005, 0.03),
            "after": draw.beta(1.2, 6),
        }
        for layer in range(1, layers + 1)
        for head in range(heads)
    ]
    return pd.DataFrame(lines)


def lengths(models=("all-MiniLM-L6-v2", "all-MiniLM-L6-v2 re-initialised (seed 0)"), trials: int = 4) -> pd.DataFrame:
    """S against n: the searched change hardly falls, a random word does."""
    draw = np.random.default_rng(0)
    lines = []
    for twin, model in enumerate(models):
        for n in (16, 32, 64, 128, 256):
            for trial in range(trials):
                luck = draw.uniform(0.85, 1.15, size=4)
                lines.append(
                    {
                        "model": model,
                        "output": "pooled, layer 6",
                        "n": n,
                        "trial": trial,
                        "sup": luck[0] * (1.3 * n**-0.05 if not twin else 2.0 * n**-0.5),
                        "random_word": luck[1] * (1.6 * n**-0.7 if not twin else 1.0 * n**-0.5),
                        "best_word": luck[2] * (1.5 * n**-0.3 if not twin else 1.4 * n**-0.5),
                        "first_order": luck[3] * 1.1,
                    }
                )
    return pd.DataFrame(lines)


def exponents() -> pd.DataFrame:
    """Slopes as `experiments.rows.trained_fits` would find them; one of them without an interval."""
    return pd.DataFrame(
        [
            ("all-MiniLM-L6-v2", "sup", -0.05, -0.08, -0.01),
            ("all-MiniLM-L6-v2", "best_word", -0.3, -0.35, -0.26),
            ("all-MiniLM-L6-v2", "random_word", -0.7, -0.75, -0.66),
            ("all-MiniLM-L6-v2 re-initialised (seed 0)", "sup", -0.5, math.nan, math.nan),
        ],
        columns=["model", "column", "slope", "low", "high"],
    )
