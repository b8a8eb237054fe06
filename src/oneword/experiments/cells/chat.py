"""Two prompts that differ in one word, sent to a chat model (Fig. 1 of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from oneword.chat.prompts import Prompt, given_prompts
from oneword.chat.verb import TOKENS, ask
from oneword.experiments import costs
from oneword.experiments.cell import Cell, name_or_path
from oneword.maps.transformer import TransformerFeatures
from oneword.text.sources import embedded_model

_BYTES = 2_000_000_000  # a model of 135 million weights, and what unpacks it
_SECONDS = 30.0  # of which unpacking it for the first time takes most


@dataclass(frozen=True, kw_only=True)
class ChatCell(Cell):
    """Both answers of a chat model, and the log-odds of two sets of given answers.

    | field | meaning |
    |---|---|
    | `user`, `system`, `words`, `answers` | as in `Prompt` |
    | `model` | as TransformerFeatures.load takes it |
    | `tokens` | how long an answer may be |

    In the table `map` is the model's name, `sentence` 0 for the first word and 1 for the second, `text` what was sent,
    `answer` what came back, `value` the log-odds (exact).
    """

    kind: ClassVar[str] = "chat"

    user: str
    words: tuple[str, ...]
    answers: tuple[tuple[str, ...], ...] = ()
    system: str = ""
    model: str = "smollm2"
    tokens: int = TOKENS

    def __post_init__(self) -> None:
        prompt = self._prompt()
        self._set(words=prompt.words, answers=prompt.answers, model=name_or_path("model", self.model))
        self._set_whole(tokens=1)

    @property
    def title(self) -> str:
        return f"answers of {self.model} to {self._prompt().title!r}"

    @property
    def missing(self) -> str:
        """The command that installs the model; empty if it is there, or not one that pip installs."""
        known = embedded_model(self.model)
        return "" if known is None or known.installed else known.install

    def inputs(self) -> dict[str, str]:
        return {"model": TransformerFeatures.load(self.model).encoder.revision}

    def estimate_bytes(self) -> int:
        return costs.BASE_BYTES + _BYTES

    def estimate_cost(self) -> float:
        return _SECONDS

    def rows(self) -> list[dict[str, Any]]:
        found = ask(self._prompt(), TransformerFeatures.load(self.model), tokens=self.tokens)
        (line,) = found.tables["prompts"].to_dict("records")
        return [
            {"map": found.about["model"], "sentence": index, "text": line[f"sent_{side}"], "word": line[f"word_{side}"]}
            | {"answer": line[f"answer_{side}"], "value": line[f"log_odds_{side}"]}
            for index, side in enumerate("ab")
        ]

    def _prompt(self) -> Prompt:
        given = {"user": self.user, "system": self.system, "words": self.words, "answers": self.answers}
        (prompt,) = given_prompts(given)
        return prompt
