"""Inside a trained model: how far a change of one word moves every layer and head, and how large the noise is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from oneword.maps.base import feature_norm
from oneword.maps.transformer import TransformerFeatures
from oneword.progress import Progress, silent
from oneword.text.context import Context

_TEXTS_AT_ONCE = 16
# Of the noise floor: texts in a batch, and tokens of padding.
BATCHES = (2, 7, 16)
PADDINGS = (1, 3, 16, 37)


def across_layers(
    phi: TransformerFeatures,
    text: Context,
    deltas: Mapping[int, Tensor],
    progress: Progress = silent,
) -> list[dict[str, Any]]:
    """The relative change of every layer when each word changes by its Δ: one line a word and layer, one pass a word.

    Layers are pooled, or their rows normalised, where the map does so, and whole where it does not.
    """
    clean = _seen(phi, phi.states(text.X).hidden)
    lines: list[dict[str, Any]] = []
    members = sorted(deltas)
    for first in range(0, len(members), _TEXTS_AT_ONCE):
        some = members[first : first + _TEXTS_AT_ONCE]
        changed = torch.stack([moved(text, i, deltas[i]) for i in some])
        with torch.no_grad():
            layers = _seen(phi, phi.states(changed).hidden)
        values = torch.stack(
            [
                (after - before).flatten(1).norm(dim=1) / before.norm()
                for before, after in zip(clean, layers, strict=True)
            ],
            dim=1,
        )
        for i, line in zip(some, values.tolist(), strict=True):
            lines += [
                {"position": i, "word": text.words[i], "layer": layer, "value": value}
                for layer, value in enumerate(line)
            ]
        progress("layers", (first + len(some)) / len(members))
    return lines


def across_heads(phi: TransformerFeatures, text: Context, position: int, delta: Tensor) -> list[dict[str, Any]]:
    """How every head's attention changes with one word: mean total variation of its rows, and the mass on the word."""
    with torch.no_grad():
        before, after = (phi.states(X, attention=True).attention or () for X in (text.X, moved(text, position, delta)))
    rows = list(text.rows[position])
    return [
        {
            "layer": layer,
            "head": head,
            "change": float((new - old).abs().sum(-1).mean() / 2),
            "before": float(old[:, rows].sum(-1).mean()),
            "after": float(new[:, rows].sum(-1).mean()),
        }
        for layer, (olds, news) in enumerate(zip(before, after, strict=True), 1)
        for head, (old, new) in enumerate(zip(olds, news, strict=True))
    ]


def moved(text: Context, position: int, delta: Tensor) -> Float[Tensor, "n d"]:
    """X with one word changed by Δ."""
    X = text.X.clone()
    X[list(text.rows[position])] += delta.reshape(len(text.rows[position]), -1)
    return X


def _seen(phi: TransformerFeatures, hidden: Sequence[Tensor]) -> list[Tensor]:
    return [phi.reduced(layer) for layer in hidden] if phi.selection.source == "hidden" else list(hidden)


def row_norms(phi: TransformerFeatures, X: Float[Tensor, "n d"]) -> Float[np.ndarray, "layers n"]:
    """The norm of every row after each layer."""
    with torch.no_grad():
        hidden = phi.states(X).hidden
    return torch.stack([layer.double().norm(dim=-1) for layer in hidden]).cpu().numpy()


def noise_floor(phi: TransformerFeatures, X: Float[Tensor, "n d"]) -> float:
    """How far φ(X) moves when nothing of the text changes, only how it is run: the largest relative change.

    The same text goes through batches of several sizes and with padding. Sums of floating-point numbers then come in
    another order, and a change of a word that is smaller than this says nothing.
    """
    room = phi.encoder.longest - len(X)
    with torch.no_grad():
        clean = phi(X)
        # The first and the last of a batch: they need not be computed alike.
        others = [made[k] for size in BATCHES for made in [phi(X.expand(size, *X.shape))] for k in (0, -1)]
        others += [phi.padded(X, count) for count in PADDINGS if count <= room]
        return max(float((other - clean).norm()) for other in others) / feature_norm(clean)
