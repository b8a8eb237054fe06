"""A linear model f(X; θ) = φ(X)ᵀθ on the features of N labelled texts, pre-trained to interpolate them.

θ* = θ₀ + Φ⁺(Y − Φθ₀) is the limit of gradient descent from θ₀. Φ (N × p) has the training features as rows, and the
Gram matrix K = ΦΦᵀ is factored once: Φ⁺ = ΦᵀK⁻¹ and P⊥v = v − ΦᵀK⁻¹Φv, so one vector costs O(Np), and neither Φ⁺ nor
anything of size p × p ever exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from oneword.errors import DTypeError, RangeError, RankError, ShapeError
from oneword.learning.new_sample import NewSample
from oneword.maps.base import FeatureMap, Probe
from oneword.maps.random import LayeredFeatures, LayeredProbe, LoneWordFeatures
from oneword.memory import check_memory
from oneword.text.context import Context, as_context, check_finite

Texts = Float[Tensor, "N n d"] | np.ndarray | Sequence[Context] | Sequence[Tensor]

# Below this share of ‖φ‖² outside the span of the training features, a sample counts as lying in it: what is left is
# mostly rounding, and retraining divides by it.
LEAST_RHO = 1e-12
# Two samples are named as equal if their features differ by less than this part of them.
SAME = 1e-5


@dataclass(frozen=True, eq=False)
class Interpolator:
    """A pre-trained model.

    | field | paper | meaning |
    |---|---|---|
    | `phi` | φ | the map |
    | `shape` | n, d | of the texts |
    | `span` | Φ, K = ΦΦᵀ | the training features and their factorisation |
    | `theta` | θ* | the interpolator nearest to θ₀ |

    >>> import oneword as ow
    >>> texts = [ow.gaussian(6, 8, seed=seed) for seed in range(10)]
    >>> model = ow.learning.Interpolator.fit(ow.AttentionFeatures.draw(8, seed=0), texts, [1, -1] * 5)
    >>> sample = model.new_sample(ow.gaussian(6, 8, seed=10), y=1)
    >>> found = sample.lowest_alignment("fine-tuned")
    >>> found.alignment < 0.5  # one word turns the features away: 1 is no change
    True
    """

    phi: FeatureMap
    shape: tuple[int, int]
    span: Span
    theta: Float[Tensor, " p"]

    @classmethod
    def fit(
        cls,
        phi: FeatureMap,
        texts: Texts,
        labels: Sequence[int] | Tensor,
        *,
        theta0: Float[Tensor, " p"] | None = None,
        memory: int = 1 << 30,
    ) -> Interpolator:
        """Pre-train on N texts: the interpolator nearest to θ₀.

        | argument | default | meaning |
        |---|---|---|
        | `phi` | | the map |
        | `texts` | | N texts of one length in float64: an array (N, n, d) or a list of Contexts |
        | `labels` | | N numbers, +1 or −1 |
        | `theta0` | None | θ₀, one number a feature; None is 0 |
        | `memory` | 1 GiB | bytes that a batch of features may take |

        Raises RankError if the features are linearly dependent, or no more than the texts; ShapeError, DTypeError and
        RangeError for texts, labels or θ₀ that do not fit.
        """
        X = _stacked(texts)
        Y = _signs(labels, X)
        span = Span.of(_features(phi, X, memory))
        start = X.new_zeros(span.p) if theta0 is None else _start(theta0, span.p).to(X)
        return cls(phi, (X.shape[1], X.shape[2]), span, span.nearest(start, Y))

    @property
    def N(self) -> int:
        return self.span.N

    @property
    def p(self) -> int:
        return self.span.p

    @property
    def condition(self) -> float:
        """The condition number of K."""
        return self.span.condition

    @property
    def lambda_min_over_k(self) -> float:
        """λ_min(K) over the number of features: T5 asks that it stay away from 0."""
        return self.span.lambda_min / self.span.p

    def new_sample(self, X: Float[Tensor, "n d"] | np.ndarray | Context, y: int) -> NewSample:
        """A new sample, to be fine-tuned or retrained on: a text of the training texts' shape and its label, +1 or −1.

        Raises RankError for a text that the model has been trained on, or whose features depend on the training texts'.
        """
        return self.new_samples([as_context(X)], [y])[0]

    def new_samples(self, texts: Texts, labels: Sequence[int] | Tensor) -> list[NewSample]:
        """Several new samples, each to be learnt alone, as `new_sample` does; what they share is done once."""
        X = _stacked(texts)
        Y = _signs(labels, X)
        if tuple(X.shape[1:]) != self.shape:
            raise ShapeError(f"expected texts of the training texts' shape {self.shape}, got {tuple(X.shape[1:])}")
        probes, clean = _prepared(self.phi, X)
        outside = self.span.outside(clean)
        rho = outside.square().sum(1) / clean.square().sum(1)
        for t in (rho <= LEAST_RHO).nonzero()[:, 0].tolist():
            same = self.span.member(clean[t])
            raise RankError(
                f"expected a sample that is new to the model, got text {t} with ρ = {float(rho[t]):.0e}: "
                + ("its features depend on" if same is None else f"it coincides with sample {same} of")
                + " the training texts; leave it out"
            )
        parts = zip(probes, Y.tolist(), clean, outside, strict=True)
        return [NewSample(probe, int(y), self.theta, features, u) for probe, y, features, u in parts]


def _stacked(texts: Texts) -> Float[Tensor, "N n d"]:
    if not isinstance(texts, Tensor):
        each = [as_context(text).X for text in texts]
        shapes = sorted({tuple(X.shape) for X in each})
        if len(shapes) != 1:
            raise ShapeError(f"expected texts, all of one shape (n, d), got {shapes}: cut them to one length")
        texts = torch.stack(each)
    if texts.ndim != 3 or 0 in texts.shape:
        raise ShapeError(f"expected texts of shape (N, n, d), got {tuple(texts.shape)}")
    if texts.dtype != torch.float64:
        raise DTypeError(f"expected texts in float64, got {texts.dtype}: K⁻¹ needs the digits; convert with X.double()")
    check_finite(texts, "the texts")
    return texts


def _signs(labels: Sequence[int] | Tensor, X: Float[Tensor, "N n d"]) -> Float[Tensor, " N"]:
    Y = torch.as_tensor(labels, dtype=X.dtype, device=X.device)
    if Y.shape != (len(X),):
        raise ShapeError(f"expected one label for each of the {len(X)} texts, got shape {tuple(Y.shape)}")
    wrong = (Y.abs() != 1).nonzero()[:, 0].tolist()
    if wrong:
        raise RangeError(f"expected labels +1 and −1, got {float(Y[wrong[0]]):g} for text {wrong[0]}")
    return Y


def _start(theta0: Tensor, p: int) -> Float[Tensor, " p"]:
    if theta0.shape != (p,):
        raise ShapeError(f"expected θ₀ of shape ({p},), one number a feature, got {tuple(theta0.shape)}")
    check_finite(theta0, "θ₀")
    return theta0.detach()


@torch.no_grad()
def _features(phi: FeatureMap, X: Float[Tensor, "N n d"], memory: int) -> Float[Tensor, "N p"]:
    """Φ. Random features draw all of V for every batch, so batches are as large as `memory` allows."""
    if isinstance(phi, LoneWordFeatures):
        raise RangeError("expected the map itself, got .alone(i): it has the law of φ for one text, not for several")
    N, n, d = X.shape
    p = phi.k if isinstance(phi, LayeredFeatures) else phi(X[:1]).numel()
    check_memory(2 * N * p * 8, f"the features of {N:,} texts (p = {p:,})")
    size = max(1, memory // (8 * (4 * max(p, n * d) + 3 * n * n)))
    Phi = X.new_empty((N, p))
    for rows, batch in zip(Phi.split(size), X.split(size), strict=True):
        rows[:] = phi(batch).reshape(rows.shape)
    return Phi


def _prepared(phi: FeatureMap, X: Float[Tensor, "t n d"]) -> tuple[list[Probe], Float[Tensor, "t p"]]:
    """φ prepared at each text, and its features; the blocks of random features are drawn once for all texts."""
    if isinstance(phi, LayeredFeatures):
        layered = [LayeredProbe(phi, x, z) for x, z in zip(X, phi.blocks.apply(X), strict=True)]
        return list(layered), torch.stack([probe.clean for probe in layered])
    with torch.no_grad():
        return [phi.at(x) for x in X], torch.stack([phi(x).reshape(-1) for x in X])


@dataclass(frozen=True, eq=False)
class Span:
    """Features whose Gram matrix can be inverted."""

    features: Float[Tensor, "N p"]
    factor: Float[Tensor, "N N"]  # L, K = LLᵀ
    condition: float  # of K
    lambda_min: float  # of K

    @classmethod
    def of(cls, features: Float[Tensor, "N p"]) -> Span:
        """Factor K once; refuse features that are linearly dependent."""
        N, p = features.shape
        if p <= N:
            raise RankError(f"expected fewer samples than features, got N = {N} and p = {p}: drop samples or widen φ")
        check_finite(features, "the features of the training texts")
        K = features @ features.mT
        spectrum = torch.linalg.eigvalsh(K)
        least, largest = float(spectrum[0]), float(spectrum[-1])
        factor, failed = torch.linalg.cholesky_ex(K)
        # What rounding makes of an eigenvalue 0: each entry of K is a sum, and a row of K has N of them.
        if int(failed) or least <= 4 * N * torch.finfo(K.dtype).eps * largest:
            raise RankError(_dependence(features, K))
        return cls(features, factor, largest / least, least)

    @property
    def N(self) -> int:
        return int(self.features.shape[0])

    @property
    def p(self) -> int:
        return int(self.features.shape[1])

    def nearest(self, start: Float[Tensor, " p"], Y: Float[Tensor, " N"]) -> Float[Tensor, " p"]:
        """start + Φ⁺(Y − Φ start): the solution of Φθ = Y nearest to `start`."""
        for _ in range(2):  # the second pass takes away what rounding left of the first
            start = start + self._pull((Y - self.features @ start)[:, None])[0]
        return start

    def outside(self, v: Float[Tensor, "t p"]) -> Float[Tensor, "t p"]:
        """P⊥v: what of each v lies outside the span."""
        for _ in range(2):
            v = v - self._pull(self.features @ v.mT)
        return v

    def member(self, v: Float[Tensor, " p"]) -> int | None:
        """The sample that v coincides with, if there is one."""
        away = (self.features - v).square().sum(1)
        nearest = int(away.argmin())
        return nearest if float(away[nearest]) <= SAME**2 * float(v.square().sum()) else None

    def _pull(self, residual: Float[Tensor, "N t"]) -> Float[Tensor, "t p"]:
        """Φ⁺ residual."""
        return torch.cholesky_solve(residual, self.factor).mT @ self.features


def _dependence(features: Float[Tensor, "N p"], K: Float[Tensor, "N N"]) -> str:
    """Why K has no inverse, in one line."""
    size = K.diagonal()
    empty = (size == 0).nonzero()[:, 0].tolist()
    if empty:
        return f"expected features that do not vanish, got φ = 0 for samples {_some(empty)}: drop them"
    # From K where they might be equal, from the rows themselves whether they are: differences of K are half rounding.
    near = (size[:, None] + size - 2 * K <= 100 * SAME**2 * size).triu(1).nonzero().tolist()
    pairs = [(i, j) for i, j in near if float((features[i] - features[j]).norm()) <= SAME * float(features[i].norm())]
    if pairs:
        return (
            f"expected linearly independent features, got samples that coincide: {_some(pairs)}; "
            "keep one of each (texts can become equal when they are cut to n words)"
        )
    return (
        f"expected linearly independent features, got {len(K)} samples that depend linearly on each other, with p = "
        f"{features.shape[1]} features and no two samples equal: use fewer samples, or a map with more features"
    )


def _some(items: list[int] | list[tuple[int, int]]) -> str:
    shown = ", ".join(str(item) for item in items[:5])
    return shown if len(items) <= 5 else f"{shown} and {len(items) - 5} more"
