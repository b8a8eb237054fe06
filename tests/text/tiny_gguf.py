"""A small Llama in a GGUF file, written as llama.cpp writes one, with weights in any quantisation."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.text.tiny_models import byte_level

WIDTH, HEADS, LAYERS, INNER = 64, 2, 2, 96
TEMPLATE = "{% for m in messages %}<s>{{ m['role'] }}: {{ m['content'] }}</s>{% endfor %}"


def write_gguf(path: Path, quantisation: str = "Q8_0", *, seed: int = 0, **values: Any) -> None:
    """Matrices in the quantisation, norms in F32; `values` are added to the table of values."""
    gguf = pytest.importorskip("gguf")
    kind = gguf.GGMLQuantizationType[quantisation]
    writer, rng = gguf.GGUFWriter(path, "llama"), np.random.default_rng(seed)
    tokenizer = byte_level()
    words = [*sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().__getitem__), "<|endoftext|>"]
    writer.add_name("tiny")
    writer.add_context_length(128)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(len(words))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(words)
    writer.add_token_types([3 if word.startswith("<") and word.endswith(">") else 1 for word in words])
    writer.add_token_merges(merges(tokenizer))
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(2)
    writer.add_chat_template(TEMPLATE)
    for key, value in values.items():
        writer.add_string(key, value)
    shapes = {"token_embd": (len(words), WIDTH), "output_norm": (WIDTH,)}
    for k in range(LAYERS):
        shapes |= {f"blk.{k}.{norm}": (WIDTH,) for norm in ("attn_norm", "ffn_norm")}
        shapes |= {f"blk.{k}.{part}": (WIDTH, WIDTH) for part in ("attn_q", "attn_output")}
        shapes |= {f"blk.{k}.{part}": (WIDTH // HEADS, WIDTH) for part in ("attn_k", "attn_v")}
        shapes |= {f"blk.{k}.{part}": (INNER, WIDTH) for part in ("ffn_gate", "ffn_up")}
        shapes[f"blk.{k}.ffn_down"] = (WIDTH, INNER)
    for name, shape in shapes.items():
        weights = rng.standard_normal(shape).astype(np.float32) / 4 + (len(shape) == 1)
        if len(shape) == 1 or quantisation == "F32":
            writer.add_tensor(f"{name}.weight", weights)
        else:
            writer.add_tensor(f"{name}.weight", gguf.quantize(weights, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def merges(tokenizer: Any) -> list[str]:
    return [" ".join(pair) for pair in json.loads(tokenizer.to_str())["model"]["merges"]]
