"""A small encoder, the embedded one, and a cache of the tests' own."""

from collections.abc import Callable
from pathlib import Path

import pytest

from oneword.text.encoders import Encoder
from oneword.text.sources import MINILM
from tests.text.tiny_bert import write_tiny


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test sees, or leaves anything in, the cache of whoever runs it."""
    folder = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("ONEWORD_CACHE", str(folder))
    return folder


@pytest.fixture
def make_tiny(tmp_path: Path) -> Callable[..., Path]:
    return lambda name="tiny", weights=None, **changes: write_tiny(tmp_path / name, weights, **changes)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    return Encoder.load(str(write_tiny(tmp_path_factory.mktemp("models") / "tiny")))


@pytest.fixture(scope="session")
def minilm() -> Encoder:
    if MINILM.version is None:
        pytest.skip("needs oneword[embedded]")
    return Encoder.load("minilm")
