"""The outputs of a trained model that can be measured. Each one is declared here, once, and without torch.

`TransformerFeatures` reads an output as its declaration says; commands, errors and reports take names and words from
here. To add one, add it to `OUTPUTS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

Source = Literal["hidden", "attention", "logits"]
POOLINGS = ("mean", "cls", "last", "max")  # how the vectors of all words become one
AS_THE_MODEL_POOLS = "as the model pools"


@dataclass(frozen=True)
class Output:
    """One output of a model: φ(X) = reduce(source).

    | field | meaning |
    |---|---|
    | `name` | what a person types |
    | `title` | the name in a sentence |
    | `about` | what it is, for help |
    | `source` | "hidden": the states of a layer, (…, n, width); "attention": of a layer, (…, heads, n, n); "logits" |
    | `reduce` | how the source becomes φ(X): not at all (None), by a pooling, `AS_THE_MODEL_POOLS`, or by a function |
    | `plural` | whether the title is a plural |
    | `one_vector` | whether φ(X) has the same size for texts of every length |
    | `unit_rows` | whether φ(X) has one row a word, of norm 1 at most, so that no row can move by more than 2 |

    Ceilings are known for every output but those with a function, unless this has `unit_rows`.
    """

    name: str
    title: str
    about: str
    source: Source = "hidden"
    reduce: str | Callable[[Any], Any] | None = None
    plural: bool = False
    one_vector: bool = False
    unit_rows: bool = False

    @property
    def first_layer(self) -> int:
        """Layer 0 is the embeddings, which have no attention."""
        return 1 if self.source == "attention" else 0

    @property
    def has_layers(self) -> bool:
        """Whether there is one for each layer."""
        return self.source != "logits"

    @property
    def has_heads(self) -> bool:
        """Whether one attention head can be chosen."""
        return self.source == "attention"

    @property
    def pooled(self) -> bool:
        """Whether it is a pooling of hidden states, so one vector of a text."""
        return self.source == "hidden" and isinstance(self.reduce, str)

    @property
    def pronouns(self) -> tuple[str, str]:
        """Whose length a change is relative to, and what a word moves: ("its", "it") or ("their", "them")."""
        return ("their", "them") if self.plural else ("its", "it")


def directions(rows: Any) -> Any:
    """Rows u_j of norm 1: h_j / ‖h_j‖, and 0 where h_j is 0.

    S² is then the mean over words of ‖u_j' − u_j‖² = 2 − 2 cos(h_j, h_j'): every word counts alike, and attention sinks
    hide nothing. Lengths are lost, as they are to the blocks of decoders, which normalise what they read. Norms of the
    clean text in the denominators would keep them, but φ would not be a function of X alone, and a row of small norm
    could count for more than all others. Differentiable wherever no row is 0.
    """
    return rows / rows.norm(dim=-1, keepdim=True).clamp_min(_SMALLEST)


_SMALLEST = 1e-15  # no row of a model is that short; squares of shorter ones would vanish in float32

OUTPUTS: Mapping[str, Output] = MappingProxyType(
    {
        each.name: each
        for each in (
            Output("hidden", "the hidden states", "the vectors of all words", plural=True),
            Output(
                "rows", "the rows of norm 1", "the same, each of norm 1", reduce=directions, plural=True, unit_rows=True
            ),
            Output("pooled", "the pooled vector", AS_THE_MODEL_POOLS, reduce=AS_THE_MODEL_POOLS, one_vector=True),
            Output("cls", "the vector of the first token", "that of the first token", reduce="cls", one_vector=True),
            Output("logits", "the logits", "those of its head", source="logits", plural=True, one_vector=True),
            Output("attention", "the attention", "of all heads of a layer", source="attention"),
        )
    }
)


def listed(chosen: Callable[[Output], bool] = lambda output: True, *, joined: str = "or") -> str:
    """The names of the outputs of which `chosen` is true (default: all), for a message: "pooled, cls or logits"."""
    *some, last = [name for name, output in OUTPUTS.items() if chosen(output)]
    return f"{', '.join(some)} {joined} {last}" if some else last


def explained(chosen: Callable[[Output], bool] = lambda output: True) -> str:
    """The same with what they are, for the help of a command: "pooled (as the model pools), cls (…)"."""
    return ", ".join(f"{name} ({output.about})" for name, output in OUTPUTS.items() if chosen(output))


def spoken(name: str) -> tuple[str, str, str]:
    """An output in a sentence: "the logits", "their", "them"; any other name is taken as it is."""
    found = OUTPUTS.get(name)
    return (name, "its", "it") if found is None else (found.title, *found.pronouns)
