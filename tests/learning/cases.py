"""Small models, and the same by dense linear algebra: pinv, projectors and plain forward passes."""

import math
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from torch import Tensor

from oneword.learning import Interpolator, NewSample
from oneword.maps.attention import AttentionFeatures
from oneword.maps.base import FeatureMap, ModuleFeatures
from oneword.maps.random import DeepRandomFeatures, RandomFeatures
from oneword.text.context import clustered, gaussian


@dataclass(frozen=True)
class Case:
    """A map, N texts with labels, a new sample; from θ₀ = 0 or not."""

    name: str
    phi: FeatureMap
    n: int
    d: int
    N: int
    started: bool = False  # whether θ₀ ≠ 0

    def __str__(self) -> str:
        return self.name

    @property
    def texts(self) -> Tensor:
        kinds = (gaussian, clustered)
        return torch.stack([kinds[j % 2](self.n, self.d, seed=j).X for j in range(self.N)])

    @property
    def labels(self) -> Tensor:
        return torch.tensor([1, -1] * self.N)[: self.N]

    @property
    def new(self) -> tuple[Tensor, int]:
        return gaussian(self.n, self.d, seed=10_000).X, -1

    @property
    def theta0(self) -> Tensor | None:
        p = self.phi(self.texts[0]).numel()
        return torch.from_numpy(np.random.default_rng(0).standard_normal(p)) / p if self.started else None


def flat(X: Tensor) -> Tensor:
    return X.flatten(-2)


def attention(d: int, score: str = "softmax", scale: float = 1.0) -> AttentionFeatures:
    return AttentionFeatures(scale * AttentionFeatures.draw(d, score=score, seed=3).W, score=score)


CASES = [
    Case("RF", RandomFeatures.draw(6, 5, k=60, seed=1), 6, 5, 12),
    Case("RF tanh, θ₀", RandomFeatures.draw(6, 5, k=60, activation="tanh", seed=1), 6, 5, 12, started=True),
    Case("DRF", DeepRandomFeatures.draw(5, 4, depth=3, k=50, seed=1), 5, 4, 10),
    Case("RAF", attention(6), 7, 6, 12),
    Case("RAF, θ₀", attention(6), 7, 6, 12, started=True),
    Case("RAF x20", attention(6, scale=20), 7, 6, 12),
    Case("ReLU-RAF", attention(6, "relu"), 7, 6, 12),
    Case("ReLU-RAF unnormalised, θ₀", attention(6, "relu-unnormalised"), 7, 6, 12, started=True),
    Case("RAF of two words", attention(6), 2, 6, 5),
    Case("RAF of one word", attention(6), 1, 6, 3),
    Case("module", ModuleFeatures(lambda X: torch.sin(X.cumsum(-2)), batched=True), 5, 4, 8),
    Case("linear", ModuleFeatures(flat, batched=True), 4, 6, 9),
]


@cache
def trained(case: Case) -> Interpolator:
    return Interpolator.fit(case.phi, case.texts, case.labels, theta0=case.theta0)


@cache
def sample(case: Case) -> NewSample:
    return trained(case).new_sample(*case.new)


def named(*names: str) -> list[Case]:
    return [case for case in CASES if case.name in names]


@dataclass(frozen=True)
class Dense:
    """θ*, θ_f, θ_r and the projector, by the definitions."""

    Phi: np.ndarray
    theta: np.ndarray
    theta_f: np.ndarray
    theta_r: np.ndarray
    projector: np.ndarray
    phi: np.ndarray

    @classmethod
    def of(cls, case: Case) -> "Dense":
        X, y = case.new
        Phi = np.stack([case.phi(text).flatten().numpy() for text in case.texts])
        phi = case.phi(X).flatten().numpy()
        start = np.zeros(len(phi)) if case.theta0 is None else case.theta0.numpy()

        def fit(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
            return start + np.linalg.pinv(rows) @ (labels - rows @ start)

        labels = case.labels.numpy()
        theta = fit(Phi, labels)
        return cls(
            Phi=Phi,
            theta=theta,
            theta_f=theta + phi * (y - phi @ theta) / (phi @ phi),
            theta_r=fit(np.vstack([Phi, phi]), np.append(labels, y)),  # all N + 1 samples anew
            projector=np.eye(len(phi)) - np.linalg.pinv(Phi) @ Phi,
            phi=phi,
        )


def changed(X: Tensor, rows: tuple[int, ...], delta: Tensor) -> Tensor:
    """X with some rows moved."""
    Z = X.clone()
    Z[list(rows)] += delta
    return Z


def moves(case: Case, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Random positions, and random Δ of every length up to √d."""
    random = np.random.default_rng(seed)
    D = torch.from_numpy(random.standard_normal((count, case.d)))
    D = D / D.norm(dim=1, keepdim=True) * math.sqrt(case.d) * torch.from_numpy(random.random((count, 1)) ** 0.2)
    return torch.from_numpy(random.integers(case.n, size=count)), D
