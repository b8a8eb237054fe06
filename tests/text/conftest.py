"""A small encoder, and the embedded one."""

from collections.abc import Callable
from pathlib import Path

import pytest

from oneword.text.encoders import Encoder
from oneword.text.sources import MINILM
from tests.text.tiny_bert import write_tiny


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
