"""The maps and models that the page offers; each model is loaded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from threading import Lock

import torch

from oneword.maps import registry
from oneword.maps.attention import AttentionFeatures
from oneword.maps.transformer import TransformerFeatures
from oneword.sets.vocabulary import Vocabulary
from oneword.text.encoders import Encoder
from oneword.text.sources import embedded_model
from oneword.words.maps import MapSubject
from oneword.words.models import ModelSubject

MAPS = {name: registry.title(name) for name in registry.in_app()}  # what the page calls them
TWIN = "twin of "  # before the name of a model: the same with random weights
_LOADING = Lock()  # one for all: drawing weights anew uses torch's own random numbers


@dataclass(eq=False)
class Subjects:
    """The maps, and these models; a model is read when it is first asked for, or by `load`.

    `later` are embedded models that are offered, too, and that `load` leaves until somebody asks for them. `apart`
    keeps models in memory of their own, for a second thread that works at the same time.
    """

    models: Sequence[str] = ("minilm",)
    twins: bool = True
    apart: bool = False
    later: Sequence[str] = ()
    _loaded: dict[str, TransformerFeatures] = field(default_factory=dict, repr=False)

    @cached_property
    def encoder(self) -> Encoder:
        """Of the words that the maps see."""
        return Encoder.load("minilm")

    @cache  # noqa: B019  there is one for as long as the page is served
    def words(self, key: str) -> Vocabulary:
        """The real words to try, as this map or model reads them."""
        return Vocabulary.of(self.model(key).encoder if self.is_model(key) else self.encoder)

    @property
    def choices(self) -> list[tuple[str, str]]:
        """For a list on the page: what a person reads, and the key."""
        names = [*self.models, *(TWIN + name for name in self.models if self.twins), *self.later]
        return [*((title, key) for key, title in MAPS.items()), *((self.title(name), name) for name in names)]

    def title(self, key: str) -> str:
        if key in MAPS:
            return MAPS[key]
        trained = key.removeprefix(TWIN)
        short = [name.rstrip("/").rpartition("/")[2] for name in self.models]
        embedded = embedded_model(trained)
        name = trained.rstrip("/").rpartition("/")[2] if embedded is None else embedded.title
        name = trained if short.count(name) > 1 else name
        return f"{name}, {'trained' if key == trained else 'random weights'}"

    def subject(self, key: str) -> MapSubject | ModelSubject:
        """What `measure` takes."""
        return ModelSubject(self.model(key), key, self.title(key)) if self.is_model(key) else MapSubject.named(key)

    def is_model(self, key: str) -> bool:
        return key not in MAPS

    def model(self, key: str) -> TransformerFeatures:
        """The pooled vector of a model, or of its twin."""
        with _LOADING:
            if key not in self._loaded:
                seed = 0 if key.startswith(TWIN) else None
                phi = TransformerFeatures.load(key.removeprefix(TWIN), output="pooled", random_init=seed)
                self._loaded[key] = phi.apart() if self.apart else phi
            return self._loaded[key]

    def attention(self, key: str) -> AttentionFeatures:
        """Attention with random weights, as `measure` draws the map of this name."""
        phi = registry.draw(key, 1, self.encoder.d, dtype=torch.float32)
        assert isinstance(phi, AttentionFeatures)
        return phi

    @property
    def deepest(self) -> int:
        """The number of layers of the deepest model."""
        depths = [known.layers for name in self.later if (known := embedded_model(name)) is not None]
        return max(*(self.model(name).layers for name in self.models), *depths, 1)

    def load(self) -> None:
        """Read what a visitor will ask for first, so that nobody waits for it."""
        for name in self.models:
            self.model(name)
            if not self.apart:  # where only texts are compared, no words are tried
                self.words(name)
