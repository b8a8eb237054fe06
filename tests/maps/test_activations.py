"""What an Activation says about itself holds: Lipschitz constants, kinks, derivatives, names."""

import copy
import math
import pickle
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from oneword.errors import DTypeError, RangeError, ShapeError, UnknownNameError
from oneword.maps import activations
from oneword.maps.activations import ACTIVATIONS, GELU, RELU, Activation, activation

every = pytest.mark.parametrize("sigma", list(ACTIVATIONS.values()), ids=list(ACTIVATIONS))
numbers = st.floats(-60, 60) | st.floats(-3, 3)


def constant(sigma: Activation) -> float:
    assert sigma.lipschitz is not None
    return sigma.lipschitz


def double(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@every
@settings(max_examples=100, deadline=None, derandomize=True)
@given(x=numbers, gap=st.floats(-5, 5) | st.floats(-1e-3, 1e-3))
def test_no_pair_of_points_violates_the_lipschitz_constant(sigma: Activation, x: float, gap: float) -> None:
    y = x + gap
    a, b = sigma(double(x, y)).tolist()
    # Slack: σ itself is computed to a few ulp of numbers of size 1 + |x|.
    assert abs(a - b) <= constant(sigma) * abs(x - y) + 1e-14 * (1 + abs(x) + abs(y))


@every
def test_the_lipschitz_constant_is_nearly_attained_and_never_passed(sigma: Activation) -> None:
    steepest = sigma.derivative(torch.arange(-40, 40, 1e-3, dtype=torch.float64)).abs().max().item()
    assert steepest <= constant(sigma) * (1 + 1e-14)  # a few ulp of autograd
    assert steepest >= constant(sigma) * (1 - 1e-6)  # a maximum lies within 5e-4 of the grid, curvature below 3


def test_constants_that_are_no_float_are_the_next_float_above() -> None:
    mp = pytest.importorskip("mpmath")
    with mp.workdps(50):

        def sigmoid(x: Any) -> Any:
            return 1 / (1 + mp.exp(-x))

        def silu_slope(x: Any) -> Any:
            return sigmoid(x) * (1 + x * (1 - sigmoid(x)))

        root2 = mp.sqrt(2)
        truth = {
            "gelu": mp.ncdf(root2) + root2 * mp.npdf(root2),
            "silu": silu_slope(mp.findroot(lambda x: mp.diff(silu_slope, x), 2.4)),
            "erf": 2 / mp.sqrt(mp.pi),
        }
        for name, exact in truth.items():
            bound = constant(ACTIVATIONS[name])
            assert mp.mpf(bound) >= exact > mp.mpf(math.nextafter(bound, 0)), name


def test_softplus_has_no_jump_where_the_library_one_switches_to_the_identity() -> None:
    below, above = activation("softplus")(double(20 - 1e-10, 20 + 1e-10)).tolist()
    assert above >= below


@every
def test_the_derivative_is_the_slope_away_from_kinks(sigma: Activation) -> None:
    x = torch.linspace(-6, 6, 997, dtype=torch.float64)
    x = x[torch.stack([(x - kink).abs() > 1e-3 for kink in (*sigma.kinks, 100.0)]).all(0)]
    h = 1e-5  # central differences: error h²|σ'''|/6 ≤ 1e-10 and rounding 1e-16/h = 1e-11 a unit of σ
    slope = (sigma(x + h) - sigma(x - h)) / (2 * h)
    torch.testing.assert_close(sigma.derivative(x), slope, rtol=0, atol=1e-9)


@every
def test_the_derivative_jumps_at_kinks_and_nowhere_else(sigma: Activation) -> None:
    grid = torch.arange(-6 - 5e-5, 6, 1e-4, dtype=torch.float64)  # straddles 0
    jumps = sigma.derivative(grid).diff().abs() > 0.01  # |σ''| ≤ 2 moves σ' by 2e-4 a cell
    middles = (grid[:-1] + 5e-5)[jumps]
    torch.testing.assert_close(middles, double(*sigma.kinks), rtol=0, atol=1e-6)


@every
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shape_and_dtype_are_kept_and_the_derivative_is_detached(sigma: Activation, dtype: torch.dtype) -> None:
    x = torch.randn(3, 4, dtype=dtype, generator=torch.Generator().manual_seed(0)).requires_grad_()
    value, slope = sigma(x), sigma.derivative(x)
    assert (value.shape, value.dtype, value.requires_grad) == (x.shape, dtype, True)
    assert (slope.shape, slope.dtype, slope.requires_grad) == (x.shape, dtype, False)
    assert x.grad is None


@every
def test_the_derivative_does_not_depend_on_the_gradient_mode(sigma: Activation) -> None:
    x = double(-1.5, 0.3, 2.0)
    expected = sigma.derivative(x)
    with torch.no_grad():
        assert torch.equal(sigma.derivative(x), expected)
    with torch.inference_mode():
        assert torch.equal(sigma.derivative(x * 1), expected)


def test_a_constant_has_derivative_zero() -> None:
    assert Activation("one", torch.ones_like).derivative(double(1, 2)).tolist() == [0, 0]


@every
def test_a_name_an_activation_and_the_exported_constant_are_one(sigma: Activation) -> None:
    assert activation(sigma.name) is sigma
    assert activation(sigma) is sigma
    assert getattr(activations, sigma.name.upper()) is sigma


@every
def test_activations_are_hashable_and_survive_a_pickle(sigma: Activation) -> None:
    assert pickle.loads(pickle.dumps(sigma)) == sigma
    assert copy.deepcopy(sigma) == sigma
    assert {sigma: 1}[activation(sigma.name)] == 1


def test_a_bare_callable_is_wrapped_without_a_lipschitz_constant() -> None:
    wrapped = activation(torch.cos)
    assert (wrapped.name, wrapped.lipschitz, wrapped.kinks) == ("cos", None, ())
    assert wrapped == activation(torch.cos)
    assert hash(wrapped) == hash(activation(torch.cos))
    assert wrapped != RELU
    assert activation(torch.nn.Tanh()).name == "Tanh"
    torch.testing.assert_close(wrapped.derivative(double(0.7)), -torch.sin(double(0.7)))


def test_an_unknown_name_is_answered_with_the_nearest_and_all_known_ones() -> None:
    with pytest.raises(UnknownNameError, match="'gleu'; did you mean 'gelu'") as caught:
        activation("gleu")
    assert all(name in str(caught.value) for name in ACTIVATIONS)
    with pytest.raises(UnknownNameError, match="did you mean 'relu'"):
        activation("ReLU6")
    with pytest.raises(UnknownNameError, match=r"got 'zzzz'$"):
        activation("zzzz")
    with pytest.raises(UnknownNameError, match="got 3"):
        activation(3)  # type: ignore[arg-type]


def test_what_is_not_elementwise_or_not_a_number_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"expected sum elementwise, shape \(2,\) in and out, got \(\) out"):
        activation(torch.sum)(double(1, 2))
    with pytest.raises(ShapeError, match="got ReLU out"):
        activation(torch.nn.ReLU)(double(1, 2))  # type: ignore[arg-type]  # the class, not an instance
    with pytest.raises(DTypeError, match="int64"):
        GELU.derivative(torch.tensor([1]))
    for bad in (-1.0, math.nan, math.inf):
        with pytest.raises(RangeError, match="expected lipschitz of f finite"):
            Activation("f", torch.sin, bad)
    with pytest.raises(RangeError, match="expected finite kinks"):
        Activation("f", torch.sin, 1.0, (math.nan,))
    assert Activation("f", torch.sin, 1.0, (2, -1)).kinks == (-1.0, 2.0)
