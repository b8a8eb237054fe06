"""The new certificate is found, and no change beats it; other functions still have none."""

import torch

import oneword as ow

torch.manual_seed(0)
phi, X = torch.nn.Linear(6, 4).double(), ow.gaussian(5, 6, seed=1).X
for within, words in ((ow.Ball(), 1), (ow.Ball(0.3), 2), (ow.Sphere(), 1)):
    found = ow.sensitivity(phi, X, within=within, words=words)
    assert found.certificate == "operator norm", found.certificate
    assert found.upper_kind == "certificate"
    assert found.upper is not None
    assert found.value <= found.upper
    assert found.upper <= 1.1 * found.value or within == ow.Sphere(), (found.value, found.upper)
assert ow.sensitivity(torch.tanh, X).upper is None
