"""A survey in the terminal: the sentence in colour, then a table with words down and maps across."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from oneword.report.table import MOST_LINES, shown
from oneword.report.words.tables import (
    WORD,
    Line,
    best_replacements,
    by_word,
    maps_of,
    meanings,
    over_seeds,
    pieces,
    shade_of,
    strength,
    strengths,
    summary,
)

# One hue, even steps of lightness. Each has a foreground of its own, so that words are legible on any terminal.
HEAT = (
    ("#fff3e2", "#1c1d21"),
    ("#ffdcae", "#1c1d21"),
    ("#fdbd74", "#1c1d21"),
    ("#ee9438", "#1c1d21"),
    ("#c4660f", "#ffffff"),
    ("#8a4100", "#ffffff"),
)
MOST_TEXTS = 3  # shown word by word; more are a summary
_WIDE, _SPREADS = 46, 14  # columns that one map takes in the table, and what ± adds to them


class WordsView:
    """What rich prints for a survey."""

    def __init__(
        self,
        texts: Sequence[str],
        words: pd.DataFrame,
        replacements: pd.DataFrame,
        about: Mapping[str, Any],
        notes: Sequence[str],
        top: int = 1,
    ) -> None:
        self.texts, self.about, self.notes, self.top = texts, about, notes, top
        self.lines = over_seeds(words)
        self.best = best_replacements(replacements, top)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if len(self.texts) <= MOST_TEXTS:
            for number, some in self.lines.groupby("text", sort=True):
                yield self._sentence(self.texts[int(str(number))], some)
                yield self._scale(some)
                yield Text()
                yield from self._tables(some, options.max_width)
        if len(self.texts) > 1:
            yield self._summary()
            yield Text()
        for line in [*meanings(self.about, self.lines), *self.notes]:
            yield Text(f"· {line}", style="dim")

    # The sentence ---------------------------------------------------------------------------------------------------

    def _sentence(self, text: str, lines: pd.DataFrame) -> Text:
        """The text as it was given, words on a background by how sensitive the first map is to them."""
        column, name = shade_of(lines), maps_of(lines)[0]
        ends = strengths(lines, column)[name]
        out = Text(overflow="fold")
        for piece in pieces(text, lines):
            line = piece.lines.get(name)
            strong = math.nan if line is None else strength(line[column], ends)
            out.append(visible(piece.shown), style=None if math.isnan(strong) else heat_style(strong))
        return out

    def _scale(self, lines: pd.DataFrame) -> Text:
        column, name = shade_of(lines), maps_of(lines)[0]
        low, high = strengths(lines, column)[name]
        out = Text(f"{column} of {name}: {shown(low, 2)} ")
        for step in range(len(HEAT)):
            out.append("  ", style=heat_style(step / (len(HEAT) - 1)))
        return out.append(f" {shown(high, 2)}")

    # The table ------------------------------------------------------------------------------------------------------

    def _tables(self, lines: pd.DataFrame, width: int) -> Iterator[RenderableType]:
        """Words down, maps across: as many maps beside each other as there is room for."""
        names = maps_of(lines)
        wide = _WIDE + (_SPREADS if lines["S_ball_spread"].notna().any() else 0)
        together = max(1, (width - 16) // wide)
        for first in range(0, len(names), together):
            group = names[first : first + together]
            # A map that measured few words of a long text shows those.
            measured = lines[lines["map"] == group[0]].sort_values(shade_of(lines), ascending=False, kind="stable")
            kept = measured.head(MOST_LINES)[WORD]
            yield self._table(by_word(lines[lines["map"].isin(group)].merge(kept, on=WORD)), group)
            hidden = len(measured) - len(kept)
            if hidden:
                yield Text(f"… and {hidden} less sensitive words: --html, --csv or --json has them all", style="dim")
            yield Text()

    def _table(self, words: Sequence[Mapping[str, Line]], names: Sequence[str]) -> Table:
        real = any(line["replacement"] for word in words for line in word.values())
        grid = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        grid.add_column("\n#", justify="right", style="dim")
        grid.add_column("\nword", overflow="ellipsis", max_width=18)
        for name in names:
            grid.add_column(f"{name}\nS_ball ≥", justify="right", no_wrap=True)
            grid.add_column("\n≤", justify="right", no_wrap=True)
            if real:
                grid.add_column("\nS_word", justify="right", no_wrap=True)
                grid.add_column("\nbecomes", overflow="fold", max_width=18)
                grid.add_column("\n‖Δ‖/√d", justify="right", no_wrap=True)
                grid.add_column("\nrandom", justify="right", no_wrap=True)
            else:
                grid.add_column("\nrandom Δ", justify="right", no_wrap=True)
        for word in words:
            label = next(iter(word.values()))
            text, window, position = (int(label[name]) for name in WORD)
            cells = [
                cell
                for name in names
                for cell in self._cells(word.get(name), self.best.get((text, window, position, name), []), real)
            ]
            number = "–" if label["index"] is None else str(label["index"])
            grid.add_row(number, Text(visible(str(label["word"]))), *cells)
        return grid

    def _cells(self, line: Line | None, best: Sequence[Line], real: bool) -> list[Text]:
        if line is None:
            return [Text("–", style="dim")] * (6 if real else 3)
        ball = [_number(line["S_ball"], line["S_ball_spread"]), Text(shown(line["upper"], 2), style="dim")]
        if not real:
            return [*ball, Text(shown(line["random_ball"], 2), style="dim")]
        at_least = "≥ " if line["kind"] == "lower bound" else ""
        more = [f"{visible(each['replacement'])} {each['value']:.2f}" for each in best]
        named = "\n".join(more) if self.top > 1 else visible(line["replacement"] or "–")
        return [
            *ball,
            Text(at_least) + _number(line["S_word"], line["S_word_spread"]),
            Text(named),
            Text(shown(line["distance"], 2), style="dim"),
            Text(shown(line["random_word"], 2), style="dim"),
        ]

    def _summary(self) -> Table:
        grid = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
        for name, side in (("no.", "right"), ("text", "left"), ("map", "left"), ("words", "right"),
                           ("S_ball ≥", "right"), ("≤", "right"), ("at", "left"), ("S_word", "right"),
                           ("becomes", "left"), ("random", "right")):  # fmt: skip
            grid.add_column(name, justify=side, overflow="ellipsis", no_wrap=True)  # type: ignore[arg-type]
        for line in summary(self.texts, self.lines):
            at_least = "≥ " if line["kind"] == "lower bound" else ""
            becomes = f"{line['word']} → {line['replacement']}" if line["replacement"] else "–"
            grid.add_row(
                str(line["text"]),
                Text(visible(line["shown"])),
                line["map"],
                str(line["words"]),
                shown(line["S_ball"], 2),
                shown(line["upper"], 2),
                Text(visible(line["ball_word"])),
                at_least + shown(line["S_word"], 2),
                Text(visible(becomes)),
                shown(line["random_word"], 2),
            )
        return grid


def heat_style(strong: float) -> str:
    background, ink = HEAT[min(len(HEAT) - 1, int(strong * len(HEAT)))]
    # Without colours the boldest words still stand out.
    return f"{'bold ' if strong > 2 / 3 else ''}{ink} on {background}"


def _number(value: float, spread: float) -> Text:
    out = Text(shown(value, 2))
    return out if math.isnan(spread) else out.append(f" ± {spread:.2f}", style="dim")


def visible(text: str) -> str:
    """Control characters would move the cursor or recolour the terminal: they are shown, not sent."""
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else "\N{REPLACEMENT CHARACTER}" for letter in text
    )
