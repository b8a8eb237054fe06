"""The names of maps that a person types; apart from the maps, so that help needs no torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from oneword.errors import RangeError

NAMES = "attention, attention-S (S = relu, relu-unnormalised, sparsemax, sigmoid, linear), rf, drf-L (L layers)"
DEFAULT = ("attention", "attention-relu", "rf")


def has_blocks(name: str) -> bool:
    """Whether one word costs k·d numbers that have to be drawn, as for rf and drf."""
    return name.partition("-")[0] in ("rf", "drf")


def each_once(names: Sequence[str]) -> tuple[str, ...]:
    """The names as given; a repeated one is refused, since its lines would be taken for another draw of the weights."""
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise RangeError(
            f"expected each --map once, got {name!r} {times} times: leave the others out, --seeds draws more weights"
        )
    return tuple(names)
