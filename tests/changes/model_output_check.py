"""The norms of the words of a layer are an output of every model: in Python, in the command, in its help and errors."""

import json
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[2]))
import oneword as ow
from oneword.cli.main import app
from oneword.errors import UnknownNameError
from tests.text.tiny_models import write_model

TEXT = "I love this film, and I love her much."

with tempfile.TemporaryDirectory() as folder:
    write_model(Path(folder) / "tiny", "bert", layers=2)
    name = f"{folder}/tiny"
    phi = ow.TransformerFeatures.load(name, output="norms", layer=1)
    X = phi.encode(TEXT).X
    assert torch.equal(phi(X), phi.select(output="hidden")(X).norm(dim=-1))
    found = ow.sensitivity(phi, X, search="quick", positions=[1])
    assert found.value > 0
    assert found.upper is None
    assert phi.describe()["output"] == "norms"

    def ran(*arguments: str) -> str:
        """What the command prints."""
        return CliRunner().invoke(app, ["measure", *arguments]).output

    assert "norms" in ran("--help")
    shown = ran(TEXT, "--model", name, "--output", "norms", "--effort", "quick", "--json", "-")
    assert "norms" in json.dumps(json.loads(shown[shown.index("{") :]))
    with pytest.raises(UnknownNameError, match="attention, norms, got 'norm'"):
        phi.select(output="norm")
