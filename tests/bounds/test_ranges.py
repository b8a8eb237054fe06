"""How far a range of outputs reaches: the dual against a plain ascent that shares no code with it."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from oneword.bounds.ranges import Box, Ellipsoid


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def output(E: Ellipsoid, z: Tensor) -> Tensor:
    """What the norm, and the matrix after it, make of z."""
    u = E.gain * z + E.shift
    u = u if E.weight is None else u @ E.weight.double().mT + (0 if E.bias is None else E.bias)
    return u - u.mean(-1, keepdim=True) if E.softmax else u


def in_ball(z: Tensor, centred: bool) -> Tensor:
    """Rows of norm √d, without their mean where it is taken off."""
    z = z - z.mean(-1, keepdim=True) if centred else z
    return z * math.sqrt(z.shape[-1]) / z.norm(dim=-1, keepdim=True).clamp_min(1e-300)


def primal(E: Ellipsoid, point: Tensor, starts: int = 24, steps: int = 4000) -> float:
    """The plain truth from below: y ← argmax of the gradient over the ball, from many starts."""
    point = point - point.mean() if E.softmax else point
    z = in_ball(torch.cat([drawn(1, starts, E.d), torch.eye(E.d, dtype=torch.float64)]), E.centred)
    before = -1.0
    for step in range(steps):
        z = z.detach().requires_grad_(True)
        far = (output(E, z) - point).square().sum(1)
        best = float(far.detach().max())
        if step % 50 == 49:
            if best <= before * (1 + 1e-13):
                break
            before = best
        (gradient,) = torch.autograd.grad(far.sum(), z)
        moved = in_ball(gradient, E.centred)
        z = torch.where(gradient.abs().amax(1, keepdim=True) > 0, moved, z)
    return math.sqrt(best)


def ellipsoid(seed: int, d: int, centred: bool, p: int | None, softmax: bool, spread: float = 1.0) -> Ellipsoid:
    gain = drawn(seed, d).sign() * drawn(seed + 1, d).mul(spread).exp()
    weight = None if p is None else drawn(seed + 2, p, d)
    bias = None if p is None else drawn(seed + 3, p)
    return Ellipsoid(gain, drawn(seed + 4, d), centred, weight, bias, softmax)


CASES = [
    pytest.param(
        centred, p, softmax, d, id=f"{'layer' if centred else 'rms'}-{p}-{'softmax' if softmax else 'raw'}-{d}"
    )
    for centred in (True, False)
    for p, softmax in ((None, False), (5, False), (40, True))
    for d in (2, 7, 24)
]


@pytest.mark.parametrize(("centred", "p", "softmax", "d"), CASES)
def test_the_dual_is_the_farthest_point_of_the_ellipsoid(centred: bool, p: int | None, softmax: bool, d: int) -> None:
    E = ellipsoid(7, d, centred, p, softmax, spread=0.7)
    for point in (output(E, in_ball(drawn(9, 1, d), centred))[0], 10 * drawn(10, p or d), torch.zeros(p or d).double()):
        upper, found = float(E.farthest(point[None])[0]), primal(E, point)
        assert found <= upper
        assert upper == pytest.approx(found, rel=1e-6)


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("case", ["centre", "equal gains", "one gain", "no gain", "far", "spread", "one entry"])
def test_nasty_ellipsoids(centred: bool, case: str) -> None:
    """Where the offset is 0, or orthogonal to the longest axis, the best λ is the largest eigenvalue itself."""
    d = 1 if case == "one entry" else 9
    gain, shift = drawn(3, d), drawn(4, d)
    point = 2 * drawn(5, d)
    if case == "centre":
        point = shift
    elif case == "equal gains":
        gain = torch.ones(d, dtype=torch.float64)
    elif case == "one gain":
        gain = torch.eye(d, dtype=torch.float64)[0]
    elif case == "no gain":
        gain = torch.zeros(d, dtype=torch.float64)
    elif case == "far":
        point = 1e8 * point
    elif case == "spread":
        gain = torch.logspace(-9, 3, d, dtype=torch.float64)
    E = Ellipsoid(gain, shift, centred)
    upper, found = float(E.farthest(point[None])[0]), primal(E, point)
    assert found <= upper * (1 + 1e-12)
    assert upper == pytest.approx(found, rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 12), st.booleans(), st.booleans(), st.floats(0, 3))
def test_nothing_in_the_ellipsoid_is_farther(seed: int, d: int, centred: bool, matrix: bool, spread: float) -> None:
    E = ellipsoid(seed, d, centred, 6 if matrix else None, matrix, spread)
    point = output(E, in_ball(drawn(seed + 5, 1, d), centred))
    z = in_ball(drawn(seed + 6, 200, d), centred) * torch.linspace(0, 1, 200, dtype=torch.float64)[:, None]
    assert float((output(E, z) - point).norm(dim=1).max()) <= float(E.farthest(point)[0])


def brute_maximum(E: Ellipsoid, point: Tensor, rows: int) -> float:
    """The farthest entries Σζ² ≤ rows·d, |ζ| ≤ √(d−1), from below: away from the point, the largest gains first."""
    most = math.sqrt(E.d - 1 if E.centred else E.d)
    best = 0.0
    for share in torch.linspace(0, 1, 21, dtype=torch.float64):
        weight = (E.gain.abs() ** (4 * share)) * (E.gain.abs() * (E.shift - point).abs() + 1e-12) ** (1 - share)
        low, high = 0.0, 1e9
        for _ in range(200):  # as long as the bounds allow
            middle = (low + high) / 2
            zeta = (middle * weight).clamp_max(most)
            low, high = (middle, high) if float(zeta.square().sum()) <= rows * E.d else (low, middle)
        zeta = (low * weight).clamp_max(most) * torch.where(E.gain * (E.shift - point) < 0, -1.0, 1.0)
        best = max(best, float((E.gain * zeta + E.shift - point).norm()))
    return best


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("rows", [1, 2, 5, 40])
def test_largest_entries_stay_within_their_bound_and_reach_nearly_to_it(centred: bool, rows: int) -> None:
    E = ellipsoid(11, 8, centred, None, False, spread=0.5)
    point = drawn(12, 8)
    upper = float(E.farthest_maximum(point[None], torch.tensor([rows]))[0])
    box = float((E.gain.abs() * math.sqrt(7 if centred else 8) + (E.shift - point).abs()).norm())
    ball = float(Ellipsoid(E.gain * math.sqrt(rows), E.shift, False).farthest(point[None])[0])
    assert upper <= min(box, ball) * (1 + 1e-9)
    assert 0.97 * upper <= brute_maximum(E, point, rows) <= upper
    z = in_ball(drawn(13, 500 * rows, 8), centred).view(500, rows, 8)
    entries = (E.gain * z + E.shift).amax(1)
    assert float((entries - point).norm(dim=1).max()) <= upper


@pytest.mark.parametrize(("outputs", "softmax", "exact"), [(1, False, True), (2, True, True), (4, True, False)])
def test_a_tanh_before_the_last_matrix_leaves_the_corners_of_a_box(outputs: int, softmax: bool, exact: bool) -> None:
    W, b, point = drawn(20, outputs, 6), drawn(21, outputs), drawn(22, outputs)
    corners = torch.tensor(list(itertools.product((-1.0, 1.0), repeat=6)), dtype=torch.float64)
    out = corners @ W.mT + b - point
    out = out - out.mean(1, keepdim=True) if softmax else out
    truth, upper = float(out.norm(dim=1).max()), float(Box(W, b, softmax).farthest(point[None])[0])
    assert truth <= upper
    assert not exact or upper == pytest.approx(truth, rel=1e-9)
