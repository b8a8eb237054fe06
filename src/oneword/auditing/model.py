"""What an audit needs of a model: one vector a text, and what its tokenizer makes of a text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float

from oneword.errors import NonFiniteError, ShapeError, ZeroNormError
from oneword.maps.transformer import TransformerFeatures

Vectors = Float[np.ndarray, "texts p"]


class Model(Protocol):
    """Anything with these: an encoder of one's own as well."""

    @property
    def name(self) -> str: ...

    @property
    def longest(self) -> int:
        """Tokens that a text may have."""

    def tokens(self, text: str) -> tuple[int, ...]:
        """What the model sees of a text, special tokens included: texts with equal tokens have equal vectors."""

    def vectors(self, texts: Sequence[str]) -> Vectors:
        """One row a text, in float64."""

    def describe(self) -> dict[str, Any]:
        """Where it comes from."""


@dataclass(frozen=True, eq=False)
class EncoderModel:
    """A transformer that makes one vector of a text."""

    features: TransformerFeatures

    @classmethod
    def load(cls, name: str, **options: Any) -> EncoderModel:
        """As TransformerFeatures.load takes it, the pooled output by default."""
        return cls(TransformerFeatures.load(name, **{"output": "pooled", **options}))

    @property
    def name(self) -> str:
        return self.features.name

    @property
    def longest(self) -> int:
        return self.features.encoder.longest

    def tokens(self, text: str) -> tuple[int, ...]:
        return tuple(self.features.encoder.tokenizer.encode(text).ids)

    def vectors(self, texts: Sequence[str]) -> Vectors:
        return self.features.vectors(texts).double().cpu().numpy()

    def describe(self) -> dict[str, Any]:
        return dict(self.features.describe())


def checked_vectors(model: Model, texts: Sequence[str]) -> Vectors:
    """The vectors of these texts, finite and none of them zero: else a relative change is not defined."""
    found = np.asarray(model.vectors(texts), dtype=np.float64)
    if found.ndim != 2 or len(found) != len(texts):
        raise ShapeError(f"expected one vector for each of {len(texts)} texts, got {found.shape} from {model.name}")
    bad = int((~np.isfinite(found).all(axis=1)).sum())
    if bad:
        raise NonFiniteError(f"expected finite vectors, got {bad} of {len(texts)} that are not from {model.name}")
    zero = int((np.linalg.norm(found, axis=1) == 0).sum())
    if zero:
        raise ZeroNormError(
            f"expected vectors that are not zero, got {zero} of {len(texts)} from {model.name}: a relative change is "
            "not defined; choose another output"
        )
    return found
