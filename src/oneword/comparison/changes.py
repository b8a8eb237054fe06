"""How far words, layers and heads moved between two texts, as tidy tables.

The change of a representation h is relative, ‖h_b − h_a‖ / ‖h_a‖, as in the definition of word sensitivity.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from oneword.comparison.alignment import Pair
from oneword.comparison.attention import between_words, distances
from oneword.text.context import Context

Texts = tuple[Context, Context]
Hidden = Sequence[Float[np.ndarray, "layers n width"]]  # of each text
Weights = Sequence[Float[np.ndarray, "layers heads n n"]]


def pairs_table(texts: Texts, pairs: Sequence[Pair]) -> pd.DataFrame:
    """The words of both texts beside each other: one line a pair, what is missing is None."""
    return pd.DataFrame([_line(texts, k, pair) for k, pair in enumerate(pairs)]).astype({"a": "Int64", "b": "Int64"})


def words_table(texts: Texts, pairs: Sequence[Pair], hidden: Hidden) -> pd.DataFrame:
    """One line a layer and pair of words; the representation of a word is the mean over its tokens."""
    both, a, b = _beside(texts, pairs, hidden)
    numbers = _changes(a, b, axis=-1)
    layers = len(a)
    about = pd.DataFrame([_line(texts, k, pairs[k]) for k in both])[["pair", "word_a", "word_b", "how", "special"]]
    table = pd.concat([about] * layers, ignore_index=True)
    table.insert(0, "layer", np.repeat(np.arange(layers), len(both)))
    return table.assign(**{name: values.ravel() for name, values in numbers.items()})


def layers_table(texts: Texts, pairs: Sequence[Pair], hidden: Hidden) -> pd.DataFrame:
    """One line a layer: `whole` is the change of all rows, or of all words that have a counterpart, as `over` says."""
    over = "rows" if texts[0].n == texts[1].n else "aligned words"
    a, b = hidden if over == "rows" else _beside(texts, pairs, hidden)[1:]
    pooled = _changes(hidden[0].mean(1), hidden[1].mean(1), axis=-1)
    return pd.DataFrame(
        {
            "layer": np.arange(len(a)),
            "whole": _changes(a, b, axis=(-2, -1))["change"],
            "over": over,
            "pooled": pooled["change"],
            "cosine": pooled["cosine"],
        }
    )


def heads_table(texts: Texts, pairs: Sequence[Pair], weights: Weights) -> pd.DataFrame:
    """One line a layer and head: mean over words of the total variation of attention, and the word of the largest."""
    lines: list[dict[str, Any]] = []
    for layer, (a, b) in enumerate(zip(*weights, strict=True), 1):
        apart = distances(between_words(a, texts[0].rows), between_words(b, texts[1].rows), pairs)
        for head, of_words in enumerate(apart):
            first = int(np.nanargmax(of_words))
            word = _line(texts, first, pairs[first])
            most = {"most": of_words[first], "word_a": word["word_a"], "word_b": word["word_b"]}
            lines.append({"layer": layer, "head": head, "change": float(np.nanmean(of_words)), **most})
    return pd.DataFrame(lines)


def _line(texts: Texts, number: int, pair: Pair) -> dict[str, Any]:
    a, b = texts
    word_a = None if pair.a is None else a.words[pair.a]
    word_b = None if pair.b is None else b.words[pair.b]
    special = (pair.a is not None and a.special[pair.a]) or (pair.b is not None and b.special[pair.b])
    about = {"pair": number, "a": pair.a, "b": pair.b, "word_a": word_a, "word_b": word_b, "how": pair.how}
    return about | {"special": special}


def _beside(
    texts: Texts, pairs: Sequence[Pair], hidden: Hidden
) -> tuple[list[int], Float[np.ndarray, "layers both width"], Float[np.ndarray, "layers both width"]]:
    """Which pairs have both words, and what each of the two is at every layer."""
    both = [k for k, pair in enumerate(pairs) if pair.a is not None and pair.b is not None]
    sides = [[pairs[k].a for k in both], [pairs[k].b for k in both]]
    a, b = (
        np.stack([states[:, list(text.rows[i or 0])].mean(1) for i in side], axis=1)
        for text, states, side in zip(texts, hidden, sides, strict=True)
    )
    return both, a, b


def _changes(a: np.ndarray, b: np.ndarray, axis: int | tuple[int, int]) -> dict[str, np.ndarray]:
    """Distance, norms, relative change and cosine along the axes; NaN where a norm is 0."""
    norm_a, norm_b, distance = (np.sqrt((x**2).sum(axis)) for x in (a, b, b - a))
    with np.errstate(divide="ignore", invalid="ignore"):
        change = np.where(norm_a > 0, distance / norm_a, np.nan)
        cosine = np.where((norm_a > 0) & (norm_b > 0), (a * b).sum(axis) / (norm_a * norm_b), np.nan)
    return {
        "distance": distance,
        "norm_a": norm_a,
        "norm_b": norm_b,
        "change": change,
        "cosine": cosine.clip(-1, 1),
    }
