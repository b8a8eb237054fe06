"""Every map that has a name: the name itself, its title, its look in figures, and how its weights are drawn.

`--map`, sweeps, figures and the app read this list. Maps and scores are imported when they are used: help texts and
figures need no torch.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from oneword.checks import shown
from oneword.errors import RangeError, UnknownNameError, did_you_mean

if TYPE_CHECKING:
    import torch

    from oneword.maps.base import FeatureMap

ATTENTION, SOFTMAX = "attention", "softmax"  # attention alone is that with softmax
DEFAULT = (ATTENTION, "attention-relu", "rf")  # the maps of a measurement that names none
_NUMBERS = ("One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten")


@dataclass(frozen=True)
class NamedMap:
    """One map, declared once.

    | field | meaning |
    |---|---|
    | `name` | what a person types; for a map with a depth L followed by -L |
    | `title` | what a page calls it; `{depth}` stands for the number of layers |
    | `paper` | the name in the paper's figures |
    | `color`, `mark` | of its curve: a role of `plot.look`, and the word for a mark |
    | `draw` | "module:function", called with n, d, `seed`, `dtype` and `device`, and with what the next four say |
    | `score` | of attention: "module:factory" of its Score |
    | `has_blocks` | a block of weights for each word, so that a word costs k·d numbers: takes `k` and `activation` |
    | `has_depth` | several layers: takes `depth` |
    | `in_app` | offered by the app; None: not offered; for a map with a depth, the depth that is |
    """

    name: str
    title: str
    paper: str
    color: str
    mark: str
    draw: str = "oneword.maps.attention:draw"
    score: str | None = None
    has_blocks: bool = False
    has_depth: bool = False
    in_app: int | None = 1

    @property
    def score_name(self) -> str | None:
        """The name of the score, for attention."""
        if self.score is None:
            return None
        return self.name.removeprefix(f"{ATTENTION}-") if self.name != ATTENTION else SOFTMAX


_SCORES = "oneword.maps.scores"

# Figures draw the maps in this order.
MAPS = {
    known.name: known
    for known in (
        NamedMap(
            "rf", "Fully connected layer", "RF", "blue", "circle",
            draw="oneword.maps.random:RandomFeatures.draw", has_blocks=True,
        ),
        NamedMap(
            "drf", "{depth} fully connected layers", "deep RF", "green", "triangle-up",
            draw="oneword.maps.random:DeepRandomFeatures.draw", has_blocks=True, has_depth=True, in_app=3,
        ),
        NamedMap(
            ATTENTION, "Softmax attention", "RAF (softmax)", "vermilion", "square",
            score=f"{_SCORES}.normalised:Softmax",
        ),
        NamedMap(
            "attention-relu", "ReLU attention", "ReLU-RAF", "purple", "diamond", score=f"{_SCORES}.normalised:ReLU"
        ),
        NamedMap(
            "attention-relu-unnormalised", "ReLU attention, not normalised", "ReLU-RAF, not normalised", "orange",
            "triangle-down", score=f"{_SCORES}.normalised:unnormalised_relu", in_app=None,
        ),
        NamedMap(
            "attention-sparsemax", "Sparsemax attention", "sparsemax-RAF", "blue", "pentagon",
            score=f"{_SCORES}.normalised:Sparsemax", in_app=None,
        ),
        NamedMap(
            "attention-sigmoid", "Sigmoid attention", "sigmoid-RAF, not normalised", "green", "hexagon",
            score=f"{_SCORES}.elementwise:Sigmoid", in_app=None,
        ),
        NamedMap(
            "attention-linear", "Linear attention", "linear RAF, not normalised", "sky", "cross",
            score=f"{_SCORES}.elementwise:Linear", in_app=None,
        ),
    )
}  # fmt: skip

SCORES = {known.score_name: known.score for known in MAPS.values() if known.score_name and known.score}


def find(name: str) -> tuple[NamedMap, int | None]:
    """The map of this name, and its number of layers where the name says one: attention-relu, rf, drf-3.

    Raises `UnknownNameError` for a name that no map has, `RangeError` for a depth below 1.
    """
    if name == f"{ATTENTION}-{SOFTMAX}":
        name = ATTENTION
    if name in MAPS and not MAPS[name].has_depth:
        return MAPS[name], None
    family, _, depth = name.rpartition("-")
    if family in MAPS and MAPS[family].has_depth and depth.isdecimal():
        if int(depth) < 1:
            raise RangeError(f"expected a depth of at least 1, got {name!r}: write {family}-3, for example")
        return MAPS[family], int(depth)
    raise UnknownNameError(f"expected a map out of {names()}, got {shown(name)}{similar_to(name)}")


def is_map(name: str) -> bool:
    """Whether a map has this name; a model may have it otherwise."""
    try:
        find(name)
    except UnknownNameError:
        return False
    return True


def similar_to(name: str) -> str:
    """The end of a message about a name that no map has: the nearest one, if there is one."""
    known = [f"{ATTENTION}-{SOFTMAX}", *(each.name + "-3" * each.has_depth for each in MAPS.values())]
    return did_you_mean(name, known)


def draw(
    name: str,
    n: int,
    d: int,
    *,
    k: int | None = None,
    activation: str | None = None,
    seed: int = 0,
    dtype: torch.dtype | None = None,
    device: torch.device | str = "cpu",
) -> FeatureMap:
    """The map of this name with random weights, for texts of n words of dimension d.

    `k` (None: n·d) is the number of neurons and `activation` (None: relu) the function of maps that have blocks; others
    ignore them. `dtype` is float64 unless given. Raises `UnknownNameError` for a name that no map has.
    """
    known, depth = find(name)
    options: dict[str, Any] = {"seed": seed, "device": device}
    options |= {} if dtype is None else {"dtype": dtype}
    if known.score is not None:
        options["score"] = known.score_name
    if known.has_blocks:
        options |= {"k": k} | ({} if activation is None else {"activation": activation})
    if depth is not None:
        options["depth"] = depth
    phi: FeatureMap = load(known.draw)(n, d, **options)
    return phi


def load(place: str) -> Any:
    """What "module:name" stands for."""
    module, _, path = place.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def title(name: str) -> str:
    """What a page calls the map of this name."""
    known, depth = find(name)
    if depth is None:
        return known.title
    many = known.title.format(depth=_NUMBERS[depth - 1] if depth <= len(_NUMBERS) else depth)
    return many if depth > 1 else many.removesuffix("s")


def in_app() -> list[str]:
    """The names that the app offers, attention first."""
    offered = [known for known in MAPS.values() if known.in_app is not None]
    return [
        f"{known.name}-{known.in_app}" if known.has_depth else known.name
        for known in sorted(offered, key=lambda known: known.has_blocks)
    ]


def names() -> str:
    """All names, for a help text."""
    scores = ", ".join(score for score in SCORES if score != SOFTMAX)
    others = [f"{m.name}-L (L layers)" if m.has_depth else m.name for m in MAPS.values() if m.score is None]
    return f"{ATTENTION}, {ATTENTION}-S (S = {scores}), {', '.join(others)}"


def has_blocks(name: str) -> bool:
    """Whether one word costs k·d numbers that have to be drawn, as for rf and drf."""
    return find(name)[0].has_blocks


def each_once(names: Sequence[str]) -> tuple[str, ...]:
    """The names as given; a repeated one is refused, since its rows would be taken for another draw of the weights."""
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise RangeError(
            f"expected each map once, got {name!r} {times} times: leave the others out; several seeds draw more weights"
        )
    return tuple(names)
