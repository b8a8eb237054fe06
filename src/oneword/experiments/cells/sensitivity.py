"""The word sensitivity of one map at one text: of the whole text with its certificate, or of every word of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch

from oneword import theory
from oneword.bounds.certificate import Certify
from oneword.errors import RangeError
from oneword.experiments import costs
from oneword.experiments.cell import TextCell, choice, real, searched, whole
from oneword.experiments.draws import Drawn, draw_maps, draw_text, trial_seed
from oneword.maps.base import FeatureMap
from oneword.maps.random import RandomFeatures
from oneword.memory import batch_size
from oneword.random import stream
from oneword.result import Sensitivity
from oneword.search.defaults import DefaultSearch
from oneword.sup.verb import sensitivity
from oneword.text.context import Context

POSITIONS = ("all", "one", "first")
SEARCHES = ("full", "quick")


@dataclass(frozen=True, kw_only=True)
class SearchCell(TextCell):
    """A search with `baseline` random changes a word and, unless `certify` is None, upper bounds.

    `certify` is 0 for the closed form, or a ratio ≥ 1: refined until upper/value is at most that.
    """

    certify: float | None = None
    baseline: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set_whole(baseline=0)
        self._set(certify=None if self.certify is None else real("certify", self.certify, 0))
        if self.certify is not None and 0 < self.certify < 1:
            raise RangeError(f"expected certify = 0 (the closed form) or a ratio upper/value ≥ 1, got {self.certify}")

    def _found(self, phi: FeatureMap, text: Context, *, quick: bool = False, **options: Any) -> Sensitivity:
        """Work that is counted, never timed: a clock would make the numbers depend on the machine."""
        effort: Certify | Literal[False] = False
        if self.certify is not None:
            effort = Certify(self.certify) if self.certify else Certify.plain()
        search, seed = DefaultSearch(quick=quick, memory=self.memory), trial_seed(self, "search")
        return sensitivity(phi, text, search=search, certify=effort, baseline=self.baseline, seed=seed, **options)


@dataclass(frozen=True, kw_only=True)
class SensitivityCell(SearchCell):
    """S_φ(X) of Eq. 1 at one text.

    | field | meaning |
    |---|---|
    | `changed` | how many words change at once (chosen greedily) |
    | `positions` | "all"; "one", drawn for the trial; "first". For one position, rf draws one block of V and no other |
    | `search` | "full" or "quick" |
    | `certify` | None: no upper bound; 0: the closed form; ≥ 1: refined until upper/value is at most that |
    | `baseline` | random changes a word |
    | `real_words` | random words of the vocabulary at the best position, for words from a corpus |
    """

    kind: ClassVar[str] = "sensitivity"

    changed: int = 1
    positions: str = "all"
    search: str = "full"
    real_words: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("positions", self.positions, POSITIONS)
        choice("search", self.search, SEARCHES)
        self._set(changed=whole("changed", self.changed, 1, self.n))
        self._set_whole(real_words=0)
        if self.changed > 1 and self.positions != "all":
            raise RangeError(f"expected positions = all with changed > 1, got {self.positions}: leave positions out")
        if self.real_words and self.words_from != "corpus":
            raise RangeError(f"expected real_words with words_from = corpus only, got {self.words_from}: leave it out")

    def estimate_bytes(self) -> int:
        return costs.search_bytes(self, self._count, baseline=self.baseline)

    def estimate_cost(self) -> float:
        quick = self.search == "quick"
        search = costs.search_cost(self, self._count, quick=quick, changed=self.changed, baseline=self.baseline)
        return search + costs.certificate_cost(self, self._count, self.certify)

    @property
    def _count(self) -> int:
        return self.n if self.positions == "all" else 1

    def rows(self) -> list[dict[str, Any]]:
        drawn = draw_text(self)
        return [self._row(drawn, depth, phi) for depth, phi in draw_maps(self)]

    def _row(self, drawn: Drawn, depth: int | None, phi: FeatureMap) -> dict[str, Any]:
        only = self._only
        if only is not None and isinstance(phi, RandomFeatures):
            phi = phi.alone(only)
        positions = None if only is None else [only]
        found = self._found(phi, drawn.text, quick=self.search == "quick", words=self.changed, positions=positions)
        values = dict(zip(found.per_word["position"].tolist(), found.per_word["value"].tolist(), strict=True))
        about = {"depth": depth, "changed": self.changed, "positions": self.positions}
        compared = {"first": values.get(0), "baseline": found.baseline, "predicted": self._predicted(depth)}
        beside = self._beside(drawn, phi, found)
        return {**self.common(), **drawn.names(), **about, **searched(found), **compared, **beside}

    @property
    def _only(self) -> int | None:
        """The one position that may change, if it is one."""
        if self.positions == "one":
            return int(stream(self.seed, "position", self.trial, self.n, self.d).integers(self.n))
        return 0 if self.positions == "first" else None

    def _predicted(self, depth: int | None) -> float | None:
        """What theory says; None where it says nothing."""
        if self.activation is None:
            return None
        if self.map == "rf" and self.changed == 1:
            return theory.rf_sensitivity(self.n, self.d, self.k, self.activation)
        if self.activation != "relu":
            return None
        if depth is not None:
            return theory.drf_guide(self.n, depth, self.d, self.k) if self.changed == 1 else None
        return theory.rf_words(self.changed, self.n, self.d, self.k)

    @torch.no_grad()
    def _beside(self, drawn: Drawn, phi: FeatureMap, found: Sensitivity) -> dict[str, Any]:
        """Attention on the changed word before and after, and what random words of the vocabulary do there."""
        attends = self.changed == 1 and not self.layered
        if not (self.real_words or attends):
            return {}
        probe = phi.at(drawn.text.X)
        out: dict[str, Any] = {}
        if attends:
            i = torch.tensor([found.rows[0]])
            shares = probe.attention_shares(probe.X[i] + found.delta.reshape(1, -1), i)
            if shares is not None:
                out |= {"mass_before": float(shares[0].mean()), "mass_after": float(shares[1].mean())}
        if self.real_words:
            seed = trial_seed(self, "real")
            y = torch.stack([drawn.real_words(self.real_words, row, seed) for row in found.rows], 1)
            i = torch.tensor(found.rows).expand(len(y), -1)
            near = probe.near(found.rows)
            batch = batch_size(near.bytes_per_candidate(len(found.rows)), self.memory)
            parts = [near.change2(a, b) for a, b in zip(y.split(batch), i.split(batch), strict=True)]
            change = torch.cat(parts).sqrt() / probe.norm
            out |= {"real_mean": float(change.mean()), "real_max": float(change.max())}
        return out


@dataclass(frozen=True, kw_only=True)
class ReviewCell(SearchCell):
    """Every word of one text, one row each. `certify` and `baseline` as in a SensitivityCell."""

    kind: ClassVar[str] = "review"

    def estimate_bytes(self) -> int:
        return costs.search_bytes(self, self.n, baseline=self.baseline)

    def estimate_cost(self) -> float:
        search = costs.search_cost(self, self.n, baseline=self.baseline)
        return search + costs.certificate_cost(self, self.n, self.certify)

    def rows(self) -> list[dict[str, Any]]:
        drawn = draw_text(self)
        out: list[dict[str, Any]] = []
        for depth, phi in draw_maps(self):
            found = self._found(phi, drawn.text)
            head = {**self.common(), **drawn.names(), "depth": depth, "label": drawn.text.label}
            words = found.per_word[["position", "word", "value", "upper", "baseline"]].to_dict(orient="records")
            out += [head | {str(name): value for name, value in word.items()} for word in words]
        return out
