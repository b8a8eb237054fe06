"""A map may write into the tensor it is given: the caller's array and every later result stay as they are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import oneword as ow
from oneword.maps.base import FeatureMap, ModuleFeatures


class Own(FeatureMap):
    """A map of one's own, by subclassing."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, X: Tensor) -> Tensor:
        return self.function(X)

    def describe(self):
        return {"map": "Own"}


PAIRS = {
    "relu_": (lambda X: X.relu_(), torch.relu),
    "mul_": (lambda X: X.mul_(2).tanh(), lambda X: (X * 2).tanh()),
    "module": (nn.Sequential(nn.ReLU(inplace=True), nn.Tanh()), nn.Sequential(nn.ReLU(), nn.Tanh())),
    "first row": (lambda X: X[..., :1, :].add_(1).sin(), lambda X: (X[..., :1, :] + 1).sin()),
}
WRAPPED = {
    "plain": lambda f: f,
    "batched": lambda f: ModuleFeatures(f, batched=True),
    "subclass": Own,
}


@pytest.mark.parametrize("wrapped", WRAPPED.values(), ids=WRAPPED)
@pytest.mark.parametrize(("inside", "outside"), PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("array", [True, False], ids=["numpy", "torch"])
def test_a_map_that_writes_into_its_input_measures_as_one_that_does_not(inside, outside, wrapped, array):
    X = ow.gaussian(5, 4, seed=0).X
    given = X.numpy().copy() if array else X.clone()
    found = ow.sensitivity(wrapped(inside), given)
    truth = ow.sensitivity(wrapped(outside), X)
    assert np.array_equal(np.asarray(given), X.numpy())
    assert found.value == truth.value
    assert torch.equal(found.delta, truth.delta)
    again = ow.sensitivity(wrapped(inside), given)
    assert again.per_word.equals(found.per_word)


def test_the_features_of_a_text_leave_the_text_alone():
    X = ow.gaussian(5, 4, seed=0).X
    before = X.clone()
    for batched in (True, False):
        ModuleFeatures(lambda X: X.relu_(), batched=batched)(X)
        ModuleFeatures(lambda X: X.relu_(), batched=batched)(X[None].expand(2, 5, 4))
    assert torch.equal(X, before)
