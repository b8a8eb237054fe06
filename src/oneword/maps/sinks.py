"""Attention sinks: tokens whose rows in a layer of a trained model are far longer than all others.

Many decoders give one token, mostly the first, a norm hundreds of times that of the others, and heads that have nothing
to look for look at it. Its row says little about the text, but numbers that add up rows are mostly this row's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from jaxtyping import Bool, Float

from oneword.checks import layer_ranges

FACTOR = 10.0
_NAMED = 3  # sinks that a sentence names


class Text(Protocol):
    """The words of a text and their rows, as a Context has them; reports, which need no torch, read this file too."""

    @property
    def words(self) -> Sequence[str]: ...
    @property
    def rows(self) -> Sequence[tuple[int, ...]]: ...


def find_sinks(norms: Float[np.ndarray, "*layers n"]) -> Bool[np.ndarray, "*layers n"]:
    """Which rows are sinks: those of more than 10 times the median norm of their layer.

    In ‖H‖² such a row outweighs 100 ordinary ones, so that sums over the rows of a text are mostly its own. The first
    token of SmolLM2 reaches 180 times the median, the rows of MiniLM at most 3 times. It is a median, since the sink
    itself would raise a mean. Texts of one or two rows have no sink, for want of others.
    """
    return norms > FACTOR * np.median(norms, axis=-1, keepdims=True)


def word_sinks(text: Text, norms: Float[np.ndarray, "layers n"]) -> Bool[np.ndarray, "layers words"]:
    """Which words have a token that is a sink, after each layer."""
    found = find_sinks(norms)
    return np.stack([found[:, list(rows)].any(1) for rows in text.rows], axis=1)


def sinks_said(texts: Sequence[Text], norms: Sequence[Float[np.ndarray, "layers _"]]) -> str:
    """The sinks of these texts with their layers and norms, for a sentence; empty if there is none."""
    layers: dict[str, set[int]] = {}
    largest: dict[str, float] = {}
    for text, sizes in zip(texts, norms, strict=True):
        share = sizes / np.median(sizes, axis=-1, keepdims=True).clip(np.finfo(float).tiny)
        for layer, word in np.argwhere(word_sinks(text, sizes)).tolist():
            name = text.words[word]
            layers.setdefault(name, set()).add(layer)
            largest[name] = max(largest.get(name, 0.0), float(share[layer, list(text.rows[word])].max()))
    order = sorted(layers, key=lambda name: -largest[name])
    said = [
        f"“{name}” in {layer_ranges(sorted(layers[name]))} (up to {largest[name]:.0f} times the median norm)"
        for name in order[:_NAMED]
    ]
    return ", ".join(said) + (f" and {len(order) - _NAMED} more" if len(order) > _NAMED else "")
