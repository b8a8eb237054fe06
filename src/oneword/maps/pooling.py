"""How a text becomes one vector: what a sentence-transformers folder says about it, or what is usual."""

from __future__ import annotations

import json

from jaxtyping import Float
from torch import Tensor

from oneword.errors import FileFormatError
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
    """What a sentence-transformers folder says, or what is usual."""
    for place in (folder.path, folder.path.parent):
        path = place / POOLING
        if path.is_file():
            try:
                said = json.loads(path.read_text())
            except (OSError, ValueError) as error:
                raise unreadable(path, error) from None
            chosen = said.get("pooling_mode") or next(
                (key for key, value in said.items() if key.startswith("pooling_mode_") and value is True), "mean"
            )
            return pooling_mode(str(chosen), folder.name)
    return usual_pooling(causal)


def usual_pooling(causal: bool) -> str:
    """The last word of a decoder has seen all others; an encoder's words have seen each other."""
    return "last" if causal else "mean"


def pooling_mode(said: str, where: str) -> str:
    """One of POOLINGS out of what sentence-transformers calls it."""
    known = {"mean": "mean", "cls": "cls", "lasttoken": "last", "max": "max"}
    found = next((mode for key, mode in known.items() if key in said.removeprefix("pooling_mode_")), None)
    if found is None or "weighted" in said or "sqrt" in said:
        raise FileFormatError(
            f"expected a pooling out of {', '.join(POOLINGS)}, got {said!r} in {where}: choose output='hidden' or 'cls'"
        )
    return found
