"""Certificates as a user meets them: never beaten, tight where they can be, and a reason where there is none."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import Process
from typing import Any, final

import numpy as np
import pytest
import torch
from torch import Tensor

from benchmarks.attack import MAPS, attack, forward_change
from oneword.bounds import layers
from oneword.bounds.attention import hull_bound, segment_bound
from oneword.bounds.certificate import Certificate, Certify, certificate
from oneword.errors import RangeError
from oneword.maps.activations import Activation
from oneword.maps.attention import AttentionFeatures
from oneword.maps.attention_probe import AttentionProbe
from oneword.maps.base import ModuleFeatures, Probe
from oneword.maps.multihead import MultiHeadAttention
from oneword.maps.random import DeepRandomFeatures, RandomFeatures
from oneword.maps.scores import GroupedScore, Score, Softmax
from oneword.maps.scores.elementwise import ElementwiseScore
from oneword.search.ascent import Ascent
from oneword.search.defaults import DefaultSearch
from oneword.sets.constraints import Ball, Constraint, Sphere
from oneword.text.context import clustered, gaussian

BALL, PLAIN = Ball(), Certify.plain()
MAPS_OF_ATTENTION = ("softmax", "relu", "sparsemax", "sigmoid", "linear", "relu-unnormalised")


def every(probe: Probe) -> Tensor:
    return torch.tensor(probe.positions)[:, None]


def certified(probe: Probe, effort: Certify, within: Constraint = BALL, found: Tensor | None = None) -> Certificate:
    rows = every(probe)
    found = torch.ones(len(rows), dtype=torch.float64) if found is None else found
    return certificate(probe, rows, within, found, effort)


def bound(probe: Probe, effort: Certify = PLAIN, within: Constraint = BALL, **options: Any) -> Tensor:
    made = certified(probe, effort, within, **options)
    assert made.upper is not None, made.how
    return made.upper


# No certificate is ever beaten ------------------------------------------------------------------------------------


@cache
def attacked() -> dict[str, Any]:
    return attack(13_000, work=0.1, seed=2)


def test_no_certificate_is_beaten() -> None:
    """All maps, families, sizes and sets of benchmarks/attack.py; `make evidence` runs nine times as many."""
    result = attacked()
    assert result["violations"] == []
    assert result["perturbations"] >= 13_000
    assert result["cases"] >= 60


def test_the_attack_is_strong_enough_to_mean_something() -> None:
    """Every map was attacked, and for most a perturbation came close to its bound."""
    largest = attacked()["largest value/upper"]
    assert set(largest) == set(MAPS)
    assert sum(ratio > 0.9 for ratio in largest.values()) >= 6
    assert set(attacked()["bounds"]) >= {"branch and bound", "closed form", "operator norms"}


def test_an_attack_notices_a_bound_that_is_too_low(monkeypatch: pytest.MonkeyPatch) -> None:
    import benchmarks.attack as module

    def low(*args: Any, **options: Any) -> Certificate:
        made = certificate(*args, **options)
        assert made.upper is not None
        return replace(made, upper=0.9 * made.upper)

    monkeypatch.setattr(module, "certificate", low)
    assert attack(3000, work=0.02, seed=2)["violations"]


@pytest.mark.parametrize("score", ["softmax", "relu"])
def test_real_words_are_covered_by_the_sphere(score: str) -> None:
    """Other words of norm √d lie outside the ball; Sphere() covers them all."""
    n, d = 8, 24
    X = gaussian(n, d, seed=4).X
    vocabulary = gaussian(300, d, seed=5).X
    phi = AttentionFeatures.draw(d, score=score, seed=4)
    probe = phi.at(X)
    upper = bound(probe, Certify(1.0, 0.1), Sphere())
    y = vocabulary.expand(n, 300, d)[:, :, None]
    values = forward_change(phi, X, y, every(probe))
    assert float(((y[:, :, 0] - X[:, None]).norm(dim=2) > math.sqrt(d)).double().mean()) > 0.9
    assert (values <= upper[:, None]).all()


def test_a_relu_row_that_wakes_up_at_the_very_rim_of_the_ball_is_covered() -> None:
    """The ball just touches the half-space where row 0, empty before, attends to word 1 and jumps to it."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        a, c, f = rng.uniform(0.5, 2, 3)
        angle = rng.uniform(0, 2 * np.pi)
        turn = torch.tensor([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]).double()
        W = turn @ torch.tensor([[0.0, 1.0], [0.0, 0.0]]).double() @ turn.T
        X = torch.tensor([[f, -0.3], [c, -a], [-1.0, -0.5]]).double() @ turn.T
        probe = AttentionFeatures(W, score="relu").at(X)
        within = Ball(abs(float(X[1] @ probe.K[0] / probe.K[0].norm())))
        y = within.toward(X[1:2], probe.K[:1])
        assert float(probe.change2(y, torch.tensor([1])).sqrt()) <= float(bound(probe, within=within)[1])


@pytest.mark.parametrize("size", [1e-100, 1e-150, 1e-165, 1e-200])
def test_keys_whose_squares_underflow_are_covered_under_relu(size: float) -> None:
    """Shares of ReLU attention do not feel how small all scores are."""
    generator = torch.Generator().manual_seed(0)
    X, W = (torch.randn(5 if which else 4, 4, generator=generator, dtype=torch.float64) for which in (1, 0))
    probe = AttentionFeatures(size * W, score="relu").at(X)
    found = DefaultSearch().run(probe, every(probe), Ball()).change2.sqrt()
    for effort in (PLAIN, Certify(1.0, 0.1)):
        assert (found <= bound(probe, effort, found=0.2 * found) * (1 + 1e-9)).all()


def test_a_word_that_may_not_move_at_all_is_no_obstacle() -> None:
    X = gaussian(4, 6, seed=0).X
    X[0] = 0
    probe = AttentionFeatures.draw(6, seed=0).at(X)
    within = Ball(relative=0.5)
    found = DefaultSearch(quick=True).run(probe, every(probe), within).change2.sqrt()
    assert (found <= bound(probe, Certify(1.0, 0.05, seconds=5.0), within, found=found)).all()


def test_words_too_short_to_be_squared_have_no_certificate() -> None:
    made = certified(AttentionFeatures.draw(4, seed=0).at(1e-160 * gaussian(3, 4, seed=0).X), PLAIN)
    assert made.upper is None
    assert "underflow" in made.how


# Tight where it can be --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("d", [1, 2, 30])
@pytest.mark.parametrize("radius", [1e-6, 1e-3, 1.0, 50.0])
def test_one_word_alone_moves_by_exactly_the_radius(d: int, radius: float) -> None:
    """n = 1: softmax of one score is 1, φ(X) = x, so S = r/‖x‖."""
    probe = AttentionFeatures.draw(d, seed=1).at(gaussian(1, d, seed=1).X)
    for effort in (Certify.plain(), Certify(1.0, 0.1)):
        assert float(bound(probe, effort, Ball(radius))[0]) == pytest.approx(radius, rel=1e-8, abs=1e-10)


def test_equal_words_that_attend_to_the_changed_one_all_follow_it() -> None:
    """All words equal, attention sharp on what grows: every row ends at y, so the change is √n·r."""
    n, d = 6, 4
    X = gaussian(1, d, seed=3).X.repeat(n, 1)
    probe = AttentionFeatures(1e4 * torch.eye(d, dtype=torch.float64)).at(X)
    found = DefaultSearch().run(probe, every(probe), Ball()).change2.sqrt()
    assert found == pytest.approx(math.sqrt(n * d), rel=1e-6)
    upper = bound(probe, Certify(1.0, 0.1), found=found)
    assert (found <= upper).all()
    # p²β² vanishes with β, so even the closed form is tight.
    assert float(upper.max() / found.max()) == pytest.approx(1, rel=1e-6)


def test_a_single_linear_neuron_is_bounded_exactly() -> None:
    V = torch.tensor([[3.0, -4.0]], dtype=torch.float64)
    probe = RandomFeatures(V, 1, activation="identity").at(torch.ones(1, 2, dtype=torch.float64))
    assert float(bound(probe, within=Ball(0.7))[0]) == pytest.approx(5 * 0.7, rel=1e-12)


@pytest.mark.parametrize(("n", "bar"), [(10, 1.05), (20, 1.06)])
def test_gaussian_words_are_certified_within_a_few_percent(n: int, bar: float) -> None:
    X = gaussian(n, 384, cosine=0.07, seed=0).X
    probe = AttentionFeatures.draw(384, seed=0).at(X)
    found = DefaultSearch().run(probe, every(probe), Ball()).change2.sqrt()
    made = certified(probe, Certify(bar), found=found)
    assert made.upper is not None
    assert made.how == "branch and bound"
    assert (found <= made.upper).all()
    assert float(made.upper.max() / found.max()) <= bar


@pytest.mark.parametrize(("n", "d", "bar"), [(40, 48, 1.35), (12, 96, 1.2)])
def test_relu_attention_is_certified_as_closely_as_softmax(n: int, d: int, bar: float) -> None:
    probe = AttentionFeatures.draw(d, seed=1, score="relu").at(gaussian(n, d, seed=1).X)
    found = DefaultSearch().run(probe, every(probe), Ball()).change2.sqrt()
    upper = bound(probe, Certify(bar), found=found)
    assert (found <= upper).all()
    assert float(upper.max() / found.max()) <= bar


@pytest.mark.parametrize("score", ["softmax", "relu"])
def test_the_sphere_is_certified_around_0_where_words_are_nearest_to(score: str) -> None:
    """‖y‖ = √d allows ‖y − x‖ up to 2√d; a ball of that radius around x would leave far more room."""
    probe = AttentionFeatures.draw(64, seed=2, score=score).at(gaussian(20, 64, seed=2).X)
    found = DefaultSearch().run(probe, every(probe), Sphere()).change2.sqrt()
    sphere = bound(probe, Certify(1.25), Sphere(), found=found)
    assert (found <= sphere).all()
    assert float(sphere.max() / found.max()) <= 1.25
    assert float(bound(probe, within=Sphere()).max() / found.max()) < 0.75 * float(
        bound(probe, within=Ball(2 * math.sqrt(64))).max() / found.max()
    )


# As the radius goes to 0 ------------------------------------------------------------------------------------------

SMALL = {
    **{score: AttentionFeatures.draw(24, score=score, seed=0) for score in MAPS_OF_ATTENTION},
    "heads": MultiHeadAttention.draw(24, heads=2, seed=0),
    "causal heads": MultiHeadAttention.draw(24, heads=2, causal=True, seed=0),
    "rf": RandomFeatures.draw(10, 24, seed=0),
    "drf": DeepRandomFeatures.draw(10, 24, depth=2, k=60, seed=0),
}


@pytest.mark.parametrize("name", SMALL)
def test_a_bound_over_its_radius_stays_bounded_as_the_radius_goes_to_0(name: str) -> None:
    """And for every radius it is a bound: linear maps are met at their steepest."""
    probe = SMALL[name].at(gaussian(10, 24, seed=0).X)
    slopes = []
    for radius in (1e-6, 1e-4, 1e-3, 1e-2):
        within = Ball(radius * math.sqrt(24))
        upper = bound(probe, within=within)
        slopes.append(upper / radius)
        found = DefaultSearch(quick=True).run(probe, every(probe), within).change2.sqrt()
        assert (found <= upper * (1 + 1e-9)).all()
    assert all((slope <= 1.5 * slopes[-1]).all() for slope in slopes)


def test_a_tiny_ball_is_bracketed_within_a_factor_of_eight() -> None:
    for seed in range(3):
        probe = AttentionFeatures.draw(24, seed=seed).at(gaussian(10, 24, seed=seed).X)
        within = Ball(1e-3 * math.sqrt(24))
        found = DefaultSearch().run(probe, every(probe), within).change2.sqrt()
        assert float(bound(probe, within=within).max() / found.max()) <= 8


# Effort -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def probe() -> AttentionProbe:
    return AttentionFeatures.draw(48, seed=6).at(clustered(40, 48, seed=6).X)


@pytest.fixture(scope="module")
def found(probe: AttentionProbe) -> Tensor:
    return DefaultSearch(quick=True).run(probe, every(probe), Ball()).change2.sqrt()


def test_plain_and_no_budget_are_the_closed_form(probe: AttentionProbe, found: Tensor) -> None:
    r = torch.full((probe.n,), math.sqrt(probe.d), dtype=torch.float64)
    closed = segment_bound(probe, r, 2 * r).sqrt()
    for effort in (Certify.plain(), Certify(1.0, 0.0), Certify(1.0, seconds=0.0)):
        made = certified(probe, effort, found=found)
        assert made.how == "closed form"
        torch.testing.assert_close(made.upper, closed, rtol=1e-8, atol=0)


def test_branching_lowers_the_closed_form_and_a_lower_target_lowers_it_further(
    probe: AttentionProbe, found: Tensor
) -> None:
    plain = bound(probe, found=found)
    uppers = [float(bound(probe, Certify(target), found=found).max()) for target in (1.5, 1.35, 1.25)]
    assert float(plain.max()) > uppers[0] > uppers[1] > uppers[2]
    assert all(upper <= target * float(found.max()) for upper, target in zip(uppers, (1.5, 1.35, 1.25), strict=True))
    assert (bound(probe, Certify(1.25), found=found) <= plain).all()


def test_a_bound_says_what_ended_it_above_its_target(probe: AttentionProbe, found: Tensor) -> None:
    ends = {
        "branch and bound": Certify(1.4),
        "branch and bound; its budget of work is spent": Certify(1.0, 0.1),
        "branch and bound; its seconds are over": Certify(1.0, seconds=1e-3),
    }
    for how, effort in ends.items():
        assert certified(probe, effort, found=found).how == how


def test_the_same_call_gives_the_same_bits_beside_a_busy_core(probe: AttentionProbe, found: Tensor) -> None:
    quiet = bound(probe, Certify(1.0, 0.3), found=found)
    busy = Process(target=_spin, daemon=True)
    busy.start()
    try:
        assert torch.equal(bound(probe, Certify(1.0, 0.3), found=found), quiet)
    finally:
        busy.kill()
        busy.join()


def _spin() -> None:
    while True:
        pass


def test_a_target_met_by_the_closed_form_takes_no_branching(probe: AttentionProbe, found: Tensor) -> None:
    assert certified(probe, Certify(5.0), found=found).how == "closed form"


@pytest.mark.parametrize(
    "bad", [{"target": 0.9}, {"target": math.nan}, {"seconds": -1.0}, {"work": -1.0}, {"work": math.inf}]
)
def test_impossible_efforts_are_refused(bad: dict[str, float]) -> None:
    ((name, value),) = bad.items()
    says = "target ≥ 1" if math.isfinite(value) else f"expected {name} as a finite number, got {value}"
    with pytest.raises(RangeError, match=says):
        Certify(**bad)


# Several words ----------------------------------------------------------------------------------------------------


def test_the_hull_covers_every_number_of_words() -> None:
    n, d = 6, 10
    X = gaussian(n, d, seed=8).X
    for score in ("softmax", "relu"):
        probe = AttentionFeatures.draw(d, score=score, seed=8).at(X)
        hull = math.sqrt(hull_bound(probe, math.sqrt(d)))
        assert float(bound(probe).max()) <= hull * (1 + 1e-8)
        rows = torch.arange(n)[None]
        best = Ascent(random=8, polish=40).run(probe, rows, Ball()).change2.sqrt()
        made = certificate(probe, rows, Ball(), best, Certify())
        assert made.upper is not None
        assert float(best[0]) <= float(made.upper[0]) <= hull * (1 + 1e-9)


def test_a_chosen_set_is_certified_for_all_sets_of_its_size() -> None:
    n, d = 7, 5
    phi = RandomFeatures.draw(n, d, seed=1)
    probe = phi.at(gaussian(n, d, seed=1).X)
    rows = torch.tensor([[0, 1]])
    one, every_ = (
        float(certificate(probe, rows, Ball(), torch.ones(1), Certify(), any_rows=any_rows).upper[0])  # type: ignore[index]
        for any_rows in (None, 2)
    )
    assert one <= every_
    pairs = torch.combinations(torch.arange(n))
    best = Ascent(random=4, polish=20).run(probe, pairs, Ball()).change2.sqrt()
    assert float(best.max()) <= every_


# Random features --------------------------------------------------------------------------------------------------


def test_off_neurons_make_the_relu_bound_smaller() -> None:
    X = gaussian(12, 16, seed=3).X
    relu = bound(RandomFeatures.draw(12, 16, seed=3).at(X))
    same_norms = bound(RandomFeatures.draw(12, 16, seed=3, activation=Activation("other", torch.relu, 1.0)).at(X))
    assert (relu < same_norms).all()
    assert float((relu / same_norms).max()) < 0.9


def test_neurons_that_no_allowed_change_wakes_do_not_count() -> None:
    """z = (−1, 2), and the ball moves z by less than 1: only the second neuron can change."""
    V = torch.tensor([[-1.0, 0.0], [0.0, 2.0]], dtype=torch.float64)
    probe = RandomFeatures(V, 1).at(torch.ones(1, 2, dtype=torch.float64))
    assert float(bound(probe, within=Ball(0.5))[0]) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_cheap_norm_of_a_wide_layer_is_above_its_norm(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    small = [
        torch.randn(60, 60, generator=generator).to(dtype),
        torch.eye(60, dtype=dtype),
        torch.ones(60, 60, dtype=dtype),
    ]
    exact = [layers.layer_norm(V) for V in small]
    for V, norm in zip(small, exact, strict=True):
        assert norm == pytest.approx(float(torch.linalg.matrix_norm(V.double(), 2)), rel=1e-9)
    monkeypatch.setattr(layers, "DENSE_WIDTH", 10)
    assert all(layers.layer_norm(V) >= norm * (1 - 1e-9) for V, norm in zip(small, exact, strict=True))


def test_a_wide_layer_in_float32_is_summed_in_float64() -> None:
    """All entries 0.1: the norm is 0.1·k, and a float32 sum of its squares is 1 % short."""
    k = layers.DENSE_WIDTH + 1
    V = torch.full((k, k), 0.1)
    assert layers.layer_norm(V) >= float(V[0, 0]) * k


def test_the_product_of_layers_says_that_it_is_vacuous() -> None:
    X = gaussian(6, 8, seed=2).X
    made = certified(DeepRandomFeatures.draw(6, 8, depth=3, seed=2).at(X), Certify())
    assert "vacuous" in made.how
    assert certified(RandomFeatures.draw(6, 8, seed=2).at(X), Certify()).how == "operator norms"


# Precision --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("radius", [None, 0.01])
@pytest.mark.parametrize("score", ["softmax", "relu"])
def test_float32_words_are_covered_in_exact_arithmetic(score: str, radius: float | None) -> None:
    """The words a float32 search returns lie outside the ball by its rounding; the bound covers them all the same."""
    d = 12
    for n in (1, 5):
        X = gaussian(n, d, seed=9, dtype=torch.float32).X
        phi = AttentionFeatures.draw(d, score=score, seed=3, dtype=torch.float32)
        probe, within = phi.at(X), Ball(radius)
        best = Ascent(random=4, polish=20).run(probe, every(probe), within)
        made = certified(probe, Certify(1.0, 0.1), within, best.change2.sqrt())
        assert made.upper is not None
        assert made.upper.dtype == torch.float64
        exact = AttentionFeatures(phi.W.double(), score=score)
        value = forward_change(exact, X.double(), best.y.double()[:, None], every(probe))[:, 0]
        assert (value <= made.upper).all()


def test_a_float32_certificate_is_that_of_the_same_numbers_in_float64() -> None:
    n, d = 6, 8
    X = gaussian(n, d, seed=1, dtype=torch.float32).X
    phi = AttentionFeatures.draw(d, seed=1, dtype=torch.float32)
    torch.testing.assert_close(
        bound(phi.at(X)), bound(AttentionFeatures(phi.W.double()).at(X.double())), rtol=1e-4, atol=0
    )
    V = torch.randn(30, n * d, generator=torch.Generator().manual_seed(0)) / math.sqrt(n * d)
    torch.testing.assert_close(
        bound(RandomFeatures(V, n).at(X)), bound(RandomFeatures(V.double(), n).at(X.double())), rtol=1e-4, atol=0
    )


def test_weights_whose_squares_overflow_still_have_a_bound() -> None:
    X = gaussian(4, 3, seed=0).X
    probe = AttentionFeatures(1e155 * AttentionFeatures.draw(3, seed=0).W).at(X)
    upper = bound(probe, Certify(1.0, 0.1))
    y = X + Ball().sample(torch.zeros(3, dtype=torch.float64), 4, np.random.default_rng(0))
    assert (probe.change2(y, torch.arange(4)).sqrt() <= upper).all()
    assert torch.isfinite(upper).all()


# None, and why ----------------------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class _Cube(ElementwiseScore):
    """A score that no proof is about."""

    @property
    def name(self) -> str:
        return "cube"

    def mass(self, s: Tensor) -> Tensor:
        return s.masked_fill(s.isneginf(), 0) ** 3

    def derivative(self, s: Tensor) -> Tensor:
        return 3 * s.masked_fill(s.isneginf(), 0) ** 2


@final
@dataclass(frozen=True)
class _SquaredReLU(GroupedScore):
    """g = max(0, s)², normalised: rows may come to attend to nothing, as only those of ReLU can otherwise."""

    @property
    def name(self) -> str:
        return "squared-relu"

    def attend(self, s: Tensor) -> Tensor:
        return self.share(self.mass(s), self.pool(s)[..., None] - self.mass(s))

    def pull(self, weights: Tensor, s: Tensor, gradient: Tensor) -> Tensor:
        total = self.pool(s)[..., None].clamp_min(1e-300)
        return (gradient - (weights * gradient).sum(-1, keepdim=True)) / total * 2 * s.clamp_min(0)

    def mass(self, s: Tensor) -> Tensor:
        return s.clamp_min(0).square()

    def pool(self, s: Tensor) -> Tensor:
        return self.mass(s).sum(-1)

    def share(self, mass: Tensor, rest: Tensor) -> Tensor:
        return mass / (mass + rest).clamp_min(1e-300)

    def slope(self, s: Tensor, share: Tensor, rest: Tensor) -> Tensor:
        return (1 - share) / (self.mass(s) + rest).clamp_min(1e-300) * 2 * s.clamp_min(0)

    def _remove(self, s: Tensor) -> Tensor:
        return self.pool(s)[..., None] - self.mass(s)


class _OtherSoftmax(Softmax):  # type: ignore[misc]
    """Whoever inherits may have changed everything."""

    def attend(self, s: Tensor) -> Tensor:
        return 2 * super().attend(s)


class _OtherSparsemax(Score):
    """Normalised, and with no grouping."""

    @property
    def name(self) -> str:
        return "hard"

    def attend(self, s: Tensor) -> Tensor:
        return torch.nn.functional.one_hot(s.argmax(-1), s.shape[-1]).to(s.dtype)


@pytest.mark.parametrize("changed", [1, 2])
@pytest.mark.parametrize("score", [_SquaredReLU(), _OtherSoftmax(), _OtherSparsemax()])
def test_a_score_of_ones_own_has_none_under_any_attention(score: Score, changed: int) -> None:
    """Three equal words whose rows vanish under a small change: the bound of ReLU without that was 18 times too low."""
    X = torch.ones(3, 4, dtype=torch.float64)
    W = torch.zeros(4, 4, dtype=torch.float64)
    W[0, 0], W[1, 0] = 1, -0.99
    one = torch.eye(4, dtype=torch.float64)[None]
    for phi in (AttentionFeatures(W, score=score), MultiHeadAttention(W[None], one, one, score=score)):
        rows = torch.arange(changed)[None]
        made = certificate(phi.at(X), rows, Ball(0.1), torch.ones(1), Certify())
        assert made.upper is None
        assert "a score of one's own" in made.how


def _unknown_score() -> Probe:
    return AttentionFeatures.draw(4, score=_Cube(), seed=0).at(gaussian(3, 4, seed=0).X)


def _no_lipschitz() -> Probe:
    return RandomFeatures.draw(3, 4, activation=Activation("cube", lambda z: z**3), seed=0).at(gaussian(3, 4, seed=0).X)


def _any_module() -> Probe:
    return ModuleFeatures(torch.nn.Linear(4, 2).double()).at(gaussian(3, 4, seed=0).X)


@pytest.mark.parametrize(
    ("build", "why"),
    [
        (_unknown_score, "none is known for cube"),
        (_no_lipschitz, "cube has no known Lipschitz constant"),
        (_any_module, "none is known for this map"),
    ],
)
def test_where_no_certificate_is_known_it_says_why(build: Callable[[], Probe], why: str) -> None:
    made = certified(build(), Certify())
    assert made.upper is None
    assert made.how.startswith("no certificate: ")
    assert why in made.how


@pytest.mark.parametrize("score", ["sigmoid", "linear", "relu-unnormalised"])
def test_several_words_under_weights_that_are_not_normalised_have_none(score: str) -> None:
    probe = AttentionFeatures.draw(4, score=score, seed=0).at(gaussian(3, 4, seed=0).X)
    made = certificate(probe, torch.tensor([[0, 1]]), BALL, torch.ones(1), Certify())
    assert made.upper is None
    assert score in made.how
