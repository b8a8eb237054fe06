"""One new sample (X, y): the model fine-tuned or retrained on it, and what a one-word change of X does to that model.

    θ_f = θ* + φ (y − f)/‖φ‖²          θ_r = θ* + P⊥φ (y − f)/‖P⊥φ‖²          f = φᵀθ*

Both say y about X. The test is X^i(Δ), whose label is −y: Err = (⟨φ(X^i(Δ)), θ₁⟩ + y)². With δ = ⟨φ(X^i(Δ)) − φ, θ*⟩
and the alignment F = ⟨φ(X^i(Δ)), u⟩/⟨φ, u⟩, u = φ or P⊥φ, for every map Err = (2 + yδ + (F−1)(1−yf))² exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from typing import Literal, TypedDict, TypeVar, Unpack

import torch
from jaxtyping import Float, Int
from scipy.optimize import brentq
from torch import Tensor

from oneword import theory
from oneword.checks import whole_number
from oneword.errors import RangeError, UnknownNameError
from oneword.learning.descent import QUICK, Lowest, Scope, effort_for, lowest
from oneword.learning.frontier import Tradeoff
from oneword.learning.functionals import Functionals, functionals
from oneword.maps.base import Probe
from oneword.search.ascent import Ascent
from oneword.search.base import MEMORY, Status
from oneword.sets.constraints import Ball

Name = Literal["answer", "alignment", "alignment away"]


class Training(StrEnum):
    """What is done with the new sample."""

    FINE_TUNED = "fine-tuned"  # the model goes on with it alone (T4)
    RETRAINED = "retrained"  # the model starts anew with the N + 1 samples (T5)


class Objective(StrEnum):
    """By what Δ is chosen; all are minimised."""

    LOSS = "loss"  # Err
    FEATURES = "features"  # (F + 1)² with u = φ, as after fine-tuning
    ALIGNMENT = "alignment"  # (F + 1)² with u = P⊥φ, as after retraining


@dataclass(frozen=True, eq=False)
class WordChange:
    """A change and its outcome. Searched, so that another Δ may do better.

    | field | paper | meaning |
    |---|---|---|
    | `objective` | | the objective; or "lowest-alignment", "frontier" |
    | `f` | f(X; θ*) | what the old model says about the unchanged text |
    | `rho` | ρ | ‖u‖²/‖φ‖²: 1 after fine-tuning |
    | `err` | Err | squared error on the changed text, whose label is −y |
    | `signed_delta` | δ | how far the old model's answer moved; `gamma` is its size |
    | `alignment` | F | feature alignment, for the training given |
    | `identity_gap` | | how far Err is from (2 + yδ + (F−1)(1−yf))²: rounding |
    | `reached` | | whether the objective is 0 (exactly, but for rounding); many other Δ have that too |
    | `rows`, `delta` | i, Δ | the changed rows of X, and their change: (d,) for one row, (m, d) for several |
    | `limit` | g | of a frontier: γ ≤ g was asked for |
    """

    objective: str
    training: Training
    label: int
    f: float
    rho: float
    err: float
    signed_delta: float
    alignment: float
    identity_gap: float
    reached: bool
    rows: tuple[int, ...]
    delta: Float[Tensor, "*m d"]
    status: Status
    limit: float | None

    @property
    def gamma(self) -> float:
        """γ = |δ|: how far the old model already told the two texts apart."""
        return abs(self.signed_delta)

    @property
    def position(self) -> int:
        """The changed row, or the first of several."""
        return self.rows[0]

    @property
    def residual(self) -> float:
        """1 − yf: what there was to learn."""
        return 1 - self.label * self.f

    def summary(self) -> dict[str, int | float | str | None]:
        """One line of a table."""
        return {
            "label": self.label,
            "training": self.training.value,
            "objective": self.objective,
            "g": self.limit,
            "err": self.err,
            "gamma": self.gamma,
            "signed_delta": self.signed_delta,
            "f": self.f,
            "alignment": self.alignment,
            "rho": self.rho,
            "residual": self.residual,
            "identity_gap": self.identity_gap,
            "position": self.position,
            "status": str(self.status),
        }


class SearchOptions(TypedDict, total=False):
    """What every search of a NewSample takes, as keywords.

    | option | meaning |
    |---|---|
    | `positions` | the rows of X that may change; all by default |
    | `words` | how many of them change at once; more than one are chosen greedily |
    | `within` | Ball() is the paper's ‖Δ‖ ≤ √d |
    | `search` | how hard to look; None: as suits the map |
    | `memory` | bytes that a batch of the default search may take |
    | `seed` | of the random starts |
    """

    positions: Sequence[int] | None
    words: int
    within: Ball
    search: Ascent | None
    memory: int
    seed: int


@dataclass(frozen=True, eq=False)
class NewSample:
    """A pre-trained model and one new sample. Searches are kept: asking twice costs nothing."""

    probe: Probe
    y: int
    theta: Float[Tensor, " p"]  # θ*
    features: Float[Tensor, " p"]  # φ(X)
    outside: Float[Tensor, " p"]  # P⊥φ(X)
    _kept: dict[tuple[tuple[Name, Training], Scope], Lowest] = field(default_factory=dict, repr=False)
    _held: dict[tuple[int, ...], Probe] = field(default_factory=dict, repr=False)

    @cached_property
    def f(self) -> float:
        """What the old model says about X."""
        return float(self.features @ self.theta)

    @cached_property
    def rho(self) -> float:
        """ρ = ‖P⊥φ‖²/‖φ‖²."""
        return float(self.outside.square().sum() / self.features.square().sum())

    @cached_property
    def theta_f(self) -> Float[Tensor, " p"]:
        """Fine-tuned on (X, y) alone."""
        return self.theta + (self.y - self.f) * self._alignment(Training.FINE_TUNED)

    @cached_property
    def theta_r(self) -> Float[Tensor, " p"]:
        """Retrained on all N + 1 samples."""
        return self.theta + (self.y - self.f) * self._alignment(Training.RETRAINED)

    def _model(self, training: Training) -> Float[Tensor, " p"]:
        """θ₁."""
        return self.theta_f if training is Training.FINE_TUNED else self.theta_r

    def _alignment(self, training: Training) -> Float[Tensor, " p"]:
        """F, as a vector v with F = ⟨φ(X^i(Δ)), v⟩."""
        u = self.features if training is Training.FINE_TUNED else self.outside
        return u / (self.features @ u)

    def find_change(
        self, objective: Objective | str, training: Training | str, **options: Unpack[SearchOptions]
    ) -> WordChange:
        """The change of one word that an objective asks for, and what the trained model makes of it.

        | argument | meaning |
        |---|---|
        | `objective` | "loss", "features" or "alignment": what is minimised |
        | `training` | "fine-tuned" or "retrained": the model that is tested on the change |
        | `options` | see SearchOptions |

        Raises UnknownNameError for an unknown objective or training, RangeError for options out of range.

        Every objective is (h + 1)² for a functional h that is 1 at X. Where h falls below −1, the way there from X
        crosses −1: that Δ has objective 0, exactly but for rounding, and is one of many.
        """
        objective, training = _named(Objective, objective), _named(Training, training)
        scope = self._scope(options)
        by = Training.FINE_TUNED if objective is Objective.FEATURES else Training.RETRAINED
        about: tuple[Name, Training] = ("answer", training) if objective is Objective.LOSS else ("alignment", by)
        efforts = [scope]
        if objective is Objective.LOSS and options.get("search") is None:
            efforts.insert(0, replace(scope, search=replace(QUICK, memory=scope.search.memory)))
        changes = []
        for effort in efforts:  # a quick search is enough only where −1 is reached: it may be jumped over
            found = self._lowest(about, effort)
            (rows, y), reached = found.best, False
            if float(found.value.min()) < -1:
                h = functionals(self._near(scope), self._vector(*about)[None]).near(tuple(rows.tolist()))
                y, reached = _until(h, rows, y)
            status = Status.CONVERGED if reached else found.status  # there is nothing below 0
            changes.append(self._change(objective.value, training, rows, y, status, reached=reached))
            if reached:
                break
        return min(reversed(changes), key=lambda change: change.err)

    def lowest_alignment(self, training: Training | str, **options: Unpack[SearchOptions]) -> WordChange:
        """The change with the lowest F found over the ball and the positions: an upper bound on the true minimum.

        `training` is "fine-tuned" or "retrained"; `options` as in SearchOptions. Raises as `find_change` does.
        """
        training = _named(Training, training)
        found = self._lowest(("alignment", training), self._scope(options))
        return self._change("lowest-alignment", training, *found.best, found.status)

    def frontier(
        self, training: Training | str, grid: Sequence[float], **options: Unpack[SearchOptions]
    ) -> list[WordChange]:
        """For each limit g of `grid` the change with the least Err found under γ ≤ g, in the order of `grid`.

        It never rises with g; a lower frontier may exist. `training` is "fine-tuned" or "retrained"; `options` as in
        SearchOptions. Raises RangeError for a grid that is empty or not positive, and as `find_change` does.
        """
        training = _named(Training, training)
        limits = [float(g) for g in grid]
        if not limits or min(limits) <= 0:
            raise RangeError(f"expected a grid of g > 0, got {limits}")
        scope = self._scope(options)
        residual = 1 - self.y * self.f
        # What was learnt is unlearnt where F falls; or where it rises, if the old model was too sure (y·f > 1).
        toward: Name = "alignment" if residual >= 0 else "alignment away"
        found = self._lowest((toward, training), scope)
        if scope.words > 1:  # the same words for both ends of the trade-off
            scope = replace(scope, rows=tuple(found.rows[0].tolist()))
        answering = self._lowest(("answer", training), scope)
        V = torch.stack([self._vector(toward, training), self.y * self.theta])
        clean = float(self.features @ V[0]), float(self.features @ V[1])
        pair = Tradeoff(functionals(self._near(scope), V), clean, abs(residual), scope)
        points = dict(zip(limits, pair.frontier(found, answering, limits), strict=True))
        changes: dict[float, WordChange] = {}
        for g in sorted(points):
            new = self._change("frontier", training, points[g].rows, points[g].y, found.status, limit=g)
            before = next(reversed(changes.values()), new)
            changes[g] = new if new.err <= before.err else replace(before, limit=g)  # differs by rounding only
        return [changes[g] for g in limits]

    # How it is done ------------------------------------------------------------------------------------------------

    def _scope(self, options: SearchOptions) -> Scope:
        asked = options.get("positions")
        rows = self.probe.positions if asked is None else tuple(sorted({whole_number("positions", i) for i in asked}))
        wrong = sorted(set(rows) - set(self.probe.positions))
        if wrong or not rows:
            raise RangeError(f"expected positions out of 0 … {self.probe.n - 1}, got {wrong or 'none'}")
        words = whole_number("words", options.get("words", 1))
        if not 1 <= words <= len(rows):
            raise RangeError(f"expected words out of 1 … {len(rows)}, the positions that may change, got {words}")
        seed = whole_number("seed", options.get("seed", 0))
        search = options.get("search")
        if search is None:
            search = replace(effort_for(self.probe).search, memory=options.get("memory", MEMORY))
        return Scope(rows, words, options.get("within", Ball()), search, seed)

    def _vector(self, name: Name, training: Training) -> Float[Tensor, " p"]:
        """What is searched for, as a functional of the features: y·f(X^i(Δ); θ₁), F or −F. The first two are 1 at X."""
        if name == "answer":
            return self.y * self._model(training)
        return self._alignment(training) if name == "alignment" else -self._alignment(training)

    def _lowest(self, about: tuple[Name, Training], scope: Scope) -> Lowest:
        """Kept, because several questions need the same search."""
        if (about, scope) not in self._kept:
            self._kept[about, scope] = lowest(functionals(self._near(scope), self._vector(*about)[None]), scope)
        return self._kept[about, scope]

    def _near(self, scope: Scope) -> Probe:
        """The Probe, holding what the rows need if that fits: blocks of random features are then drawn only once."""
        if self.probe.rows_at_once(scope.search.memory) < len(scope.rows):
            return self.probe
        if scope.rows not in self._held:
            self._held.clear()
            self._held[scope.rows] = self.probe.near(scope.rows)
        return self._held[scope.rows]

    def _change(
        self,
        objective: str,
        training: Training,
        rows: Int[Tensor, " m"],
        y: Float[Tensor, "m d"],
        status: Status,
        *,
        reached: bool = False,
        limit: float | None = None,
    ) -> WordChange:
        """What the models make of a change, from its features and not from what the search believed."""
        probe = next((held for at, held in self._held.items() if set(rows.tolist()) <= set(at)), self.probe)
        with torch.no_grad():
            changed = probe.features(y[None], rows[None]).reshape(-1)
        delta = float((changed - self.features) @ self.theta)
        alignment = float(changed @ self._alignment(training))
        err = (float(changed @ self._model(training)) + self.y) ** 2
        moved = (y - self.probe.X[rows]).detach()
        return WordChange(
            objective=objective,
            training=training,
            label=self.y,
            f=self.f,
            rho=1.0 if training is Training.FINE_TUNED else self.rho,
            err=err,
            signed_delta=delta,
            alignment=alignment,
            identity_gap=abs(err - theory.error(self.y, delta, alignment, 1 - self.y * self.f)),
            reached=reached,
            rows=tuple(rows.tolist()),
            delta=moved[0] if len(moved) == 1 else moved,
            status=status,
            limit=limit,
        )


def _until(h: Functionals, rows: Int[Tensor, " m"], y: Float[Tensor, "m d"]) -> tuple[Float[Tensor, "m d"], bool]:
    """Where h is −1 between the unchanged rows, where it is 1, and y, where it is less; and whether it is −1 there.

    Normalised ReLU attention may jump: where a whole row of scores vanishes.
    """
    x = h.probe.X[rows]

    def above(share: float) -> float:
        with torch.no_grad():
            return 1 + float(h((x + share * (y - x))[None], rows[None]))

    share = brentq(above, 0.0, 1.0, xtol=1e-15, rtol=1e-14) if above(1.0) < 0 else 1.0
    share = min(share, 1.0, key=lambda share: abs(above(share)))
    return x + share * (y - x), abs(above(share)) <= 1e-9


_Name = TypeVar("_Name", Training, Objective)


def _named(kind: type[_Name], name: _Name | str) -> _Name:
    try:
        return kind(name)
    except ValueError:
        raise UnknownNameError(f"expected one of {', '.join(kind)}, got {name!r}") from None
