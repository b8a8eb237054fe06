"""Attention between words: how much a word pays to each word, and how far that is from what it pays in another text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from oneword.comparison.alignment import Pair

Rows = Sequence[tuple[int, ...]]


def between_words(weights: Float[np.ndarray, "*heads n n"], rows: Rows) -> Float[np.ndarray, "*heads w w"]:
    """Attention from word to word: a word receives what all its tokens receive, and pays what they pay on average."""
    received = np.stack([weights[..., list(word)].sum(-1) for word in rows], axis=-1)
    return np.stack([received[..., list(word), :].mean(-2) for word in rows], axis=-2)


def distances(
    a: Float[np.ndarray, "*heads w w"], b: Float[np.ndarray, "*heads v v"], pairs: Sequence[Pair]
) -> Float[np.ndarray, "*heads pairs"]:
    """Total variation distance between what the two words of each pair pay; NaN where a word has no counterpart.

    Each pays 1 in all, to the words of its own text. The words of a pair are one place; a word without counterpart is a
    place to which the other text pays nothing.
    """
    apart = np.abs(_placed(a, [pair.a for pair in pairs]) - _placed(b, [pair.b for pair in pairs])).sum(-1) / 2
    apart[..., [pair.a is None or pair.b is None for pair in pairs]] = np.nan
    return apart


def _placed(weights: Float[np.ndarray, "*heads w w"], places: Sequence[int | None]) -> Float[np.ndarray, "*heads p p"]:
    """The same weights place by place; 0 for a place that this text does not have."""
    known = np.array([k for k, place in enumerate(places) if place is not None])
    words = np.array([place for place in places if place is not None])
    out = np.zeros((*weights.shape[:-2], len(places), len(places)))
    out[..., known[:, None], known] = weights[..., words[:, None], words]
    return out
