"""Which tensors make up layer 0, for each family of models: a table, read from safetensors directly.

| family | layer 0 |
|---|---|
| BERT, RoBERTa, ELECTRA | LayerNorm(word + position + type 0); ELECTRA then widens it by a linear projection |
| DistilBERT, MPNet | LayerNorm(word + position) |
| GPT-2 | word + position |
| Llama | word; positions enter later, as rotations |

Another model with one of these layouts is one more line of `FAMILIES`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from oneword.checks import printable, shortened, shown
from oneword.errors import FileFormatError
from oneword.text.layer0 import Layer0, Norm, Projection
from oneword.text.model_folder import ModelFolder

Layer = Literal[0, "bare", "input"]
NO_LIMIT = 2**31 - 1  # tokens of a text, where no table of positions sets a limit


@dataclass(frozen=True)
class Family:
    """The names of the tensors of layer 0 (without .weight), and of the settings in config.json.

    | field | meaning |
    |---|---|
    | `prefix` | before every name, in checkpoints with a head |
    | `word`, `position`, `kind`, `norm`, `projection` | tensors; None where the family has none |
    | `eps` | of the LayerNorm: a setting of config.json with its default |
    | `width`, `heads`, `positions` | settings: the width of the layers, their heads, the longest text |
    | `after_padding` | the first position is the one after the id of the padding token |
    | `query`, `key` | of the first attention layer; only where its scores are QKᵀ/√width and nothing is masked |
    | `distances` | what is added to these scores, a table of one line per distance of two words; or None |
    """

    prefix: str
    word: str = "embeddings.word_embeddings"
    position: str | None = "embeddings.position_embeddings"
    kind: str | None = "embeddings.token_type_embeddings"
    norm: str | None = "embeddings.LayerNorm"
    projection: str | None = None
    eps: tuple[str, float] = ("layer_norm_eps", 1e-12)
    width: str = "hidden_size"
    heads: str = "num_attention_heads"
    positions: str = "max_position_embeddings"
    after_padding: bool = False
    query: str | None = "encoder.layer.0.attention.self.query"
    key: str | None = "encoder.layer.0.attention.self.key"
    distances: str | None = None

    @property
    def prefixes(self) -> tuple[str, ...]:
        return ("", self.prefix)


_BERT = Family("bert.")
_ROBERTA = replace(_BERT, prefix="roberta.", after_padding=True)
_GPT2 = Family("transformer.", word="wte", position="wpe", kind=None, norm=None, query=None, key=None)
_LLAMA = replace(_GPT2, prefix="model.", word="embed_tokens", position=None)
FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "bert": _BERT,
        "roberta": _ROBERTA,
        "xlm-roberta": _ROBERTA,
        "camembert": _ROBERTA,
        "distilbert": Family(
            "distilbert.",
            kind=None,
            width="dim",
            heads="n_heads",
            query="transformer.layer.0.attention.q_lin",
            key="transformer.layer.0.attention.k_lin",
        ),
        "mpnet": Family(
            "mpnet.",
            kind=None,
            after_padding=True,
            query="encoder.layer.0.attention.attn.q",
            key="encoder.layer.0.attention.attn.k",
            distances="encoder.relative_attention_bias",
        ),
        "electra": replace(_BERT, prefix="electra.", projection="embeddings_project"),
        "gpt2": replace(_GPT2, width="n_embd", heads="n_head", positions="n_positions"),
        "llama": _LLAMA,
        "mistral": _LLAMA,
        "qwen2": _LLAMA,
        "qwen3": _LLAMA,
    }
)


@dataclass(frozen=True, eq=False)
class FirstAttention:
    """The queries and keys of the first layer of a BERT-type encoder, read when they are needed."""

    folder: ModelFolder
    family: Family
    heads: int

    def weights(self, X: Float[Tensor, "t width"]) -> Float[Tensor, "heads t t"]:
        """How much attention each token (row) pays to each (column)."""
        query, key = (
            F.linear(X, *(self._tensor(f"{part}.{which}") for which in ("weight", "bias")))
            .unflatten(1, (self.heads, -1))
            .transpose(0, 1)
            for part in (self.family.query, self.family.key)
        )
        scores = query @ key.mT / math.sqrt(query.shape[-1])
        if self.family.distances is not None:
            table = self._tensor(f"{self.family.distances}.weight")  # (distances, heads)
            scores = scores + table[distance_lines(len(X), len(table))].permute(2, 0, 1)
        return torch.softmax(scores, dim=-1)

    def _tensor(self, name: str) -> Tensor:
        return self.folder.tensor(name, self.family.prefixes).double()


def distance_lines(n: int, lines: int, furthest: int = 128) -> Int[Tensor, "n n"]:
    """Which line of a table of so many is for the distance from word i to word j, as in T5 (1910.10683) and MPNet.

    Half of the lines are for words to the left, half for those to the right; of each half, half are for the distances
    0, 1, 2, … and the others for ranges that grow exponentially up to `furthest`.
    """
    places = torch.arange(n)
    offset = places - places[:, None]  # to the right
    half, distance = lines // 2, offset.abs()
    exact = half // 2
    # In float32, where a range ends exactly at a distance, as in the models.
    far = (distance.clamp_min(1).float() / exact).log() / math.log(furthest / exact) * (half - exact)
    line = torch.where(distance < exact, distance, (exact + far.long()).clamp(max=half - 1))
    return line + half * (offset > 0)


def read_layer0(folder: ModelFolder, layer: Layer) -> tuple[Layer0, int, int, FirstAttention | None]:
    """Layer 0 of the model in a folder; its bare word embeddings for layer="bare".

    With it come how many tokens a text may have, the padding token, and the first attention layer where it is known.
    Raises FileFormatError for a family that is not in `FAMILIES`, and where tensors or settings do not fit together.
    """
    kind, places = folder.config.get("model_type"), folder.config.get("position_embedding_type", "absolute")
    family = FAMILIES.get(kind) if isinstance(kind, str) else None
    if family is None or places != "absolute":
        kind, places = (shortened(printable(str(each))) for each in (kind, places))
        raise FileFormatError(
            f"expected a model of type {', '.join(FAMILIES)} with absolute positions, got {kind} with {places} ones "
            f"in {folder.name}: choose another model, or give its rows as an array"
        )
    width, heads = folder.size(family.width), folder.size(family.heads)
    if family.query is not None and width % heads:
        wanted = f"{family.heads} that divides {family.width} = {width}"
        raise FileFormatError(f"expected {wanted} in config.json of {folder.name}, got {heads}")
    word = _tensor(folder, family, family.word, None, None if family.projection or layer == "bare" else width)
    pad = _padding(folder, family, len(word))
    if layer == "bare":
        return Layer0(word), NO_LIMIT, pad, None
    found = _layer0(folder, family, word, width, pad)
    longest = folder.size(family.positions) if found.places is None else len(found.places)
    attention = None if family.query is None else FirstAttention(folder, family, heads)
    return found, longest, pad, attention


def _layer0(folder: ModelFolder, family: Family, word: Tensor, width: int, pad: int) -> Layer0:
    def tensor(name: str, *shape: int | None, part: str = "weight") -> Tensor:
        return _tensor(folder, family, name, *shape, part=part).double()

    inner = int(word.shape[1])
    places = norm = projection = None
    if family.position is not None:
        places = tensor(family.position, None, inner)[pad + 1 if family.after_padding else 0 :]
        if not len(places):
            wanted = f"positions after that of pad_token_id = {pad}"
            raise FileFormatError(f"expected {wanted} in config.json of {folder.name}, got none")
        if family.kind is not None:
            places = places + tensor(family.kind, None, inner)[0]  # type 0, the only one used
    if family.norm is not None:
        gain, shift = (tensor(family.norm, inner, part=part) for part in ("weight", "bias"))
        eps = folder.setting(*family.eps)
        if eps < 0:
            raise FileFormatError(f"expected {family.eps[0]} of at least 0 in config.json of {folder.name}, got {eps}")
        norm = Norm(gain, shift, eps)
    if family.projection is not None and inner != width:  # where the widths agree there is none
        weight, bias = tensor(family.projection, width, inner), tensor(family.projection, width, part="bias")
        projection = Projection(weight, bias)
    return Layer0(word, places, norm, projection)


def _tensor(folder: ModelFolder, family: Family, name: str, *shape: int | None, part: str = "weight") -> Tensor:
    """A tensor of this shape, where None is any size but 0."""
    found = folder.tensor(f"{name}.{part}", family.prefixes)
    fits = found.ndim == len(shape) and all(
        got > 0 if size is None else got == size for got, size in zip(found.shape, shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("any" if size is None else str(size) for size in shape)
        shape_said = f"shape ({wanted}) as config.json and the other weights say"
        raise FileFormatError(f"expected {name}.{part} of {shape_said}, got {tuple(found.shape)} in {folder.name}")
    return found


def _padding(folder: ModelFolder, family: Family, vocabulary: int) -> int:
    """The id of the padding token; models without one are padded with what ends a text."""
    pad, end = (folder.config.get(f"{which}_token_id") for which in ("pad", "eos"))
    if pad == -1 and family.position is None:  # so early Llama files say that there is none
        pad = None
    if pad is not None and (isinstance(pad, bool) or not isinstance(pad, int) or not 0 <= pad < vocabulary):
        wanted = f"pad_token_id from 0 to {vocabulary - 1}, a token"
        raise FileFormatError(f"expected {wanted}, in config.json of {folder.name}, got {shown(pad)}")
    given = (i for i in (pad, end) if isinstance(i, int) and 0 <= i < vocabulary)
    return next(given, 1 if family.after_padding else 0)
