"""A tiny decoder with an attention sink: one token whose embedding is 1000 times as long as those of the others."""

from pathlib import Path

from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from tests.text.tiny_models import write_model

SINK = "I"


def write_sink_model(folder: Path, kind: str = "gpt2", *, layers: int = 3) -> None:
    """A random decoder with its head, in which the token of the word "I" is a sink until the last norm."""
    write_model(folder, kind, head=True, layers=layers, spread=0.1)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    (token,) = tokenizer.encode(SINK, add_special_tokens=False).ids
    stored = load_file(folder / "model.safetensors")
    weights = {name: part.clone() for name, part in stored.items()}  # the file is written over
    words = next(part for name, part in weights.items() if name.endswith(("wte.weight", "embed_tokens.weight")))
    words[token] *= 1000 * words.norm(dim=1).median() / words[token].norm()
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
