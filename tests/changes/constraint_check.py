"""The new set works in the library and in the command."""

import itertools
import json
import math

import torch
from typer.testing import CliRunner

import oneword as ow
from oneword.cli.main import app
from oneword.sets.constraints import SETS, constraint

D = 6
box = constraint("box", 0.5, D)
assert "box" in SETS
A = torch.randn(4, D, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
X = ow.gaussian(4, D, seed=1).X


def phi(X: torch.Tensor) -> torch.Tensor:
    return X.mean(-2) @ A.mT


found = ow.sensitivity(phi, X, within=box)
corners = torch.tensor(list(itertools.product((-0.5, 0.5), repeat=D)), dtype=X.dtype)
exact = float((corners @ A.mT / len(X)).norm(dim=1).max() / phi(X).norm())
assert math.isclose(found.value, exact, rel_tol=1e-9), (found.value, exact)
assert float(found.delta.abs().max()) <= 0.5 * (1 + 1e-12)
attention = ow.sensitivity("attention", X, within=box, search="quick")
assert attention.upper is not None
assert attention.value <= attention.upper

command = ["measure", "I love her", "--map", "attention", "--within", "box:0.5", "--effort", "quick", "--json", "-"]
run = CliRunner().invoke(app, command)
assert run.exit_code == 0, run.output
assert "in each coordinate" in json.dumps(json.loads(run.stdout), ensure_ascii=False), run.stdout[-2000:]
