"""How a text becomes one vector: what a sentence-transformers folder says about it, or what is usual."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jaxtyping import Float
from torch import Tensor

from oneword.text.folders import POOLING, ModelFolder, unreadable

POOLINGS = ("mean", "cls", "last", "max")


def pooled(hidden: Float[Tensor, "*b n width"], how: str) -> Float[Tensor, "*b width"]:
    """One vector of the words of a text: their mean, the largest of each entry, the first or the last of them."""
    if how == "mean":
        return hidden.mean(-2)
    if how == "max":
        return hidden.amax(-2)
    return hidden[..., 0 if how == "cls" else -1, :]


def said_pooling(folder: ModelFolder, causal: bool) -> str:
    """What a sentence-transformers folder says, or what is usual; what is none of POOLINGS cannot be asked for."""
    for place in (folder.path, folder.path.parent):
        path = place / POOLING
        if not path.is_file():
            continue
        said = _read(path)
        chosen = said.get("pooling_mode") or [
            key for key, value in said.items() if key.startswith("pooling_mode_") and value is True
        ]
        more = _further(place)
        modes = [chosen] if isinstance(chosen, str) else list(chosen)
        return " and ".join([*map(pooling_mode, modes), *more]) or "nothing"
    return usual_pooling(causal)


def usual_pooling(causal: bool) -> str:
    """The last word of a decoder has seen all others; an encoder's words have seen each other."""
    return "last" if causal else "mean"


def pooling_mode(said: str) -> str:
    """One of POOLINGS out of what sentence-transformers calls it; what is none of them stays as it is called."""
    name = said.removeprefix("pooling_mode_").removesuffix("_token").removesuffix("_tokens")
    return {"mean": "mean", "cls": "cls", "lasttoken": "last", "max": "max"}.get(name, name)


def _further(place: Path) -> list[str]:
    """What comes after pooling and changes more than the length of the vector."""
    path = place / "modules.json"
    if not path.is_file():
        return []
    kinds = [str(part.get("type", "")).rpartition(".")[2] for part in _read(path)]
    return [kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")]


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
