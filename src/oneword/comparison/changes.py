"""Match the words of two texts, and tabulate how far words, layers and heads moved between them.

The change of a representation h is relative, ‖h_b − h_a‖ / ‖h_a‖, as in the definition of word sensitivity. Attention
between words: how much attention a word pays to each word, and how that differs between the texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float

from oneword.maps.sinks import word_sinks
from oneword.text.context import Context

How = Literal["equal", "replace", "delete", "insert"]
Key = tuple[bool, str]  # a special token is no word that is spelled like one
Rows = Sequence[tuple[int, ...]]
Texts = tuple[Context, Context]
Hidden = Sequence[Float[np.ndarray, "layers n width"]]  # of each text
Weights = Sequence[Float[np.ndarray, "layers heads n n"]]


@dataclass(frozen=True)
class Pair:
    """Word `a` of the first text beside word `b` of the second; None where one of them has no counterpart."""

    a: int | None
    b: int | None
    how: How

    def swapped(self) -> Pair:
        """The same, seen from the other text."""
        other: dict[How, How] = {"delete": "insert", "insert": "delete"}
        return replace(self, a=self.b, b=self.a, how=other.get(self.how, self.how))


def pair_words(a: Context, b: Context) -> tuple[Pair, ...]:
    """Every word of both texts once, in their order; case counts, special tokens match each other.

    Where several words take the place of several others, they are paired off from the first; what is left has no
    counterpart.
    """
    first, second = (list(zip(text.special, text.words, strict=True)) for text in (a, b))
    if first <= second:
        return _matched(first, second)
    # difflib prefers the first text where matches are equally long: the texts in one order, whichever was given first.
    return tuple(pair.swapped() for pair in _matched(second, first))


def _matched(a: Sequence[Key], b: Sequence[Key]) -> tuple[Pair, ...]:
    pairs: list[Pair] = []
    for tag, a0, a1, b0, b1 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        both = min(a1 - a0, b1 - b0)
        pairs += [Pair(a0 + k, b0 + k, "equal" if tag == "equal" else "replace") for k in range(both)]
        pairs += [Pair(i, None, "delete") for i in range(a0 + both, a1)]
        pairs += [Pair(None, j, "insert") for j in range(b0 + both, b1)]
    return tuple(pairs)


# Attention ------------------------------------------------------------------------------------------------------------


def between_words(weights: Float[np.ndarray, "*heads n n"], rows: Rows) -> Float[np.ndarray, "*heads w w"]:
    """Attention from word to word: a word receives what all its tokens receive, and pays what they pay on average."""
    received = np.stack([weights[..., list(word)].sum(-1) for word in rows], axis=-1)
    return np.stack([received[..., list(word), :].mean(-2) for word in rows], axis=-2)


def distances(
    a: Float[np.ndarray, "*heads w w"], b: Float[np.ndarray, "*heads v v"], pairs: Sequence[Pair]
) -> Float[np.ndarray, "*heads pairs"]:
    """Total variation distance between what the two words of each pair pay; NaN where a word has no counterpart.

    Each pays 1 in all, to the words of its own text. The words of a pair are one place; a word without counterpart is a
    place to which the other text pays nothing.
    """
    apart = np.abs(_placed(a, [pair.a for pair in pairs]) - _placed(b, [pair.b for pair in pairs])).sum(-1) / 2
    apart[..., [pair.a is None or pair.b is None for pair in pairs]] = np.nan
    return apart


def _placed(weights: Float[np.ndarray, "*heads w w"], places: Sequence[int | None]) -> Float[np.ndarray, "*heads p p"]:
    """The same weights place by place; 0 for a place that this text does not have."""
    known = np.array([k for k, place in enumerate(places) if place is not None])
    words = np.array([place for place in places if place is not None])
    out = np.zeros((*weights.shape[:-2], len(places), len(places)))
    out[..., known[:, None], known] = weights[..., words[:, None], words]
    return out


# Tables ---------------------------------------------------------------------------------------------------------------


def pairs_table(texts: Texts, pairs: Sequence[Pair]) -> pd.DataFrame:
    """The words of both texts beside each other: one row per pair; a missing word is None."""
    return pd.DataFrame([_line(texts, k, pair) for k, pair in enumerate(pairs)]).astype({"a": "Int64", "b": "Int64"})


def words_table(texts: Texts, pairs: Sequence[Pair], hidden: Hidden, *, causal: bool = False) -> pd.DataFrame:
    """One row per layer and pair of words; the representation of a word is the mean over its tokens.

    `can_move` is false for the words of a `causal` model before the first difference, which do not see it; `sink` says
    whether the word is an attention sink there, in one of the texts.
    """
    both, a, b = _beside(texts, pairs, hidden)
    about = pd.DataFrame([_line(texts, k, pairs[k]) for k in both])[["pair", "word_a", "word_b", "how", "special"]]
    table = pd.concat([about] * len(a), ignore_index=True)
    table.insert(0, "layer", np.repeat(np.arange(len(a)), len(both)))
    first = next((k for k, pair in enumerate(pairs) if pair.how != "equal"), 0) if causal else 0
    in_a, in_b = (word_sinks(text, norms) for text, norms in zip(texts, row_norms(hidden), strict=True))
    sinks = np.stack([in_a[:, pairs[k].a or 0] | in_b[:, pairs[k].b or 0] for k in both], axis=1)
    table = table.assign(can_move=table["pair"] >= first, sink=sinks.ravel())
    return table.assign(**{name: values.ravel() for name, values in _changes(a, b, axis=-1).items()})


def row_norms(hidden: Hidden) -> list[Float[np.ndarray, "layers n"]]:
    """The norm of every token of each text after every layer."""
    return [np.sqrt((states**2).sum(-1)) for states in hidden]


def layers_table(texts: Texts, pairs: Sequence[Pair], hidden: Hidden, moved: pd.DataFrame) -> pd.DataFrame:
    """One row per layer: `whole` is the change of all rows, or of all words that have a counterpart, as `over` says.

    `median` and `most` are those of the changes of words in `moved`, each relative to its own norm: special tokens and
    words that cannot move are left out. `sinks` counts the attention sinks.
    """
    over = "rows" if texts[0].n == texts[1].n else "aligned words"
    a, b = hidden if over == "rows" else _beside(texts, pairs, hidden)[1:]
    whole, pooled = _changes(a, b, axis=(-2, -1)), _changes(hidden[0].mean(1), hidden[1].mean(1), axis=-1)
    layers = np.arange(len(a))
    words = moved[moved["can_move"] & ~moved["special"]].groupby("layer")["change"]
    of_words = {"median": words.median().reindex(layers).to_numpy(), "most": words.max().reindex(layers).to_numpy()}
    of_mean = {"pooled": pooled["change"], "cosine": pooled["cosine"]}
    sinks = {"sinks": moved.groupby("layer")["sink"].sum().to_numpy()}
    return pd.DataFrame({"layer": layers, "whole": whole["change"], "over": over, **of_words, **of_mean, **sinks})


def heads_table(texts: Texts, pairs: Sequence[Pair], weights: Weights) -> pd.DataFrame:
    """One row per layer and head: mean over words of the total variation of attention, and the word of the largest."""
    lines: list[dict[str, Any]] = []
    for layer, (a, b) in enumerate(zip(*weights, strict=True), 1):
        apart = distances(between_words(a, texts[0].rows), between_words(b, texts[1].rows), pairs)
        for head, of_words in enumerate(apart):
            first = int(np.nanargmax(of_words))
            word = _line(texts, first, pairs[first])
            most = {"most": of_words[first], "word_a": word["word_a"], "word_b": word["word_b"]}
            lines.append({"layer": layer, "head": head, "change": float(np.nanmean(of_words)), **most})
    return pd.DataFrame(lines)


def _line(texts: Texts, number: int, pair: Pair) -> dict[str, Any]:
    a, b = texts
    word_a = None if pair.a is None else a.words[pair.a]
    word_b = None if pair.b is None else b.words[pair.b]
    special = (pair.a is not None and a.special[pair.a]) or (pair.b is not None and b.special[pair.b])
    about = {"pair": number, "a": pair.a, "b": pair.b, "word_a": word_a, "word_b": word_b, "how": pair.how}
    return about | {"special": special}


def _beside(
    texts: Texts, pairs: Sequence[Pair], hidden: Hidden
) -> tuple[list[int], Float[np.ndarray, "layers both width"], Float[np.ndarray, "layers both width"]]:
    """The pairs that have both words, and the representation of each word at every layer."""
    both = [k for k, pair in enumerate(pairs) if pair.a is not None and pair.b is not None]
    sides = [[pairs[k].a for k in both], [pairs[k].b for k in both]]
    a, b = (
        np.stack([states[:, list(text.rows[i or 0])].mean(1) for i in side], axis=1)
        for text, states, side in zip(texts, hidden, sides, strict=True)
    )
    return both, a, b


def _changes(a: np.ndarray, b: np.ndarray, axis: int | tuple[int, int]) -> dict[str, np.ndarray]:
    """Distance, norms, relative change and cosine along the axes; NaN where a norm is 0."""
    norm_a, norm_b, distance = (np.sqrt((x**2).sum(axis)) for x in (a, b, b - a))
    with np.errstate(divide="ignore", invalid="ignore"):
        change = np.where(norm_a > 0, distance / norm_a, np.nan)
        cosine = np.where((norm_a > 0) & (norm_b > 0), (a * b).sum(axis) / (norm_a * norm_b), np.nan)
    norms = {"norm_a": norm_a, "norm_b": norm_b}
    return {"distance": distance, **norms, "change": change, "cosine": cosine.clip(-1, 1)}
