"""The verb `ow.compare`: run two texts through one model or map, and measure what differs.

One pair of texts is one change. Where they differ in a single word, how far the whole text moved is a lower bound on
its word sensitivity among real words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from oneword._version import versions
from oneword.checks import check_string, shown, whole_number
from oneword.comparison.answers import Answers, has_next_token, next_token
from oneword.comparison.changes import Pair, heads_table, layers_table, pair_words, row_norms, words_table
from oneword.comparison.result import Comparison
from oneword.errors import RangeError, UnknownNameError
from oneword.maps import registry
from oneword.maps.attention import AttentionFeatures
from oneword.maps.sinks import sinks_said
from oneword.maps.transformer import States, TransformerFeatures
from oneword.memory import check_memory
from oneword.text.context import Context
from oneword.text.encoders import Encoder


def compare(
    a: str,
    b: str,
    by: str | TransformerFeatures | AttentionFeatures = "minilm",
    *,
    encoder: Encoder | None = None,
    top: int = 5,
    seed: int = 0,
    dtype: torch.dtype | None = None,
) -> Comparison:
    """Run two texts through one model: how far each word and layer moved, and how attention changed.

    | argument | meaning |
    |---|---|
    | `a`, `b` | the texts; they may differ in one word or in many, and changes are relative to `a` |
    | `by` | a model: "minilm" (default, offline), a folder, a hub name or TransformerFeatures; or attention with random weights: "attention", "attention-relu", … or AttentionFeatures |
    | `encoder` | of attention with random weights: what turns words into vectors; the embedded one by default |
    | `top` | how many next tokens of a causal language model are kept |
    | `seed` | of the weights of a map that is named |
    | `dtype` | of what is named: float32 for a model, which may be in float16 or bfloat16 too, and float64 for a map |

    Returns a `Comparison`, which shows itself in a notebook and in a terminal. Raises TextError for a text without a
    word, UnknownNameError for an unknown name, RangeError for a map without attention or a text that is too long,
    MemoryLimitError where the attention matrices cannot fit.

        >>> import oneword as ow
        >>> found = ow.compare("I love her much", "I love her smile", by="attention")
        >>> found.most_moved["word_b"]
        'smile'
        >>> [round(change, 2) for change in found.layers["whole"]]
        [0.58, 0.57]
    """  # noqa: E501 (a table has one line an argument)
    for text in (a, b):
        check_string(text)
    if not (encoder is None or isinstance(encoder, Encoder)):
        raise UnknownNameError(f"expected encoder= an Encoder or None, got {shown(encoder)}: see Encoder.load")
    top = whole_number("top", top)
    if isinstance(by, TransformerFeatures):
        return _by_model(by, a, b, top)
    if isinstance(by, AttentionFeatures):
        return _by_attention(by, encoder or Encoder.load(), a, b)
    if not isinstance(by, str):
        raise UnknownNameError(
            f"expected by= a name, TransformerFeatures or AttentionFeatures, got {shown(by)}: give one of these"
        )
    if not registry.is_map(by):
        return _by_model(TransformerFeatures.load(by, dtype=dtype or torch.float32), a, b, top)
    reader = encoder or Encoder.load()
    phi = registry.draw(by, 1, reader.d, seed=seed, dtype=dtype)
    if not isinstance(phi, AttentionFeatures):
        raise RangeError(f"expected a model or a map with attention, got {by!r}: try 'attention' or 'minilm'")
    return _by_attention(phi, reader, a, b)


def _by_model(phi: TransformerFeatures, a: str, b: str, top: int) -> Comparison:
    """Both texts, one forward pass each."""
    texts = (phi.encode(a), phi.encode(b))
    # Kept in float64, once as the model gives it and once between words.
    needed = sum(16 * phi.layers * phi.heads * text.n**2 for text in texts)
    check_memory(needed, f"attention of {phi.layers} layers and {phi.heads} heads")
    with torch.no_grad():
        found = [phi.states(text.X, attention=True, logits=has_next_token(phi)) for text in texts]
    hidden, weights = [_array(each.hidden) for each in found], [_array(each.attention or ()) for each in found]
    return _compared((a, b), texts, hidden, weights, describe_model(phi), _answers(phi, found, top))


def _by_attention(phi: AttentionFeatures, encoder: Encoder, a: str, b: str) -> Comparison:
    """Both texts through attention with random weights: layer 0 is the words as it reads them, layer 1 its features."""
    texts = (encoder.encode(a, dtype=phi.W.dtype), encoder.encode(b, dtype=phi.W.dtype))
    probes = [phi.at(text.X) for text in texts]
    hidden = [_array((probe.X, probe.O)) for probe in probes]
    weights = [_array((probe.P[None],)) for probe in probes]
    model, dtype = f"{phi.describe()['score']} attention, random weights", str(phi.W.dtype).removeprefix("torch.")
    about = {"model": model, "layers": 1, "heads": 1, "dtype": dtype, "encoder": encoder.name}
    return _compared((a, b), texts, hidden, weights, about)


def _compared(
    given: tuple[str, str],
    texts: tuple[Context, Context],
    hidden: Sequence[np.ndarray],
    weights: Sequence[np.ndarray],
    about: dict[str, Any],
    answers: Answers | None = None,
) -> Comparison:
    pairs = pair_words(*texts)
    heads = heads_table(texts, pairs, weights)
    moved = words_table(texts, pairs, hidden, causal=about.get("causal", False))
    attention = heads.groupby("layer")["change"].mean().rename("attention")
    return Comparison(
        given=given,
        texts=texts,
        pairs=pairs,
        moved=moved,
        layers=layers_table(texts, pairs, hidden, moved).merge(attention, on="layer", how="left"),
        heads=heads,
        weights=(weights[0], weights[1]),
        answers=answers,
        about={**about, "tokens": [text.n for text in texts]},
        notes=tuple(_notes(texts, pairs, hidden)),
    )


def _array(layers: Sequence[Tensor]) -> np.ndarray:
    return torch.stack(tuple(layers)).double().cpu().numpy()


def _answers(phi: TransformerFeatures, found: Sequence[States], top: int) -> Answers | None:
    a, b = (None if each.logits is None else next_token(each.logits) for each in found)
    return None if a is None or b is None else Answers.of(a, b, phi.encoder.tokenizer, top)


def describe_model(phi: TransformerFeatures) -> dict[str, Any]:
    """The model, its version, precision and device: what a result records."""
    said = phi.describe()
    return {
        **{name: said[name] for name in ("model", "revision", "architecture", "layers", "causal")},
        "heads": phi.heads,
        "dtype": str(phi.dtype).removeprefix("torch."),
        "device": str(phi.device),
        "versions": versions("torch", "transformers", "tokenizers", "numpy"),
    }


def _notes(texts: tuple[Context, Context], pairs: Sequence[Pair], hidden: Sequence[np.ndarray]) -> Iterator[str]:
    """What a reader has to know to interpret the numbers."""
    sinks = sinks_said(texts, row_norms(hidden))
    if sinks:
        yield (
            f"attention sinks, whose rows outweigh all others in whole and pooled: {sinks}; "
            "median and most count every word alike"
        )
    a, b = texts
    differing = sum(pair.how != "equal" for pair in pairs)
    if differing > 1:
        yield f"the texts differ in {differing} words: what moved cannot be laid to one of them"
    if a.n != b.n:
        yield (
            f"the texts have {a.n} and {b.n} tokens: the whole text is compared over the words that have a counterpart"
        )
    moved = [p for p in pairs if p.a is not None and p.b is not None and a.rows[p.a][0] != b.rows[p.b][0]]
    if moved:
        yield (
            f"{len(moved)} words stand at another place in the second text: they may move for that alone, wherever "
            "positions are part of the embedding from layer 0 on"
        )
