"""Trained models: their word sensitivity at texts of a corpus, and the first attention layer of an encoder (Fig. 1)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar

import torch

from oneword.checks import check_string
from oneword.errors import RangeError
from oneword.experiments import costs
from oneword.experiments.cell import Cell, choice, name_or_path, searched, several
from oneword.maps.outputs import OUTPUTS
from oneword.maps.transformer import TransformerFeatures
from oneword.random import stream
from oneword.search.frugal import FrugalAscent
from oneword.sets.vocabulary import Vocabulary
from oneword.text.context import Context, spread_positions
from oneword.text.corpora import Corpus
from oneword.text.encoders import Encoder
from oneword.words.models import ModelSubject
from oneword.words.random_words import sup_and_words

# The same for every length, so that an exponent is the model's and not the search's.
SEARCH = FrugalAscent(random=0, steps=8, keep=1, leading=2, polish=60)
_FLOPS = 3e10  # multiply-adds a second, twice, of a forward pass on one core
_BYTES_A_WEIGHT = 4


@dataclass(frozen=True, kw_only=True)
class TrainedCell(Cell):
    """S of a trained model at one text of n tokens, those that its tokenizer adds included.

    | field | meaning |
    |---|---|
    | `model` | as TransformerFeatures.load takes it |
    | `output`, `layer` | what is measured; the last layer unless given |
    | `random_init` | a seed: the same model with weights drawn anew |
    | `n`, `corpus` | the text: the first tokens of a text of the corpus |
    | `positions` | how many words may change, evenly spread; 0: all |
    | `real_words` | random words of the vocabulary tried at each of them |
    | `trial`, `seed`, `memory` | as in every cell |

    In the table `map` is the model's name, `value` the sup (searched), `upper` its ceiling (empty where none is known,
    and `certificate` says why), `real_mean` and `real_max` what random real words do on average and at most, `baseline`
    random changes of the sup's size.
    """

    kind: ClassVar[str] = "trained"

    model: str = "minilm"
    n: int
    output: str = "pooled"
    layer: int | None = None
    random_init: int | None = None
    corpus: str = "imdb-embedded"
    positions: int = 8
    real_words: int = 8
    trial: int = 0
    seed: int = 0
    memory: int = 1 << 30

    def __post_init__(self) -> None:
        choice("output", self.output, tuple(OUTPUTS))
        for name in ("model", "corpus"):
            name_or_path(name, getattr(self, name))
        self._set_whole(n=4, positions=0, real_words=1, trial=0, seed=0, memory=1 << 20)
        self._set_whole(**{name: 0 for name in ("layer", "random_init") if getattr(self, name) is not None})

    @property
    def title(self) -> str:
        return f"{self.model} ({self.output}) at n = {self.n}, trial {self.trial}"

    def inputs(self) -> dict[str, str]:
        phi = self._phi()
        phi.encoder.check_length(self.n)
        return {"model": phi.encoder.revision, "corpus": Corpus.load(self.corpus).fingerprint}

    def estimate_bytes(self) -> int:
        weights = sum(p.numel() for p in self._phi().model.parameters())
        return costs.BASE_BYTES + 2 * _BYTES_A_WEIGHT * weights + 2 * self.memory

    def estimate_cost(self) -> float:
        weights = sum(p.numel() for p in self._phi().model.parameters()) - self._phi().encoder.layer0.word.numel()
        spots = self.positions or self.n
        passes = (
            spots * (self.real_words + 2 + 3 * SEARCH.steps) + 6 * SEARCH.steps + 3 * SEARCH.leading * SEARCH.polish
        )
        return passes * 2 * weights * self.n / _FLOPS

    def rows(self) -> list[dict[str, Any]]:
        phi = self._phi()
        text, corpus = self._text(phi)
        probe = phi.at(text.X)
        seed = int(stream(self.seed, "search", self.trial, self.n).integers(1 << 62))
        found, random = sup_and_words(
            phi, probe, text, self._spots(text), Vocabulary.of(phi.encoder), self.real_words,
            search=replace(SEARCH, memory=self.memory), seed=seed,
        )  # fmt: skip
        words = [value for values in random.values() for value in values.values()]
        if not words:
            raise RangeError(f"expected words of one token among those that may change, got none in {self.title}")
        model = {"map": phi.name, "objective": ModelSubject(phi).what, "encoder": phi.encoder.name, "d": phi.encoder.d}
        source = {"words_from": "corpus", "corpus": corpus, "n": self.n, "trial": self.trial, "seed": self.seed}
        where = {"changed": 1, "positions": f"{self.positions} spread" if self.positions else "all"}
        real = {"real_mean": math.fsum(words) / len(words), "real_max": max(words)}
        return [model | source | where | searched(found) | real | {"baseline": found.per_word["baseline"].mean()}]

    def _phi(self) -> TransformerFeatures:
        return TransformerFeatures.load(self.model, output=self.output, layer=self.layer, random_init=self.random_init)

    def _text(self, phi: TransformerFeatures) -> tuple[Context, str]:
        """The text of the trial as the model's tokenizer would send it: with what it adds before and after."""
        encoder = phi.encoder
        tokens = _tokens(self.corpus, self.model)
        after = torch.tensor(encoder.around[1], dtype=torch.long)
        sample = tokens.sample(1, self.n - len(after), seed=self.seed, trial=self.trial)
        whole_text = replace(sample, ids=torch.cat([sample.ids[0], after])[None])
        text = whole_text.context(0, encoder, dtype=phi.dtype)
        special = (*text.special[: len(text.special) - len(after)], *(True for _ in after))
        return replace(text, special=special), tokens.corpus.name

    def _spots(self, text: Context) -> list[int]:
        own = [i for i, special in enumerate(text.special) if not special]
        return spread_positions(own, self.positions or len(own))


@lru_cache(maxsize=2)
def _tokens(corpus: str, model: str) -> Any:
    """Kept for the next cell of this process; the tokens do not depend on the weights."""
    return Corpus.load(corpus).tokens(TransformerFeatures.load(model).encoder)


@dataclass(frozen=True, kw_only=True)
class AttentionMapCell(Cell):
    """Attention from every token to every token of each sentence."""

    kind: ClassVar[str] = "attention_map"

    sentences: tuple[str, ...]
    encoder: str = "minilm"

    def __post_init__(self) -> None:
        self._set(sentences=tuple(several("sentences", self.sentences)))
        if not self.sentences:
            raise RangeError("expected sentences, got none: give at least one")
        for sentence in self.sentences:
            check_string(sentence)

    @property
    def title(self) -> str:
        return f"attention map of {self.encoder} for {len(self.sentences)} sentences"

    def estimate_bytes(self) -> int:
        return costs.BASE_BYTES

    def estimate_cost(self) -> float:
        return 1.0

    def rows(self) -> list[dict[str, Any]]:
        encoder = Encoder.load(self.encoder)
        out: list[dict[str, Any]] = []
        for index, text in enumerate(self.sentences):
            tokens, attention = encoder.first_attention(text)
            about = {"encoder": encoder.name, "sentence": index, "text": text}
            out += [
                about | {"from_token": one, "to_token": other, "from_index": i, "to_index": j, "weight": weight}
                for (i, one), weights in zip(enumerate(tokens), attention.mean(0).tolist(), strict=True)
                for (j, other), weight in zip(enumerate(tokens), weights, strict=True)
            ]
        return out
