"""Tiny models of both kinds: one that reads both ways, two that speak."""

from pathlib import Path

import pytest

from oneword.maps.transformer import TransformerFeatures
from tests.text.tiny_models import write_model


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TransformerFeatures]:
    """By family: bert (no next token), gpt2 and llama (with their heads), and gpt2 that lost its head."""
    folder = tmp_path_factory.mktemp("models")
    found = {}
    for name, kind, head in (
        ("bert", "bert", False),
        ("gpt2", "gpt2", True),
        ("llama", "llama", True),
        ("headless", "gpt2", False),
    ):
        write_model(folder / name, kind, head=head)
        found[name] = TransformerFeatures.load(str(folder / name))
    return found


@pytest.fixture(scope="session")
def gpt2_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "gpt2"
    write_model(folder, "gpt2", head=True)
    return folder
