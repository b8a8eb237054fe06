"""Trained models at texts in the terminal: the text in colour, words with shaded rows of layers, a line a model."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from oneword.report.profile.lengths import lengths_plot
from oneword.report.profile.profiled import (
    Line,
    Profiled,
    at_least,
    becomes,
    by_sup,
    by_text,
    ceiling_line,
    ends,
    head_line,
    headline,
    hows,
    meanings,
    placed,
    top_word,
)
from oneword.report.table import MOST_LINES, shown
from oneword.report.words.tables import pieces, shortened, strength
from oneword.report.words.terminal import HEAT, MOST_TEXTS, heat_style, visible

BLOCKS = " ░▒▓█"  # legible where there are no colours
MOST_WIDE = 7  # layers; so that a table fits into 80 columns
_COLUMNS: tuple[tuple[str, JustifyMethod], ...] = (
    ("S ≥", "right"),
    ("first\norder", "right"),
    ("best\nword", "right"),
    ("becomes", "left"),
    ("random\nword", "right"),
    ("random\nΔ", "right"),
)


class ProfileView:
    """What rich prints for models at texts."""

    def __init__(
        self,
        profiles: Sequence[Profiled],
        lengths: pd.DataFrame | None = None,
        exponents: pd.DataFrame | None = None,
    ) -> None:
        self.profiles, self.lengths, self.exponents = profiles, lengths, exponents

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        texts = by_text(self.profiles)
        yield Text(visible(headline(self.profiles[0])), style="bold")
        yield Text()
        if len(texts) <= MOST_TEXTS:
            for _, profiles in texts:
                for profile in profiles:
                    yield from _profile(profile)
        if len(self.profiles) > 1:
            yield _summary(self.profiles, several_texts=len(texts) > 1)
            yield Text()
        if self.lengths is not None and not self.lengths.empty:
            yield from _slopes(self.lengths, self.exponents)
        notes = dict.fromkeys(note for profile in self.profiles for note in profile.notes)
        for line in [*meanings(self.profiles), *notes]:
            yield Text(f"· {visible(line)}", style="dim")


def _profile(profile: Profiled) -> Iterator[RenderableType]:
    """One model at one text: the sentence, the words that move it most, its layers and heads."""
    yield Text(visible(f"{profile.model}: {profile.objective}"), style="bold")
    yield from _sentence(profile)
    yield Text()
    lines = by_sup(profile)
    strips = _strips(profile)
    grid = _grid("#", "word")
    for name, side in _COLUMNS:
        grid.add_column(name, justify=side, no_wrap=True)
    if strips:
        grid.add_column(f"layers 0–{int(profile.layers['layer'].max())}", no_wrap=True)
    for line in lines[:MOST_LINES]:
        strip = [strips.get(line["position"], Text("–"))] if strips else []
        grid.add_row(str(line["position"]), _word(line["word"]), *_cells(line, profile), *strip)
    yield grid
    if len(lines) > MOST_LINES:
        yield Text(f"… and {len(lines) - MOST_LINES} less sensitive words: --html or --json has them all", style="dim")
    ceiling = ceiling_line(profile)
    if ceiling is not None:
        yield Text(visible(ceiling))
    if strips:
        most = shown(float(profile.layers["value"].max()), 2)
        yield (
            Text("layers: 0 ")
            .append_text(_strip([k / 4 for k in range(5)]))
            .append(f" {most}; {visible(hows(profile.layers))}")
        )
    head = head_line(profile)
    if head is not None:
        yield Text(
            f"attention moves most in head {head['head']} of layer {head['layer']}, by {shown(head['change'], 2)}; on "
            f"the changed word {shown(head['before'])} before, {shown(head['after'])} after"
        )
    yield Text()


def _sentence(profile: Profiled) -> Iterator[Text]:
    """The text as it was given, words on a background by S; words below the noise are dim."""
    both = ends([profile], "sup")
    if both is None:
        return
    out = Text(overflow="fold")
    for piece in pieces(profile.text, placed(profile)):
        line = piece.lines.get(profile.model)
        out.append(visible(piece.shown), style=None if line is None else _shade(line, both))
    yield out
    scale = Text(f"S ≥ {shown(both[0], 2)} ")
    for step in range(len(HEAT)):
        scale.append("  ", style=heat_style(step / (len(HEAT) - 1)))
    yield scale.append(f" {shown(both[1], 2)}")


def _shade(line: Line, both: tuple[float, float]) -> str | None:
    if line["below_noise"]:
        return "dim"
    return None if line["sup"] is None else heat_style(strength(line["sup"], both))


def _cells(line: Line, profile: Profiled) -> list[Text]:
    """The numbers of a word; what is below the noise is dim."""

    def number(name: str, sign: str = "") -> Text:
        quiet = bool(line["below_noise"]) or profile.quiet(line[name])
        return Text(sign + shown(line[name], 2), style="dim" if quiet else "")

    return [
        number("sup"),
        number("first_order"),
        number("best_word", at_least(line)),
        _word(becomes(line), 10),
        number("random_word"),
        number("random_ball"),
    ]


def _strips(profile: Profiled) -> dict[int, Text]:
    """For each word its layers as a row of shades, on one scale."""
    if profile.layers.empty:
        return {}
    most = float(profile.layers["value"].max()) or 1.0
    square = profile.layers.pivot(index="position", columns="layer", values="value") / most
    return {
        int(position): _strip(row) for position, row in zip(square.index, square.to_numpy(float).tolist(), strict=True)
    }


def _strip(shares: Sequence[float]) -> Text:
    """Shades from 0 to 1, two columns each where there is room for them; a gap is a dot."""
    out, wide = Text(), 2 if len(shares) <= MOST_WIDE else 1
    for share in shares:
        if math.isnan(share):
            out.append("·".ljust(wide), style="dim")
        else:
            out.append(wide * BLOCKS[min(len(BLOCKS) - 1, int(share * len(BLOCKS)))], style="cyan")
    return out


def _summary(profiles: Sequence[Profiled], *, several_texts: bool) -> Table:
    """One line a model and text: its most sensitive word, and the largest change at each layer."""
    grid = _grid("model", *(["text"] if several_texts else []), "word")
    for name, side in _COLUMNS:
        grid.add_column(name, justify=side, no_wrap=True)
    grid.add_column("layers,\nlargest", no_wrap=True)
    most = max((float(each.layers["value"].max()) for each in profiles if len(each.layers)), default=1.0) or 1.0
    for profile in profiles:
        top: Mapping[str, Any] | None = top_word(profile)
        cells = [Text("–")] * (1 + len(_COLUMNS)) if top is None else [_word(top["word"]), *_cells(top, profile)]
        layers = (profile.layers.groupby("layer")["value"].max() / most).tolist() if len(profile.layers) else []
        grid.add_row(
            Text(visible(profile.model)),
            *([_word(shortened(profile.text, 28))] if several_texts else []),
            *cells,
            _strip(layers),
        )
    return grid


def _slopes(lengths: pd.DataFrame, exponents: pd.DataFrame | None) -> Iterator[RenderableType]:
    """S against n as numbers: each model, what was changed, the first and the last length, the slope."""
    grid = _grid("as the text grows", "change and its slope")
    for name in ("shortest", "longest"):
        grid.add_column(name, justify="right", no_wrap=True)
    for panel in lengths_plot(lengths, exponents).panels:
        for k, mark in enumerate(mark for mark in panel.marks if mark.label):
            first, last = (f"{shown(mark.y[end], 2)} (n = {mark.x[end]:g})" for end in (0, -1))
            grid.add_row(Text("" if k else visible(" ".join(panel.title.split()))), Text(mark.label), first, last)
    yield grid
    yield Text()


def _grid(*names: str) -> Table:
    """A table without lines; the named columns are texts."""
    grid = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in names:
        # A column of texts may fold, but never vanish for the sake of numbers.
        least = 3 if name == "#" else 10
        grid.add_column(name, overflow="fold", justify="right" if name == "#" else "left", min_width=least)
    return grid


def _word(word: object, most: int = 18) -> Text:
    return Text(shortened(visible(str(word)), most))
