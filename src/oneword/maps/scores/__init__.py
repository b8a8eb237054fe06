"""The score functions by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from oneword.checks import described, shown
from oneword.errors import UnknownNameError, did_you_mean
from oneword.maps import registry
from oneword.maps.scores.base import GroupedScore, Score
from oneword.maps.scores.elementwise import Linear, Sigmoid
from oneword.maps.scores.normalised import ReLU, Softmax, Sparsemax

__all__ = ["SCORES", "GroupedScore", "Linear", "ReLU", "Score", "Sigmoid", "Softmax", "Sparsemax", "score"]


class _Scores(Mapping[str, Score]):
    """The scores of the registry, each made when it is first asked for: one that is incomplete stops no other."""

    def __init__(self) -> None:
        self._made: dict[str, Score] = {}

    def __getitem__(self, name: str) -> Score:
        if name not in self._made:
            self._made[name] = self._make(name, registry.SCORES[name])
        return self._made[name]

    def _make(self, name: str, place: str) -> Score:
        try:
            made = registry.load(place)()
        except (TypeError, AttributeError, ImportError) as error:
            got = f"{described(error)}: mend {place}"
            raise UnknownNameError(f"expected {name!r} as a complete Score, got {got}") from None
        if not isinstance(made, Score):
            raise UnknownNameError(f"expected {name!r} as a Score, got {shown(made)}: mend {place}")
        return made

    def __contains__(self, name: object) -> bool:
        return name in registry.SCORES

    def __iter__(self) -> Iterator[str]:
        return iter(registry.SCORES)

    def __len__(self) -> int:
        return len(registry.SCORES)


SCORES = _Scores()


def score(spec: str | Score) -> Score:
    """A Score as it is, or the one of that name."""
    if isinstance(spec, Score):
        return spec
    if not isinstance(spec, str):
        raise UnknownNameError(
            f"expected a score out of {', '.join(SCORES)}, or a Score such as Softmax(), got {shown(spec)}: "
            "give one name, or an object of the class"
        )
    if spec not in SCORES:
        hint = did_you_mean(spec, SCORES)
        raise UnknownNameError(f"expected a score out of {', '.join(SCORES)}, got {spec!r}{hint}")
    return SCORES[spec]
