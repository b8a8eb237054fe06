"""Two texts through one model: how far each word and each layer moved, and where attention went instead.

One pair of texts is one change. Where they differ in a single word, how far the whole text moved is a lower bound on
its word sensitivity among real words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from oneword._version import versions
from oneword.comparison.alignment import Pair, pair_words
from oneword.comparison.answers import Answers, next_token, speaks
from oneword.comparison.attention import between_words
from oneword.comparison.changes import heads_table, layers_table, pairs_table, words_table
from oneword.errors import RangeError
from oneword.maps.attention import AttentionFeatures
from oneword.maps.transformer import States, TransformerFeatures
from oneword.memory import check_memory
from oneword.text.context import Context
from oneword.text.encoders import Encoder

MOST_WORDS = 32  # up to here the tables hold the attention of every layer, above only that which was asked for


@dataclass(frozen=True, eq=False)
class Comparison:
    """What was found; layers are counted as hidden states are, 0 the embeddings, heads from 0.

    | field | one line is | columns |
    |---|---|---|
    | `moved` | a layer and pair of words | distance ‖h_b − h_a‖, norm_a, norm_b, change, cosine; h: mean over tokens |
    | `layers` | a layer | whole: change of all rows; pooled: of their mean; cosine; attention: mean of `heads` |
    | `heads` | a layer and head | change: mean over words of the total variation of attention; most, and where |

    `texts` and `pairs` say which words these are, `weights` are the attention matrices between tokens (layers, heads,
    n, n), first layer first. `answers` is None unless the model is a causal language model.
    """

    texts: tuple[Context, Context]
    pairs: tuple[Pair, ...]
    moved: pd.DataFrame
    layers: pd.DataFrame
    heads: pd.DataFrame
    weights: tuple[Float[np.ndarray, "layers heads n n"], Float[np.ndarray, "layers heads m m"]]
    answers: Answers | None
    about: dict[str, Any]
    notes: tuple[str, ...]

    @property
    def most_moved(self) -> dict[str, Any]:
        """The layer and pair of words that moved most."""
        return _largest(self.moved)

    @property
    def most_moved_kept(self) -> dict[str, Any] | None:
        """The same among words that both texts have: how far others were moved by what changed."""
        kept = self.moved[(self.moved["how"] == "equal") & ~self.moved["special"]]
        return _largest(kept) if len(kept) else None

    def attention(self, layer: int = 1, head: int | None = None) -> pd.DataFrame:
        """Attention from word to word in each text: one layer, one head or (None) the mean over heads.

        A word receives what all its tokens receive, and pays what they pay on average: every word pays 1 in all.
        """
        count, heads = self.weights[0].shape[:2]
        if not 1 <= layer <= count:
            raise RangeError(f"expected layer 1 … {count}, got {layer}: layers of attention are counted from 1")
        if head is not None and not 0 <= head < heads:
            raise RangeError(f"expected head 0 … {heads - 1}, got {head}: heads are counted from 0")
        parts = []
        for name, text, weights in zip("ab", self.texts, self.weights, strict=True):
            chosen = weights[layer - 1].mean(0) if head is None else weights[layer - 1, head]
            words, count = np.array(text.words, dtype=object), len(text.words)
            source, target = np.divmod(np.arange(count**2), count)
            parts.append(
                pd.DataFrame(
                    {
                        "text": name,
                        "layer": layer,
                        "head": head,
                        "from": source,
                        "to": target,
                        "from_word": words[source],
                        "to_word": words[target],
                        "weight": between_words(chosen, text.rows).ravel(),
                    }
                )
            )
        return pd.concat(parts, ignore_index=True).astype({"head": "Int64"})

    def tables(self, layer: int = 1, head: int | None = None) -> dict[str, pd.DataFrame]:
        """Everything as tables, with the attention that is asked for and, of short texts, every layer's mean."""
        others = [each for each in range(1, len(self.weights[0]) + 1) if each != layer or head is not None]
        short = max(len(text.words) for text in self.texts) <= MOST_WORDS
        maps = [self.attention(layer, head), *(self.attention(each) for each in others if short)]
        found = {
            "pairs": pairs_table(self.texts, self.pairs),
            "moved": self.moved,
            "layers": self.layers,
            "heads": self.heads,
            "attention": pd.concat(maps, ignore_index=True),
        }
        if self.answers is not None:
            found["answers"] = self.answers.top
            found["divergence"] = pd.DataFrame([asdict(self.answers.divergence) | {"flips": self.answers.flips}])
        return found


def compare(phi: TransformerFeatures, a: str, b: str, *, top: int = 5) -> Comparison:
    """Both texts, one forward pass each; `top` is how many answers of a causal language model are kept."""
    texts = (phi.encode(a), phi.encode(b))
    # Kept in float64, once as the model gives it and once between words.
    needed = sum(16 * phi.layers * phi.heads * text.n**2 for text in texts)
    check_memory(needed, f"attention of {phi.layers} layers and {phi.heads} heads")
    with torch.no_grad():
        found = [phi.states(text.X, attention=True, logits=speaks(phi)) for text in texts]
    hidden, weights = [_array(each.hidden) for each in found], [_array(each.attention or ()) for each in found]
    about = {**describe_model(phi), "tokens": [text.n for text in texts]}
    return _compared(texts, hidden, weights, about, _answers(phi, found, top))


def compare_attention(phi: AttentionFeatures, encoder: Encoder, a: str, b: str) -> Comparison:
    """Both texts through attention with random weights: layer 0 is the words as it reads them, layer 1 its features."""
    texts = (encoder.encode(a, dtype=phi.W.dtype), encoder.encode(b, dtype=phi.W.dtype))
    probes = [phi.at(text.X) for text in texts]
    hidden = [_array((probe.X, probe.O)) for probe in probes]
    weights = [_array((probe.P[None],)) for probe in probes]
    score = phi.describe()["score"]
    about = {
        "model": f"{score} attention, random weights",
        "layers": 1,
        "heads": 1,
        "dtype": str(phi.W.dtype).removeprefix("torch."),
        "encoder": encoder.name,
        "tokens": [text.n for text in texts],
    }
    return _compared(texts, hidden, weights, about)


def _compared(
    texts: tuple[Context, Context],
    hidden: Sequence[np.ndarray],
    weights: Sequence[np.ndarray],
    about: dict[str, Any],
    answers: Answers | None = None,
) -> Comparison:
    pairs = pair_words(*texts)
    heads = heads_table(texts, pairs, weights)
    attention = heads.groupby("layer")["change"].mean().rename("attention")
    return Comparison(
        texts=texts,
        pairs=pairs,
        moved=words_table(texts, pairs, hidden),
        layers=layers_table(texts, pairs, hidden).merge(attention, on="layer", how="left"),
        heads=heads,
        weights=(weights[0], weights[1]),
        answers=answers,
        about=about,
        notes=tuple(_notes(texts, pairs)),
    )


def _array(layers: Sequence[Tensor]) -> np.ndarray:
    return torch.stack(tuple(layers)).double().cpu().numpy()


def _answers(phi: TransformerFeatures, found: Sequence[States], top: int) -> Answers | None:
    a, b = (None if each.logits is None else next_token(each.logits) for each in found)
    return None if a is None or b is None else Answers.of(a, b, phi.encoder.tokenizer, top)


def _largest(moved: pd.DataFrame) -> dict[str, Any]:
    """The line with the largest change; the first of equals."""
    line = moved.sort_values("change", ascending=False, kind="stable").head(1).to_dict("records")[0]
    return {str(name): value for name, value in line.items()}


def describe_model(phi: TransformerFeatures) -> dict[str, Any]:
    """What a result must say about the model and what it ran on."""
    said = phi.describe()
    return {
        **{name: said[name] for name in ("model", "revision", "architecture", "layers", "causal")},
        "heads": phi.heads,
        "dtype": str(phi.dtype).removeprefix("torch."),
        "device": str(phi.device),
        "versions": versions("torch", "transformers", "tokenizers", "numpy"),
    }


def _notes(texts: tuple[Context, Context], pairs: Sequence[Pair]) -> Iterator[str]:
    """What a reader must know about these two texts."""
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
