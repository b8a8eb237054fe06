"""A BERT-type encoder small enough to be made by hand: its tokenizer, weights and folder."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from oneword.text.sources import MINILM, REVIEWS

WORDS = ["good", "bad", "film", "the", "a", "not", "un", "##happ", "##y", "##ly", "happ", ",", "!"]
VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", *WORDS]
WIDTH, HEADS, LONGEST = 8, 2, 24

needs_minilm = pytest.mark.skipif(MINILM.version is None, reason="needs oneword[embedded]")
needs_reviews = pytest.mark.skipif(REVIEWS.version is None, reason="needs oneword[embedded]")


def tiny_tokenizer() -> Tokenizer:
    """WordPiece that truncates and pads to 6, as published ones do to 128."""
    tokenizer = Tokenizer(models.WordPiece({word: i for i, word in enumerate(VOCABULARY)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(VOCABULARY[:5])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_truncation(6)
    tokenizer.enable_padding(length=6)
    return tokenizer


def tiny_weights(prefix: str = "", *, old: bool = False) -> dict[str, torch.Tensor]:
    """Random weights under the names that checkpoints use, or used."""
    draw = torch.Generator().manual_seed(0)
    gain, shift = ("gamma", "beta") if old else ("weight", "bias")
    shapes = {
        "embeddings.word_embeddings.weight": (len(VOCABULARY), WIDTH),
        "embeddings.position_embeddings.weight": (LONGEST, WIDTH),
        "embeddings.token_type_embeddings.weight": (2, WIDTH),
        f"embeddings.LayerNorm.{gain}": (WIDTH,),
        f"embeddings.LayerNorm.{shift}": (WIDTH,),
        "encoder.layer.0.attention.self.query.weight": (WIDTH, WIDTH),
        "encoder.layer.0.attention.self.query.bias": (WIDTH,),
        "encoder.layer.0.attention.self.key.weight": (WIDTH, WIDTH),
        "encoder.layer.0.attention.self.key.bias": (WIDTH,),
    }
    return {prefix + name: torch.randn(shape, generator=draw) for name, shape in shapes.items()}


def write_tiny(folder: Path, weights: dict[str, torch.Tensor] | None = None, **changes: object) -> Path:
    """The folder of a model: config.json, tokenizer.json, model.safetensors."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "model_type": "bert",
        "hidden_size": WIDTH,
        "num_attention_heads": HEADS,
        "num_hidden_layers": 1,
        "intermediate_size": 16,
        "max_position_embeddings": LONGEST,
        "vocab_size": len(VOCABULARY),
        "layer_norm_eps": 1e-6,
        "pad_token_id": 0,
    }
    (folder / "config.json").write_text(json.dumps(config | changes))
    tiny_tokenizer().save(str(folder / "tokenizer.json"))
    save_file(tiny_weights() if weights is None else weights, folder / "model.safetensors")
    return folder
