"""The table of words in the terminal: the sentence in colour, then words down and maps and models across."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import pandas as pd
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from oneword.checks import one_line, shortened
from oneword.report.table import MOST_LINES, shown, visible
from oneword.report.words.lines import (
    SPREADS,
    Line,
    by_word,
    cell,
    leading,
    pieces,
    scales,
    shown_columns,
    strength,
    top_line,
)
from oneword.report.words.prompts import is_prompt
from oneword.report.words.sentences import (
    first_answer,
    first_line,
    headline,
    layers_found,
    meanings,
    together,
    top_head,
    upper_bound,
)
from oneword.report.words.table import COLUMNS, SHADES, Column, Part, WordTable

# One hue, even steps of lightness. Each has a foreground of its own, so that words are legible on any terminal.
HEAT = (
    ("#fff3e2", "#1c1d21"),
    ("#ffdcae", "#1c1d21"),
    ("#fdbd74", "#1c1d21"),
    ("#ee9438", "#1c1d21"),
    ("#c4660f", "#ffffff"),
    ("#8a4100", "#ffffff"),
)
BLOCKS = " ░▒▓█"  # legible where there are no colours
MOST_TEXTS = 3  # shown word by word; more are a summary
MOST_PARTS = 6  # of which a first answer says something
MOST_REPEATED = 60  # words: a longer text is coloured for the first subject only
MOST_WIDE = 7  # layers that get two columns each
NARROW = 100  # columns of a terminal: less space between columns, no random Δ
IN_SUMMARY = ("value", "upper", "best_word", "replacement", "random_word")
_FIRST, _NUMBER, _SPREAD, _TEXT = 22, 9, 7, 14  # widths: number and word, a number, its ±, a replacement


class WordsView:
    """What rich prints for a table of words; `top` replacements are listed for each word."""

    def __init__(self, table: WordTable, top: int = 1) -> None:
        self.table, self.top = table, top

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = self.table
        if len(table.texts) <= MOST_TEXTS:
            for number in range(len(table.texts)):
                parts = table.parts_of(number)
                for part in parts if len(parts[0].words) <= MOST_REPEATED else parts[:1]:
                    yield from _sentence(part)
                yield from self._tables(parts, options.max_width)
                for part in parts:
                    yield from _model(part)
                    for line in together(table, part):
                        yield Text(visible(line))
        if len(table.parts) > 1:
            yield from _summary(table.parts, several_texts=len(table.texts) > 1)
        for part in table.parts[:1]:
            yield Text(visible(headline(part)), style="bold")
        for line in [*meanings(table), *table.notes]:
            yield Text(f"· {visible(line)}", style="dim")

    def _tables(self, parts: Sequence[Part], width: int) -> Iterator[RenderableType]:
        """Words down, subjects across: as many beside each other as there is room for."""
        group: list[Part] = []
        for part in parts:
            if group and sum(map(_width, [*group, part])) > width - _FIRST:
                yield from self._group(group, width)
                group = []
            group.append(part)
        yield from self._group(group, width)

    def _group(self, parts: Sequence[Part], width: int) -> Iterator[RenderableType]:
        first = leading(parts[0].words, "left_out" if is_prompt(parts[0]) else "value", MOST_LINES)
        kept = {(line["start"], line["word"], line["position"]) for line in first}
        words = [
            word
            for word in by_word(pd.concat([part.words for part in parts]))
            if any((line["start"], line["word"], line["position"]) in kept for line in word.values())
        ]
        narrow = width < NARROW
        columns = [[each for each in shown_columns(part) if not (narrow and each.name == "random")] for part in parts]
        grid = _grid(1 if narrow else 2)
        grid.add_column("\n\n#", justify="right", style="dim")
        grid.add_column("\n\nword", overflow="ellipsis", min_width=6, max_width=18)
        for part, mine in zip(parts, columns, strict=True):
            for k, column in enumerate(mine):
                side = "left" if column.dtype == "object" else "right"
                name = part.subject.by if k == 0 else ""
                grid.add_column(
                    Text(f"{shortened(visible(name), 24)}\n{_two_lines(column.title)}"),
                    justify=side,  # type: ignore[arg-type]
                    overflow="fold",
                    no_wrap=column.dtype != "object",
                    max_width=18 if column.dtype == "object" else None,
                )
        for word in words:
            label = next(iter(word.values()))
            number = "–" if label["index"] is None else str(label["index"])
            cells = [
                self._cell(column, word.get(part.subject.by), part)
                for part, mine in zip(parts, columns, strict=True)
                for column in mine
            ]
            grid.add_row(number, Text(visible(str(label["word"]))), *cells)
        yield grid
        if narrow and any(part.words["random"].notna().any() for part in parts):
            yield Text(f"random Δ is shown from {NARROW} columns on", style="dim")
        hidden = len(parts[0].words) - len(first)
        if hidden:
            yield Text(f"… and {hidden} less sensitive words: the page and the files have them all", style="dim")
        yield Text()

    def _cell(self, column: Column, line: Line | None, part: Part) -> Text:
        if column.name == "replacement" and self.top > 1 and line is not None and line["replacement"] is not None:
            best = part.replacements.get((line["window"], line["position"]), ())[: self.top]
            return Text("\n".join(f"{visible(each['replacement'])} {each['value']:.2f}" for each in best))
        return _cell(column, line, part)


class FirstView:
    """What is known before the search: the text in colour, the words that matter most, and how long the rest takes."""

    def __init__(self, table: WordTable, seconds: float) -> None:
        self.table, self.seconds = table, seconds

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = self.table
        for part in table.parts[-1:] if len(table.texts) == 1 and console.is_terminal else []:
            yield from _sentence(part)
        for part in table.parts[:MOST_PARTS]:
            yield Text(visible(first_answer(part)))
        yield Text(visible(first_line(table, self.seconds)), style="bold")


def _cell(column: Column, line: Line | None, part: Part) -> Text:
    """Dim: what is unknown, what is below the noise, and what is no bound of the word."""
    found = cell(column, line, part)
    dim = line is None or line[column.name] is None or found.faint or not (found.words or column.name in SHADES)
    out = Text(visible(found.shown), style="dim" if dim else "")
    return out.append(f" {found.spread}", style="dim") if found.spread else out


def _width(part: Part) -> int:
    spread = sum(_SPREAD for name in SPREADS if part.words[f"{name}_spread"].notna().any())
    return spread + sum(_TEXT if column.dtype == "object" else _NUMBER for column in shown_columns(part))


def _sentence(part: Part) -> Iterator[Text]:
    """The text as it was given, each word on a background that says how far it can move this subject."""
    column, ends = next(iter(scales(part).items()), (None, None))
    if column is None or ends is None:
        return
    out = Text(overflow="fold")
    for piece in pieces(part):
        out.append(visible(piece.shown), style=None if piece.line is None else _shade(piece.line, column, ends))
    yield out
    legend = Text(f"{visible(part.subject.title)}, {SHADES.get(column, 'first order, no bound')}: {shown(ends[0], 2)} ")
    for step in range(len(HEAT)):
        legend.append("  ", style=heat_style(step / (len(HEAT) - 1)))
    yield legend.append(f" {shown(ends[1], 2)}")
    yield Text()


def _shade(line: Line, column: str, ends: tuple[float, float]) -> str | None:
    if line["below_noise"]:
        return "dim"
    strong = strength(line[column], ends)
    return None if math.isnan(strong) else heat_style(strong)


def _model(part: Part) -> Iterator[RenderableType]:
    """What only models have: a ceiling, layers, heads."""
    if part.subject.kind != "model":
        return
    yield Text(visible(part.subject.named), style="bold")
    bound = upper_bound(part)
    if bound is not None:
        yield Text(visible(bound))
    if len(part.layers):
        yield from _layers(part)
    head = top_head(part)
    if head is not None:
        yield Text(
            f"attention moves most in head {head['head']} of layer {head['layer']}, by {shown(head['change'], 2)}; on "
            f"the changed word {shown(head['before'])} before, {shown(head['after'])} after"
        )
    yield Text()


def _layers(part: Part) -> Iterator[RenderableType]:
    """The most sensitive words, each with its layers as a row of shades, on one scale."""
    most = float(part.layers["value"].max()) or 1.0
    square = part.layers.pivot(index="position", columns="layer", values="value") / most
    grid = _grid()
    grid.add_column("word", min_width=10)
    grid.add_column(f"layers 0–{int(part.layers['layer'].max())}", no_wrap=True)
    for line in leading(part.words, "value", 5):
        if line["position"] in square.index:
            word = visible(part.in_layers(line["position"], line["word"]))
            grid.add_row(Text(word), strip(square.loc[[line["position"]]].to_numpy(float)[0].tolist()))
    yield grid
    yield (
        Text("layers: 0 ")
        .append_text(strip([k / 4 for k in range(5)]))
        .append(f" {shown(most, 2)}; {visible(layers_found(part.layers))}")
    )


def strip(shares: Sequence[float]) -> Text:
    """Shades from 0 to 1, two columns each where there is room for them; a gap is a dot."""
    out, wide = Text(), 2 if len(shares) <= MOST_WIDE else 1
    for share in shares:
        if math.isnan(share):
            out.append("·".ljust(wide), style="dim")
        else:
            out.append(wide * BLOCKS[min(len(BLOCKS) - 1, int(share * len(BLOCKS)))], style="cyan")
    return out


def _summary(parts: Sequence[Part], *, several_texts: bool) -> Iterator[RenderableType]:
    """One row a text and subject: its most sensitive word."""
    columns = [
        each for each in COLUMNS if each.name in IN_SUMMARY and any(each in shown_columns(part) for part in parts)
    ]
    grid = _grid(1)
    grid.add_column("\nby", overflow="fold", min_width=9)
    if several_texts:
        grid.add_column("\ntext", overflow="ellipsis", no_wrap=True, min_width=20)
    grid.add_column("\nword", overflow="ellipsis", no_wrap=True, min_width=6)
    for column in columns:
        words = column.dtype == "object"
        grid.add_column(
            _two_lines(column.title), justify="left" if words else "right", overflow="fold", no_wrap=not words
        )
    for part in parts:
        top = top_line(part)
        named = [Text(visible(part.subject.by))]
        named += [Text(shortened(one_line(visible(part.content)), 28))] if several_texts else []
        if top is None:
            grid.add_row(*named, *["–"] * (1 + len(columns)))
            continue
        cells = [
            Text(shortened(visible(str(top[column.name] or "–")), 18))
            if column.dtype == "object"
            else _cell(column, top, part)
            for column in columns
        ]
        grid.add_row(*named, Text(shortened(visible(str(top["word"])), 18)), *cells)
    yield grid
    yield Text()


def _grid(space: int = 2) -> Table:
    return Table(box=None, pad_edge=False, header_style="bold", padding=(0, space, 0, 0))


def _two_lines(title: str) -> str:
    """A title of one or two words above a narrow column."""
    return title.replace(" ", "\n") if " " in title and not title.startswith("S") else f"\n{title}"


def heat_style(strong: float) -> str:
    background, ink = HEAT[min(len(HEAT) - 1, int(strong * len(HEAT)))]
    # Without colours the boldest words still stand out.
    return f"{'bold ' if strong > 2 / 3 else ''}{ink} on {background}"
