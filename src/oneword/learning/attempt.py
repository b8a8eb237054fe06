"""Attempt: a change of a text, chosen by some objective, and what models trained on the text make of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from jaxtyping import Float
from torch import Tensor

from oneword.search.status import Status


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
class Attempt:
    """A change and its outcome. Searched, so that another Δ may do better.

    | field | paper | meaning |
    |---|---|---|
    | `purpose` | | the objective; or "lowest-alignment", "frontier" |
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

    purpose: str
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
            "objective": self.purpose,
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
