"""Pre-training: the interpolator of dense linear algebra, from one Cholesky factor; and what it refuses."""

import numpy as np
import pytest
import torch
from torch import Tensor

from oneword.errors import DTypeError, NonFiniteError, RangeError, RankError, ShapeError
from oneword.learning import Interpolator
from oneword.maps.attention import AttentionFeatures
from oneword.maps.base import ModuleFeatures
from oneword.maps.random import RandomFeatures
from oneword.text.context import Context, gaussian
from tests.learning.cases import CASES, Case, Dense, flat, sample, trained

every_case = pytest.mark.parametrize("case", CASES, ids=str)


def assert_near(found: Tensor, true: np.ndarray) -> None:
    assert np.linalg.norm(found.numpy() - true) <= 1e-8 * np.linalg.norm(true)


@every_case
def test_the_model_is_that_of_the_pseudo_inverse(case: Case) -> None:
    dense, model = Dense.of(case), trained(case)
    assert_near(model.theta, dense.theta)
    assert_near(sample(case).theta_f, dense.theta_f)
    assert_near(sample(case).theta_r, dense.theta_r)
    assert_near(sample(case).outside, dense.projector @ dense.phi)


@every_case
def test_every_sample_is_interpolated(case: Case) -> None:
    model, learnt = trained(case), sample(case)
    labels = case.labels.double()
    assert (model.span.features @ model.theta - labels).abs().max() <= 1e-10
    assert (model.span.features @ learnt.theta_r - labels).abs().max() <= 1e-10  # retraining forgets nothing
    for theta in (learnt.theta_f, learnt.theta_r):
        assert abs(float(learnt.features @ theta) - learnt.y) <= 1e-10


@every_case
def test_what_is_outside_the_span_is_orthogonal_to_it(case: Case) -> None:
    Phi, u = trained(case).span.features, sample(case).outside
    cosine = (Phi @ u).abs() / (Phi.norm(dim=1) * u.norm())
    assert cosine.max() <= 1e-12


@every_case
def test_the_condition_of_the_gram_matrix_is_reported(case: Case) -> None:
    spectrum = np.linalg.eigvalsh(Dense.of(case).Phi @ Dense.of(case).Phi.T)
    model = trained(case)
    assert model.condition == pytest.approx(spectrum[-1] / spectrum[0], rel=1e-6)
    assert model.lambda_min_over_k == pytest.approx(spectrum[0] / model.p, rel=1e-6)


@pytest.mark.parametrize("case", [CASES[0], CASES[3]], ids=str)
def test_small_batches_give_the_same_model(case: Case) -> None:
    # Sums in another order, through K⁻¹.
    small = Interpolator.fit(case.phi, case.texts, case.labels, theta0=case.theta0, memory=1)
    assert torch.allclose(small.theta, trained(case).theta, rtol=0, atol=1e-11)


def test_texts_may_be_contexts_or_arrays() -> None:
    case = CASES[3]
    X, y = case.new
    for texts, new in (([Context(X) for X in case.texts], Context(X)), (case.texts.numpy(), X.numpy())):
        model = Interpolator.fit(case.phi, texts, case.labels.tolist())
        assert torch.equal(model.theta, trained(case).theta)
        assert torch.equal(model.new_sample(new, y).theta_r, sample(case).theta_r)


@pytest.mark.parametrize("case", [CASES[0], CASES[3]], ids=str)
def test_many_samples_are_learnt_as_each_of_them_alone(case: Case) -> None:
    X = torch.stack([gaussian(case.n, case.d, seed=500 + j).X for j in range(3)])
    labels = [1, -1, 1]
    for together, x, y in zip(trained(case).new_samples(X, labels), X, labels, strict=True):
        alone = trained(case).new_sample(x, y)
        assert together.f == pytest.approx(alone.f, rel=1e-10)
        assert torch.allclose(together.theta_r, alone.theta_r, rtol=0, atol=1e-10)


# What is refused ----------------------------------------------------------------------------------------------------


def test_samples_that_coincide_are_named() -> None:
    case = CASES[3]
    texts = case.texts
    texts[7] = texts[2]
    with pytest.raises(RankError, match=r"samples that coincide: \(2, 7\); keep one of each"):
        Interpolator.fit(case.phi, texts, case.labels)
    texts[7, 0] *= 1 + 1e-9  # so near that K cannot be inverted
    with pytest.raises(RankError, match=r"\(2, 7\)"):
        Interpolator.fit(case.phi, texts, case.labels)


def test_samples_may_depend_on_each_other_without_coinciding() -> None:
    mean = ModuleFeatures(lambda X: torch.cat([X.mean(-2)] * 4, -1), batched=True)  # 16 features of rank 4
    texts = torch.stack([gaussian(3, 4, seed=j).X for j in range(6)])
    with pytest.raises(
        RankError, match="6 samples that depend linearly on each other, with p = 16 features and no two"
    ):
        Interpolator.fit(mean, texts, [1, -1] * 3)


def test_features_that_vanish_are_named() -> None:
    relu = AttentionFeatures(-torch.eye(4, dtype=torch.float64), score="relu")
    texts = torch.stack([gaussian(3, 4, seed=j).X for j in range(3)])
    texts[1] = texts[1, :1]  # three equal words: no score is positive
    with pytest.raises(RankError, match="φ = 0 for samples 1: drop them"):
        Interpolator.fit(relu, texts, [1, -1, 1])


def test_there_must_be_fewer_samples_than_features() -> None:
    texts = torch.stack([gaussian(2, 4, seed=j).X for j in range(8)])
    with pytest.raises(RankError, match="expected fewer samples than features, got N = 8 and p = 8"):
        Interpolator.fit(ModuleFeatures(flat, batched=True), texts, [1, -1] * 4)


def test_a_sample_of_the_training_texts_teaches_nothing_new() -> None:
    case = CASES[3]
    with pytest.raises(
        RankError, match=r"new to the model, got text 0 with ρ = .*coincides with sample 4 of the training"
    ):
        trained(case).new_sample(case.texts[4], 1)
    half = trained(CASES[-1])  # a linear map: a mixture of two texts lies in their span
    with pytest.raises(RankError, match="its features depend on the training texts"):
        half.new_sample((CASES[-1].texts[0] + CASES[-1].texts[1]) / 2, 1)


@pytest.mark.parametrize(
    ("labels", "error", "message"),
    [
        ([1, 0, 1], RangeError, r"labels \+1 and −1, got 0 for text 1"),
        ([1, -1, float("nan")], RangeError, r"labels \+1 and −1, got nan for text 2"),
        ([1, -1], ShapeError, r"one label for each of the 3 texts, got shape \(2,\)"),
    ],
)
def test_labels_are_plus_and_minus_one(labels: list[float], error: type[Exception], message: str) -> None:
    texts = torch.stack([gaussian(4, 5, seed=j).X for j in range(3)])
    with pytest.raises(error, match=message):
        Interpolator.fit(AttentionFeatures.draw(5, seed=0), texts, torch.tensor(labels))


def test_texts_and_starts_that_do_not_fit_are_refused() -> None:
    phi = AttentionFeatures.draw(5, seed=0)
    texts = torch.stack([gaussian(4, 5, seed=j).X for j in range(3)])
    with pytest.raises(ShapeError, match=r"texts of shape \(N, n, d\), got \(4, 5\)"):
        Interpolator.fit(phi, texts[0], [1])
    with pytest.raises(ShapeError, match="cut them to one length"):
        Interpolator.fit(phi, [gaussian(4, 5), gaussian(3, 5)], [1, -1])
    with pytest.raises(DTypeError, match=r"expected texts in float64, got torch\.float32"):
        Interpolator.fit(phi, texts.float(), [1, -1, 1])
    with pytest.raises(ShapeError, match=r"θ₀ of shape \(20,\), one number a feature, got \(7,\)"):
        Interpolator.fit(phi, texts, [1, -1, 1], theta0=torch.zeros(7))
    with pytest.raises(NonFiniteError):
        Interpolator.fit(phi, texts * torch.nan, [1, -1, 1])
    with pytest.raises(ShapeError, match=r"training texts' shape \(4, 5\), got \(3, 5\)"):
        Interpolator.fit(phi, texts, [1, -1, 1]).new_sample(gaussian(3, 5), 1)
    with pytest.raises(RangeError, match=r"expected the map itself, got .alone\(i\)"):
        Interpolator.fit(RandomFeatures.draw(4, 5, k=30, seed=0).alone(0), texts, [1, -1, 1])
