"""How a comparison of two texts is shown in a terminal and in a notebook, and what pages share with them.

Tables are those of `oneword.comparison`: pairs, moved, layers, heads, attention; answers and divergence of causal
language models only.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import pandas as pd
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from oneword.checks import one_line, shortened
from oneword.maps.sinks import FACTOR
from oneword.plot import Heat
from oneword.report.table import grid, shown, to_records, visible
from oneword.report.words.terminal import heat_style

Tables = Mapping[str, pd.DataFrame]
Line = Mapping[str, Any]
WHOLE = ("whole", "median", "most", "pooled", "attention")  # of the whole text, beside its words


def label(line: Line) -> str:
    """A pair of words: one word where both texts have it, else what became of it."""
    a, b = (line[side] if isinstance(line[side], str) else "∅" for side in ("word_a", "word_b"))
    return a if line["how"] == "equal" else f"{a} → {b}"


def names_of(texts: Sequence[str], most: int = 60) -> tuple[str, str]:
    """Two texts as titles: in quotes, or by number where they are long, as long ones begin alike."""
    lines = [one_line(text) for text in texts]
    if max(map(len, lines)) > most:
        return "the first text", "the second text"
    return f"“{lines[0]}”", f"“{lines[1]}”"


def maps_of(tables: Tables) -> list[tuple[int, int | None]]:
    """Which attention maps there are, as layer and head (None: the mean over heads), in the order of the layers."""
    each = tables["attention"][["layer", "head"]].drop_duplicates()
    ordered = each.sort_values(["layer", "head"], na_position="first")
    return [(line["layer"], line["head"]) for line in to_records(ordered)]


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

    def placed(heat: Heat, side: str) -> np.ndarray:
        """The same weights pair by pair: 0 to a word that this text does not have, NaN from it."""
        weights = np.pad(np.array(heat.weights), (0, 1))
        weights[-1] = math.nan
        places = tables["pairs"][side].fillna(-1).to_numpy(dtype=int)
        return weights[np.ix_(places, places)]

    rows = placed(b, "b") - placed(a, "a")
    return Heat(tuple(map(label, to_records(tables["pairs"]))), tuple(map(tuple, rows.tolist())))


def changes_of(tables: Tables) -> tuple[pd.DataFrame, float]:
    """How far each pair of words (column) moved after each layer (row), and the largest of these numbers, never 0."""
    square = tables["moved"].pivot(index="layer", columns="pair", values="change")
    return square, float(np.nanmax(square.to_numpy(), initial=0.0)) or 1.0


def largest(heats: Sequence[Heat]) -> float:
    """The end of the common colour scale; never 0."""
    return max((abs(x) for heat in heats for row in heat.weights for x in row if not math.isnan(x)), default=0) or 1.0


def most_moved(tables: Tables, *, kept: bool) -> Line | None:
    """The layer and word that moved most, among the words that both texts have and can move, or those that changed."""
    moved = tables["moved"]
    some = moved[~moved["special"] & ((moved["how"] == "equal") == kept) & moved["change"].notna() & moved["can_move"]]
    return next(iter(to_records(some.sort_values("change", ascending=False, kind="stable").head(1))), None)


def why_none_kept(tables: Tables) -> str:
    """Why no word that both texts have can move, in a sentence."""
    if tables["moved"]["can_move"].all():
        return "the texts have no word in common"
    return "no word that both texts have stands behind the change, and words before it cannot move in a causal model"


def sinks_of(tables: Tables) -> set[int]:
    """The pairs of words that are attention sinks after some layer."""
    moved = tables["moved"]
    return set(moved.loc[moved["sink"], "pair"])


def headers(tables: Tables) -> dict[Any, str]:
    """Every pair of words as the title of a column; attention sinks say so."""
    sinks = sinks_of(tables)
    return {line["pair"]: label(line) + " (sink)" * (line["pair"] in sinks) for line in to_records(tables["pairs"])}


def meanings(about: Mapping[str, Any], tables: Tables) -> Iterator[str]:
    """Explanations of the numbers."""
    layers, heads = (
        f"{about[name]} {name.removesuffix('s') if about[name] == 1 else name}" for name in ("layers", "heads")
    )
    yield f"model: {about['model']}, {layers} of {heads}, {about['dtype']}"
    rows = "rows of the text" if tables["layers"]["over"].iloc[0] == "rows" else "words that have a counterpart"
    yield "change: ‖h_b − h_a‖ / ‖h_a‖, where h is what a layer makes of a word (the mean over its tokens)"
    yield "layer 0 is the embeddings, positions included where the model adds them there"
    yield f"whole: the change of all {rows} together; pooled: of the mean over all tokens, special ones too"
    yield f"median, most: of the changes of single words, special tokens left out{_earlier(tables)}"
    if tables["moved"]["sink"].any():
        yield f"sink: a token whose norm is more than {FACTOR:g} times the median of its layer"
    yield "attention: a word receives what all its tokens receive, and pays what they pay on average, 1 in all"
    yield "its change: total variation distance, the share that goes to other words than before"
    if tables["pairs"]["how"].value_counts().drop("equal", errors="ignore").to_dict() == {"replace": 1}:
        yield "one pair of texts is one change: a lower bound on what a change of one word can do, and no more"
    if "divergence" in tables:
        yield "next token: Kullback–Leibler (KL) and Jensen–Shannon (JS) divergence in nats, JS ≤ ln 2 ≈ 0.69; TV ≤ 1"


def _earlier(tables: Tables) -> str:
    return "" if tables["moved"]["can_move"].all() else ", and words before the change, which cannot move"


# Notebook -------------------------------------------------------------------------------------------------------------


def notebook(texts: Sequence[str], tables: Tables, about: Mapping[str, Any]) -> str:
    """How far each word moved after every layer, as HTML for a notebook; every text is escaped.

    Of long texts it shows the words that moved most.
    """
    words = headers(tables)
    moved, most = changes_of(tables)
    kept = moved.max().nlargest(_MOST_ROWS).index.sort_values()
    rows = [(words[pair], [_shaded(x, most) for x in moved[pair]]) for pair in kept]
    rows += [(name, [f"<td>{shown(x, 2)}" for x in tables["layers"][name]]) for name in WHOLE]
    head = "".join(f"<th>{layer}" for layer in moved.index)
    body = "".join(f"<tr><th>{escape(name)}{''.join(cells)}" for name, cells in rows)
    names = escape(" → ".join(names_of(texts)))
    said = f"{escape(about['model'])}: how far each word and the whole text moved after each layer"
    return f"<p><b>{names}</b><br>{said}</p><table><tr><th>{head}{body}</table>"


def _shaded(change: float, most: float) -> str:
    strength = 0.0 if math.isnan(change) else 0.6 * change / most
    return f'<td style="background: rgba(213, 94, 0, {strength:.2f})">{shown(change, 2)}'


# Terminal -------------------------------------------------------------------------------------------------------------


_FIRST, _COLUMN = 52, 7  # columns that the first part of the table takes, and a word at least
_MOST_ROWS = 20  # words in a notebook
_MOST_MAPPED = 12  # words: larger maps are for a page


class CompareView:
    """What rich prints for a comparison."""

    def __init__(
        self, tables: Tables, about: Mapping[str, Any], notes: Sequence[str], layer: int = 1, head: int | None = None
    ) -> None:
        self.tables, self.about, self.notes = tables, about, notes
        self.layer, self.head = layer, head

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from self._sentences(options.max_width)
        yield Text()
        yield from self._layers(options.max_width)
        yield from self._said()
        yield Text()
        yield from self._attention(options.max_width)
        if "answers" in self.tables:
            yield from self._answers()
        for line in [*meanings(self.about, self.tables), *self.notes]:
            yield Text(f"· {visible(line)}", style="dim")

    # Words and layers -----------------------------------------------------------------------------------------------

    def _sentences(self, width: int) -> Iterator[Text]:
        """Both texts, one above the other, words on a background by how far they moved in the end."""
        changes, _ = changes_of(self.tables)
        last, moved = changes.index[-1], changes.iloc[-1].dropna().to_dict()
        most = max(moved.values(), default=0) or 1.0
        above, below = Text(), Text()
        for pair in to_records(self.tables["pairs"]):
            if pair["special"]:
                continue
            words = [visible(pair[side] or "") for side in ("word_a", "word_b")]
            wide, change = max(map(cell_len, words)), moved.get(pair["pair"])
            if above and cell_len(above.plain) + wide > width:
                yield from (above, below, Text())
                above, below = Text(), Text()
            style = "bold" if change is None else heat_style(change / most)
            for line, word in zip((above, below), words, strict=True):
                line.append(word, style=style).append(" " * (wide - cell_len(word) + 1))
        yield from (above, below)
        yield Text(f"coloured by how far each word moved after layer {last}, at most {shown(most, 2)}", style="dim")

    def _layers(self, width: int) -> Iterator[RenderableType]:
        """Layers down; across, the whole text and as many words as there is room for, those that moved most."""
        moved, most = changes_of(self.tables)
        names = {pair: visible(name) for pair, name in headers(self.tables).items()}
        chosen: list[int] = []
        room = width - _FIRST
        for pair in moved.max().fillna(0.0).sort_values(ascending=False, kind="stable").index:
            room -= max(_COLUMN, len(names[pair]) + 2)
            if room < 0 and chosen:
                break
            chosen.append(pair)
        chosen.sort()
        rows = []
        for line in to_records(self.tables["layers"]):
            whole = [shown(line[name], 2) for name in WHOLE]
            words = [_number(x, most) for x in moved.loc[line["layer"], chosen]]
            rows.append([str(line["layer"]), *whole, *words])
        titles = ["layer", *WHOLE, *(Text(names[pair]) for pair in chosen)]
        yield grid(titles, rows, no_wrap=True)
        left_out = moved.shape[1] - len(chosen)
        if left_out:
            yield Text(f"… and {left_out} words that moved less: pages and tables show them", style="dim")

    def _said(self) -> Iterator[Text]:
        """Which layer and word moved most."""
        for kept, what in ((False, "what changed"), (True, "a word that both texts have")):
            line = most_moved(self.tables, kept=kept)
            if line is not None:
                word, layer = visible(label(line)), line["layer"]
                yield Text(f"moved most, {what}: “{word}”, by {shown(line['change'], 2)} at layer {layer}")
            elif kept:
                yield Text(why_none_kept(self.tables))
        head = next(iter(to_records(self.tables["heads"].sort_values("change", ascending=False).head(1))))
        yield Text(
            f"attention moved most: head {head['head']} of layer {head['layer']}, by {shown(head['change'], 2)} on "
            "average over words"
        )

    # Attention ------------------------------------------------------------------------------------------------------

    def _attention(self, width: int) -> Iterator[RenderableType]:
        maps = [attention_of(self.tables, text, self.layer, self.head) for text in ("a", "b")]
        name = map_name(self.layer, self.head)
        if max(len(heat.tokens) for heat in maps) > _MOST_MAPPED:
            yield Text(f"attention of {name}: too many words for a terminal; pages and figures show it\n", style="dim")
            return
        yield Text(f"attention of {name}, from each word (row) to each word (column)", style="bold")
        most = largest(maps)
        grids = [_map(heat, most) for heat in maps]
        if sum(_width(heat) for heat in maps) + 4 <= width:
            beside = Table.grid(padding=(0, 4, 0, 0))
            beside.add_row(*grids)
            yield beside
        else:
            yield from grids
        yield Text()

    # Answers --------------------------------------------------------------------------------------------------------

    def _answers(self) -> Iterator[RenderableType]:
        (apart,) = to_records(self.tables["divergence"])
        first = "another one comes first" if apart["flips"] else "the same one comes first"
        kl = f"KL(a‖b) = {shown(apart['kl_ab'])}, KL(b‖a) = {shown(apart['kl_ba'])}"
        distances = f"{kl}, JS = {shown(apart['js'])}, TV = {shown(apart['tv'])}"
        yield Text(f"next token: {first}; {distances}", style="bold")
        titles = ("rank", "first text", "p", "p after the other", "second text", "p", "p after the other")
        both = [self.tables["answers"][self.tables["answers"]["text"] == text] for text in ("a", "b")]
        rows = [
            [str(a["rank"])]
            + [cell for x in (a, b) for cell in (repr(x["answer"]), shown(x["probability"]), shown(x["elsewhere"]))]
            for a, b in zip(*map(to_records, both), strict=True)
        ]
        yield grid(titles, rows, left=("first text", "second text"))
        yield Text()


def _map(heat: Heat, most: float) -> Table:
    rows = [
        [Text(_short(token)), *(_number(x, most) for x in row)]
        for token, row in zip(heat.tokens, heat.weights, strict=True)
    ]
    titles = ["", *(Text(f" {_short(token)}") for token in heat.tokens)]
    return grid(titles, rows, left=("",), padding=0, no_wrap=True)


def _width(heat: Heat) -> int:
    """How many columns a map takes."""
    names = [cell_len(_short(token)) for token in heat.tokens]
    return max(names) + sum(1 + max(4, name) for name in names)


def _short(token: str, most: int = 10) -> str:
    return shortened(visible(token), most)


def _number(value: float | None, most: float) -> Text:
    if value is None or math.isnan(value):
        return Text("–", style="dim")
    return Text(f" {value:.2f}", style=heat_style(value / most))
