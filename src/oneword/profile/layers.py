"""What a change of one word does in every layer and head, where it was chosen to move one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from oneword.maps.transformer import TransformerFeatures, pooled
from oneword.text.context import Context

_TEXTS_AT_ONCE = 16


def across_layers(
    phi: TransformerFeatures,
    text: Context,
    deltas: Mapping[int, Tensor],
    progress: Callable[[float], None] = lambda done: None,
) -> list[dict[str, Any]]:
    """The relative change of every layer when each word changes by its Δ: one line a word and layer, one pass a word.

    Layers are pooled where the map pools, and whole where it does not.
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
        progress((first + len(some)) / len(members))
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
    how = phi.pooling
    return list(hidden) if how is None else [pooled(layer, how) for layer in hidden]
