"""Every word of one text under one map: what a page colours a review by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from oneword.experiments import estimates
from oneword.experiments.cell import TextCell, whole
from oneword.experiments.cells.sensitivity import checked_target, effort
from oneword.experiments.draws import draw_maps, draw_text, trial_seed
from oneword.search.defaults import DefaultSearch
from oneword.sup.verb import sensitivity


@dataclass(frozen=True, kw_only=True)
class ReviewCell(TextCell):
    """Every word of one text, one row each. `certify` and `baseline` as in a SensitivityCell."""

    kind: ClassVar[str] = "review"

    certify: float | None = None
    baseline: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(certify=checked_target(self.certify), baseline=whole("baseline", self.baseline, 0))

    def estimate_bytes(self) -> int:
        return estimates.search_bytes(self, self.n, baseline=self.baseline)

    def estimate_cost(self) -> float:
        search = estimates.search_cost(self, self.n, baseline=self.baseline)
        return search + estimates.certificate_cost(self, self.n, self.certify)

    def rows(self) -> list[dict[str, Any]]:
        drawn = draw_text(self)
        out: list[dict[str, Any]] = []
        for depth, phi in draw_maps(self):
            found = sensitivity(
                phi,
                drawn.text,
                search=DefaultSearch(memory=self.memory),
                certify=effort(self.certify),
                baseline=self.baseline,
                seed=trial_seed(self, "search"),
            )
            head = {**self.common(), **drawn.names(), "depth": depth, "label": drawn.text.label}
            words = found.per_word[["position", "word", "value", "upper", "baseline"]].to_dict(orient="records")
            out += [head | {str(name): value for name, value in word.items()} for word in words]
        return out
