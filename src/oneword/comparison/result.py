"""The result of a comparison: its tables, files, and how it is displayed."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from oneword.checks import shortened
from oneword.comparison.answers import Answers
from oneword.comparison.changes import Pair, between_words, pairs_table
from oneword.errors import RangeError
from oneword.report.table import to_records
from oneword.text.context import Context
from oneword.validation import read_schema

if TYPE_CHECKING:
    from rich.console import RenderableType

FORMAT = "oneword.compare/2"
MOST_WORDS = 32  # up to here the tables hold the attention of every layer, above only that which was asked for


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """The result of `ow.compare`: two texts under one model.

    Layers are counted as hidden states are, 0 the embeddings; heads from 0.

    | field | one row is | columns |
    |---|---|---|
    | `moved` | a layer and pair of words | distance ‖h_b − h_a‖, norm_a, norm_b, change, cosine; h: mean over tokens; can_move, sink |
    | `layers` | a layer | whole: change of all rows; median, most: of words; pooled: of their mean; cosine; sinks; attention: mean of `heads` |
    | `heads` | a layer and head | change: mean over words of the total variation of attention; most, and where |

    Words of a causal model before the first difference cannot move; `median` and `most` leave them out. An attention
    sink is a token whose norm is more than 10 times the median of its layer: `whole` and `pooled` are mostly its own.

    `given` are the two texts, `texts` and `pairs` say which words they have. `weights` are the attention matrices
    between tokens (layers, heads, n, n), first layer first. `answers` is None unless the model is a causal language
    model.

        >>> import oneword as ow
        >>> found = ow.compare("a good film", "a bad film", by="attention")
        >>> [(pair.a, pair.b, pair.how) for pair in found.pairs if pair.how != "equal"]
        [(2, 2, 'replace')]
        >>> found.attention(layer=1).groupby(["text", "from"])["weight"].sum().round(6).unique().tolist()
        [1.0]
    """  # noqa: E501 (a table has one line a field)

    given: tuple[str, str]
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
        """The same among words that both texts have and that can move: how far the change moved other words.

        None where there is no such word: the texts share none, or a causal model reads all of them before the change.
        """
        kept = self.moved[(self.moved["how"] == "equal") & ~self.moved["special"] & self.moved["can_move"]]
        return _largest(kept) if len(kept) else None

    def attention(self, layer: int = 1, head: int | None = None) -> pd.DataFrame:
        """Attention from word to word in each text: one layer, one head or (None) the mean over heads.

        A word receives what all its tokens receive, and pays what they pay on average: every word pays 1 in all.
        """
        check_head(layer, head, *self.weights[0].shape[:2])
        parts = []
        for name, text, weights in zip("ab", self.texts, self.weights, strict=True):
            chosen = weights[layer - 1].mean(0) if head is None else weights[layer - 1, head]
            words, count = np.array(text.words, dtype=object), len(text.words)
            source, target = np.divmod(np.arange(count**2), count)
            weight = between_words(chosen, text.rows).ravel()
            ends = {"from": source, "to": target, "from_word": words[source], "to_word": words[target]}
            parts.append(pd.DataFrame({"text": name, "layer": layer, "head": head, **ends, "weight": weight}))
        return pd.concat(parts, ignore_index=True).astype({"head": "Int64"})

    def tables(self, layer: int = 1, head: int | None = None) -> dict[str, pd.DataFrame]:
        """All tables by name: attention of this layer and head and, for short texts, the mean of every layer."""
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

    def to_pandas(self) -> pd.DataFrame:
        """A copy of `moved`: one row per layer and pair of words."""
        return self.moved.copy()

    def to_dict(self, layer: int = 1, head: int | None = None) -> dict[str, Any]:
        """Everything but `weights`, ready for JSON; each table is a list of rows, which pandas.DataFrame accepts."""
        rows = {name: to_records(table) for name, table in self.tables(layer, head).items()}
        return {"format": FORMAT, "about": self.about, "notes": list(self.notes), "texts": list(self.given), **rows}

    @staticmethod
    def schema() -> dict[str, Any]:
        """The JSON Schema of `to_dict` and of the JSON that the command writes."""
        return read_schema("oneword.comparison")

    def save_html(
        self, path: str | os.PathLike[str], *, layer: int = 1, head: int | None = None, command: str = ""
    ) -> Path:
        """Write a page that needs no network and no script; it opens with the attention of `layer` and `head`.

        `command` is shown as the command that made it. Raises MissingExtraError without the extra `page`, RangeError
        for a layer or head that does not exist, FileFormatError if `path` cannot be written.
        """
        from oneword.report.comparison_page import render

        tables = self.tables(layer, head)
        return render(self.given, tables, self.about, self.notes, Path(path), layer=layer, head=head, command=command)

    def __repr__(self) -> str:
        whole = self.layers["whole"].iloc[-1]
        a, b = (shortened(text) for text in self.given)
        return f"Comparison({a!r} → {b!r}, {self.about['model']}: the whole text moved by {whole:.3f})"

    def __rich__(self) -> RenderableType:
        from oneword.report.comparison import CompareView

        return CompareView(self.tables(), self.about, self.notes)

    def _repr_html_(self) -> str:
        from oneword.report.comparison import notebook

        return notebook(self.given, self.tables(), self.about)


def check_head(layer: int, head: int | None, layers: int, heads: int) -> None:
    """Raise RangeError unless a model with so many layers and heads has this one; None is the mean over heads."""
    if not 1 <= layer <= layers:
        raise RangeError(f"expected layer 1 … {layers}, got {layer}: layers of attention are counted from 1")
    if head is not None and not 0 <= head < heads:
        raise RangeError(f"expected head 0 … {heads - 1}, got {head}: heads are counted from 0")


def _largest(moved: pd.DataFrame) -> dict[str, Any]:
    """The row with the largest change; the first one among equals."""
    line = moved.sort_values("change", ascending=False, kind="stable").head(1).to_dict("records")[0]
    return {str(name): value for name, value in line.items()}
