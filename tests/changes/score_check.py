"""The new score works in the library, the command, sweeps, figures and the app."""

import json

import torch
from typer.testing import CliRunner

import oneword as ow
from oneword.app.subjects import Subjects
from oneword.cli.main import app
from oneword.report.looks import maps_in

NAME = "attention-squared-relu"

text = ow.gaussian(5, 8, seed=0)
phi = ow.AttentionFeatures.draw(8, score="squared-relu", seed=0)
weights = phi.scores(text.X).clamp_min(0) ** 2
torch.testing.assert_close(phi(text.X), weights @ text.X)
found = ow.sensitivity(NAME, text, search="quick")
changed = text.X.clone()
changed[found.rows[0]] += found.delta
again = (phi(changed) - phi(text.X)).norm() / phi(text.X).norm()
torch.testing.assert_close(float(again), found.value, rtol=1e-9, atol=0)
assert found.certificate.startswith("no certificate"), found.certificate  # until somebody proves one

run = CliRunner().invoke(app, ["measure", "I love her", "--map", NAME, "--effort", "quick", "--json", "-"])
assert run.exit_code == 0, run.output
assert {line["by"] for line in json.loads(run.stdout)["words"]} == {NAME}

table = ow.sweep(maps=[NAME, "attention"], n=[3, 4], d=4, trials=1, search="quick")
assert set(table["map"]) == {NAME, "attention"}
assert "squared ReLU-RAF" in [look.name for look, _ in maps_in(table)]
assert ("Squared ReLU attention", NAME) in Subjects(models=()).choices
