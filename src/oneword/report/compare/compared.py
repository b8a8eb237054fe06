"""A comparison of two texts as a person reads it: names of pairs, attention as heat maps, what moved most.

Tables are those of `comparison`: pairs, moved, layers, heads, attention; answers and divergence of causal language
models; flips and replies of a prompt file. What was not asked for is not there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from oneword.plot import Heat

Tables = Mapping[str, pd.DataFrame]
Line = Mapping[str, Any]


def label(line: Line) -> str:
    """A pair of words: one word where both texts have it, else what became of it."""
    if line["how"] == "equal":
        return str(line["word_a"])
    return f"{line['word_a'] if known(line['word_a']) else '∅'} → {line['word_b'] if known(line['word_b']) else '∅'}"


def known(word: object) -> bool:
    return isinstance(word, str)


def lines(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The lines of a table as plain values; a missing place is None."""
    plain = table.astype(object).where(table.notna(), None)
    return [{str(name): value for name, value in line.items()} for line in plain.to_dict("records")]


def names_of(texts: Sequence[str], most: int = 60) -> tuple[str, str]:
    """Two texts as titles: in quotes, or by number where they are long, as long ones begin alike."""
    lines = [" ".join(text.split()) for text in texts]
    if max(map(len, lines)) > most:
        return "the first text", "the second text"
    return f"“{lines[0]}”", f"“{lines[1]}”"


def maps_of(tables: Tables) -> list[tuple[int, int | None]]:
    """Which attention maps there are, as layer and head (None: the mean over heads), in the order of the layers."""
    each = tables["attention"][["layer", "head"]].drop_duplicates()
    found = [(int(line["layer"]), None if line["head"] is None else int(line["head"])) for line in lines(each)]
    return sorted(found, key=lambda place: (place[0], -1 if place[1] is None else place[1]))


def map_name(layer: int, head: int | None) -> str:
    return f"layer {layer}, {'mean over heads' if head is None else f'head {head}'}"


def attention_of(tables: Tables, text: str, layer: int, head: int | None) -> Heat:
    """Attention from word to word in one of the texts, a or b."""
    table = tables["attention"]
    of_head = table["head"].isna() if head is None else (table["head"] == head).fillna(False)
    some = table[(table["text"] == text) & (table["layer"] == layer) & of_head]
    square = some.pivot(index="from", columns="to", values="weight")
    words = some.drop_duplicates("from").sort_values("from")["from_word"]
    return Heat(tuple(map(str, words)), tuple(tuple(map(float, row)) for row in square.to_numpy()))


def difference_of(tables: Tables, a: Heat, b: Heat) -> Heat:
    """What the second text pays more, pair by pair; NaN in the rows of words without counterpart."""
    places = lines(tables["pairs"])

    def paid(heat: Heat, source: int, target: int | None) -> float:
        return 0.0 if target is None else heat.weights[source][target]

    rows = [
        tuple(
            math.nan
            if None in (source["a"], source["b"])
            else paid(b, source["b"], target["b"]) - paid(a, source["a"], target["a"])
            for target in places
        )
        for source in places
    ]
    return Heat(tuple(map(label, places)), tuple(rows))


def largest(heats: Sequence[Heat]) -> float:
    """The end of a scale of colours for all of them; at least a little, so that all of nothing is pale."""
    return max((abs(x) for heat in heats for row in heat.weights for x in row if not math.isnan(x)), default=0) or 1.0


def most_moved(tables: Tables, *, kept: bool) -> Line | None:
    """The layer and word that moved most, among the words that both texts have or those that changed."""
    moved = tables["moved"]
    some = moved[~moved["special"] & ((moved["how"] == "equal") == kept) & moved["change"].notna()]
    return next(iter(lines(some.sort_values("change", ascending=False, kind="stable").head(1))), None)


def meanings(about: Mapping[str, Any], tables: Tables) -> Iterator[str]:
    """What the numbers are, in plain words."""
    layers, heads = (
        f"{about[name]} {name.removesuffix('s') if about[name] == 1 else name}" for name in ("layers", "heads")
    )
    yield f"model: {about['model']}, {layers} of {heads}, {about['dtype']}"
    if "moved" in tables:
        rows = "rows of the text" if tables["layers"]["over"].iloc[0] == "rows" else "words that have a counterpart"
        yield "change: ‖h_b − h_a‖ / ‖h_a‖, where h is what a layer makes of a word (the mean over its tokens)"
        yield "layer 0 is the embeddings, positions included where the model adds them there"
        yield f"whole: the change of all {rows} together; pooled: of the mean over all tokens, special ones too"
        yield "attention: a word receives what all its tokens receive, and pays what they pay on average, 1 in all"
        yield "its change: total variation distance, the share that goes to other words than before"
        if tables["pairs"]["how"].value_counts().drop("equal", errors="ignore").to_dict() == {"replace": 1}:
            yield "one pair of texts is one change: a lower bound on what a change of one word can do, and no more"
    if "divergence" in tables or "flips" in tables:
        yield "next token: Kullback–Leibler (KL) and Jensen–Shannon (JS) divergence in nats, JS ≤ ln 2 ≈ 0.69; TV ≤ 1"
