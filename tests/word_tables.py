"""Tables of words made by hand: maps with seeds and gaps, models with layers and noise, texts that break pages."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from oneword.report.words.table import RANKED, Subject, WordTable, words_frame

EVIL = "</script><script>document.title = 'broken'</script>"
QUOTES = "\"><img src=x onerror=alert('1')>"
REVIEW = (
    "I went in expecting very little and left the cinema richer. The plot is not new, the jokes are old, and nobody "
    "in it can act; still, there is a warmth in every scene that I have missed for years. "
)
MODEL, TWIN = "all-MiniLM-L6-v2", "all-MiniLM-L6-v2 re-initialised (seed 0)"
LAYERS, HEADS, NOISE = 6, 12, 2e-6
OUTPUT = f"pooled, layer {LAYERS}"


def word_table(
    *texts: str,
    maps: tuple[str, ...] = (),
    models: tuple[str, ...] = (),
    seeds: tuple[int, ...] = (0,),
    special: bool = True,
) -> WordTable:
    """Words are what stands between spaces; models have a special token before and after them unless told not to."""
    words, layers, heads, subjects = [], [], [], []
    for number, text in enumerate(texts):
        draw = np.random.default_rng(number)
        for by in maps:
            words += _map_rows(text, number, by, seeds, draw)
            subjects.append(Subject(number, by, by, "map", within="‖Δ‖ ≤ √d", certificate="a chain of norms"))
        for k, by in enumerate(models):
            mine = list(_model_rows(text, number, by, draw, special))
            words += mine
            layers += _layers(mine, draw)
            heads += _heads(number, by, draw)
            subjects.append(_model(number, by, k, len(mine)))
    table = words_frame(words)
    return WordTable(
        texts,
        table,
        _replacements(table),
        pd.DataFrame(layers),
        pd.DataFrame(heads),
        subjects=tuple(subjects),
        notes=("best words: 256 of 23,695, chosen by the Jacobian",),
        about=_about(maps, seeds) if maps else {},
    )


def bare(text: str = "a b", values: tuple[float, ...] = (0.5, 0.25), **fields: Any) -> WordTable:
    """A model of which nothing but S is known."""
    spots = list(_spots(text))
    rows = [_place(0, "m", *spot, len(spots)) | {"value": value} for spot, value in zip(spots, values, strict=True)]
    said = {"text": 0, "by": "m", "title": "m", "kind": "model", "what": "cls", "within": "‖Δ‖ ≤ ‖x‖"}
    return WordTable((text,), words_frame(rows), subjects=(Subject(**said | fields),))


def _spots(text: str) -> Iterator[tuple[int, str, int, int]]:
    at = 0
    for index, word in enumerate(text.split(), 1):
        start = text.index(word, at)
        at = start + len(word)
        yield index, word, start, at


def _place(number: int, by: str, index: int, word: str, start: int | None, end: int | None, n: int) -> dict[str, Any]:
    at = {"text": number, "window": 0, "position": index, "index": index, "word": word, "start": start, "end": end}
    return at | {"tokens": 1, "n": n, "by": by}


def _map_rows(
    text: str, number: int, by: str, seeds: tuple[int, ...], draw: np.random.Generator
) -> Iterator[dict[str, Any]]:
    """rf measures every other word, and to every third no real word fits."""
    spots = list(_spots(text))
    for index, word, start, end in spots:
        for seed in seeds:
            if by == "rf" and index % 2 == 0:
                continue
            value = 3 + draw.random()
            row = _place(number, by, index, word, start, end, len(spots) + 2)
            row |= {"seed": seed, "value": value, "upper": value + 1, "upper_kind": "certificate", "radius": 1.0}
            row |= {"random": 0.3, "below_noise": False}
            if index % 3:
                row |= {"best_word": draw.random(), "replacement": QUOTES, "distance": 1.4, "kind": "exact"}
                row |= {"candidates": 5, "random_word": 0.2, "random_distance": 1.3}
            yield row


def _model_rows(text: str, number: int, by: str, draw: np.random.Generator, special: bool) -> Iterator[dict[str, Any]]:
    """Sizes that MiniLM shows; every 17th word stays below the noise."""
    own = list(_spots(text))
    n = len(own) + 2
    ends = [(0, "[CLS]", None, None)], [(n - 1, "[SEP]", None, None)]
    for index, word, start, end in [*ends[0], *own, *ends[1]] if special else own:
        value, below = draw.uniform(0.6, 1.05), index % 17 == 11
        row = _place(number, by, index, word, start, end, n)
        row |= {"value": NOISE / 2 if below else value, "below_noise": below, "upper": 2.0, "upper_kind": "ceiling"}
        row |= {"first_order": value * draw.uniform(0.7, 1.6), "random": value * draw.uniform(0.05, 0.1)}
        if start is not None:
            row |= {"best_word": value * draw.uniform(0.4, 0.8), "replacement": f"word{index}", "candidates": 256}
            row |= {"kind": ("exact", "shortlist", "sample")[index % 3]}
            row |= {"random_word": draw.uniform(0.5, 1.5) * 1.2 / math.sqrt(n)}
        yield row


def _model(number: int, by: str, k: int, words: int) -> Subject:
    about = {
        "model": {"model": by, "revision": f"0123abc{k}"},
        "positions": list(range(words)),
        "seconds by stage": {"search": 12.5, "real words": 3.25, "layers": 0.75},
        "versions": {"oneword": "0.1.0", "torch": "2.13.0"},
    }
    ceiling = "ceiling: changes of any size, since it ends in a norm"
    return Subject(number, by, by, "model", OUTPUT, "‖Δ‖ ≤ ‖x‖", ceiling, NOISE, about)


def _layers(rows: list[dict[str, Any]], draw: np.random.Generator) -> Iterator[dict[str, Any]]:
    for row in rows:
        start = draw.uniform(0.05, 0.2)
        for layer in range(LAYERS + 1):
            share = start + (1 - start) * (layer / LAYERS) ** draw.uniform(0.6, 1.8)
            how = "searched" if layer == LAYERS else f"at the change of {OUTPUT}"
            known = {name: row[name] for name in ("text", "by", "position", "word")}
            yield known | {"layer": layer, "value": row["value"] * share, "how": how, "sink": row["position"] == 1}


def _heads(number: int, by: str, draw: np.random.Generator) -> Iterator[dict[str, Any]]:
    for layer in range(1, LAYERS + 1):
        for head in range(HEADS):
            moved = {"change": draw.beta(1.2, 5), "before": draw.uniform(0.005, 0.03), "after": draw.beta(1.2, 6)}
            yield {"text": number, "by": by, "layer": layer, "head": head, **moved}


def _replacements(words: pd.DataFrame) -> pd.DataFrame:
    """Two for each word that has one."""
    known = words[words["best_word"].notna()]
    both = [
        known.assign(rank=1, value=known["best_word"]),
        known.assign(rank=2, value=known["best_word"] / 2, replacement="zebra"),
    ]
    return pd.concat(both, ignore_index=True)[RANKED]


def _about(maps: tuple[str, ...], seeds: tuple[int, ...]) -> dict[str, Any]:
    return {
        "by": list(maps),
        "encoder": {"encoder": "tiny", "revision": EVIL, "layer": 0, "encoder_width": 8},
        "seeds": list(seeds),
        "within": {"set": "Ball", "radius": None, "shown": "‖Δ‖ ≤ √d"},
        "words": {"set": "Vocabulary", "words": 5, "shown": "5 words of tiny"},
        "special tokens": ["[CLS]", "[SEP]"],
        "special tokens change": False,
        "d": 8,
    }


def lengths(models: tuple[str, ...] = (MODEL, TWIN), trials: int = 4) -> pd.DataFrame:
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
                        "output": OUTPUT,
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
            (MODEL, "sup", -0.05, -0.08, -0.01),
            (MODEL, "best_word", -0.3, -0.35, -0.26),
            (MODEL, "random_word", -0.7, -0.75, -0.66),
            (TWIN, "sup", -0.5, math.nan, math.nan),
        ],
        columns=["model", "column", "slope", "low", "high"],
    )
