"""The first attention layer of a trained encoder on a few sentences, averaged over heads (Fig. 1 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from oneword.checks import check_string
from oneword.errors import RangeError
from oneword.experiments import estimates
from oneword.experiments.cell import Cell, several
from oneword.text.encoders import Encoder


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
        return estimates.BASE_BYTES

    def estimate_cost(self) -> float:
        return 1.0

    def rows(self) -> list[dict[str, Any]]:
        encoder = Encoder.load(self.encoder)
        out: list[dict[str, Any]] = []
        for index, text in enumerate(self.sentences):
            tokens, attention = encoder.first_attention(text)
            weights = attention.mean(0).tolist()
            out += [
                {
                    "encoder": encoder.name,
                    "sentence": index,
                    "text": text,
                    "from_token": tokens[i],
                    "to_token": tokens[j],
                    "from_index": i,
                    "to_index": j,
                    "weight": weights[i][j],
                }
                for i in range(len(tokens))
                for j in range(len(tokens))
            ]
        return out
