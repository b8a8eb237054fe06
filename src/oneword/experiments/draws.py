"""What a trial consists of: its text, its labelled texts and the weights of its maps, all from (seed, trial, n, d).

Maps of the same trial see the same text, and depths of the same trial the same weights; trials, lengths and
dimensions are independent of each other. But for texts of a corpus, which (seed, n, trial) choose: every d sees the
same review, cut to its first d coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float, Int
from torch import Tensor

from oneword.errors import RangeError
from oneword.experiments.cell import Cell, TextCell
from oneword.maps import registry
from oneword.maps.base import FeatureMap
from oneword.maps.random import DeepRandomFeatures
from oneword.random import stream
from oneword.text.context import Context, clustered, gaussian
from oneword.text.corpora import Corpus
from oneword.text.encoders import Encoder
from oneword.text.samples import TokenisedCorpus

Inputs = dict[str, str]

_SYNTHETIC: dict[str, Callable[..., Context]] = {"gaussian": gaussian, "clustered": clustered}


def trial_seed(cell: TextCell, purpose: str, *more: int) -> int:
    """A seed of its own for each purpose within a trial."""
    return int(stream(cell.seed, purpose, cell.trial, cell.n, cell.d, *more).integers(1 << 62))


@dataclass(frozen=True, eq=False)
class Drawn:
    """The text of a trial; for words from a corpus with its encoder."""

    text: Context
    encoder: Encoder | None = None
    corpus: str | None = None

    def names(self) -> dict[str, str | None]:
        """The columns that name the encoder and the corpus, as they call themselves."""
        return {"encoder": None if self.encoder is None else self.encoder.name, "corpus": self.corpus}

    def real_words(self, count: int, position: int, seed: int) -> Float[Tensor, "count d"]:
        """Random words of the vocabulary as they would be embedded at that position."""
        assert self.encoder is not None
        words = self.encoder.whole_words
        chosen = words[torch.from_numpy(stream(seed, "words", position).integers(len(words), size=count))]
        return self.encoder.embed(chosen, d=self.text.d, positions=torch.tensor(position))


def draw_text(cell: TextCell) -> Drawn:
    """The text of the trial, each token a word."""
    if cell.words_from != "corpus":
        return Drawn(_SYNTHETIC[cell.words_from](cell.n, cell.d, seed=trial_seed(cell, "text")))
    tokens, encoder = _tokens(cell.corpus, cell.encoder)
    sample = tokens.sample(1, cell.n, seed=cell.seed, trial=cell.trial)
    return Drawn(sample.context(0, encoder, d=cell.d), encoder, tokens.corpus.name)


@dataclass(frozen=True, eq=False)
class Labelled:
    """Labelled texts of a trial; `dropped` counts texts of the corpus left out because they coincide with another."""

    X: Float[Tensor, "texts n d"]
    labels: Int[Tensor, " texts"]
    dropped: int
    names: dict[str, str]


def draw_labelled(cell: TextCell, count: int) -> Labelled:
    """`count` texts with labels ±1 in turn; synthetic ones have labels that mean nothing."""
    if cell.words_from != "corpus":
        draw = _SYNTHETIC[cell.words_from]
        X = torch.stack([draw(cell.n, cell.d, seed=trial_seed(cell, "text", j)).X for j in range(count)])
        return Labelled(X, 1 - 2 * (torch.arange(count) % 2), 0, {})
    tokens, encoder = _tokens(cell.corpus, cell.encoder)
    sample = tokens.sample(count, cell.n, seed=cell.seed, trial=cell.trial)
    if sample.labels is None:
        raise RangeError(f"expected a corpus with labels, got {tokens.corpus.name}, which has none: choose another")
    names = {"encoder": encoder.name, "corpus": tokens.corpus.name}
    return Labelled(encoder.embed(sample.ids, d=cell.d), sample.labels, sample.dropped, names)


def draw_maps(cell: TextCell) -> Iterator[tuple[int | None, FeatureMap]]:
    """The map of the trial; for drf one for each depth, with that depth."""
    seed = trial_seed(cell, "map")
    if cell.own is not None:
        yield None, cell.own.draw(cell.n, cell.d, seed)
        return
    name = f"{cell.map}-{max(cell.depths)}" if cell.depths else cell.map
    deepest = registry.draw(name, cell.n, cell.d, k=cell.k, activation=cell.activation, seed=seed)
    if not cell.depths:
        yield None, deepest
        return
    assert isinstance(deepest, DeepRandomFeatures)
    for depth in cell.depths:
        yield depth, deepest.truncated(depth)


def prepare(cells: Iterable[Cell]) -> dict[str, Inputs]:
    """Load, download and tokenise once what cells will read, and refuse sizes that an encoder does not have.

    Returns for each key what its inputs are, so that a file that has changed since is noticed.
    """
    _tokens.cache_clear()  # a file may have changed since
    return {cell.key: inputs_of(cell) for cell in cells}


def inputs_of(cell: Cell) -> Inputs:
    """Fingerprints of what the cell reads: its encoder and its corpus, or what it names itself."""
    if (own := cell.inputs()) is not None:
        return own
    encoder_name = getattr(cell, "encoder", None)
    if encoder_name is None:
        return {}
    if not isinstance(cell, TextCell):
        return {"encoder": Encoder.load(encoder_name).revision}
    tokens, encoder = _tokens(cell.corpus, cell.encoder)
    encoder.check_length(cell.n)
    if cell.d > encoder.d:
        raise RangeError(f"expected d up to {encoder.d}, the width of {encoder.name}, got {cell.d}: choose a smaller d")
    return {"encoder": encoder.revision, "corpus": tokens.corpus.fingerprint}


@lru_cache(maxsize=4)
def _tokens(corpus: str | None, encoder: str | None) -> tuple[TokenisedCorpus, Encoder]:
    """Kept for the next cell of this process."""
    assert corpus is not None
    assert encoder is not None
    loaded = Encoder.load(encoder)
    return Corpus.load(corpus).tokens(loaded), loaded
