"""How prompts that differ in one word are shown in a terminal and in a notebook, and what pages share with them.

Tables are those of `oneword.chat`: prompts, answers, steps, attention, samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from typing import Any

import pandas as pd
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from oneword.report.table import grid, shown, to_records, visible
from oneword.report.words.terminal import heat_style

Tables = Mapping[str, pd.DataFrame]
Line = Mapping[str, Any]
LOG2 = math.log(2.0)  # the largest Jensen–Shannon divergence


def lines_of(tables: Tables, name: str, prompt: Line) -> list[dict[str, Any]]:
    """The rows of a table that belong to a prompt; a table without rows has no columns either."""
    table = tables[name]
    return to_records(table[table["number"] == prompt["number"]]) if len(table) else []


def side_of(line: Line, side: str) -> dict[str, Any]:
    """What a prompt has for one of its two sides, under plain names."""
    return {name.removesuffix(f"_{side}"): value for name, value in line.items() if name.endswith(f"_{side}")}


def whole(answer: str, ended: bool) -> str:
    """An answer; "…" marks one that was cut."""
    return answer if ended else f"{answer} …"


def verdict(flips: bool | None) -> str:
    return "–" if flips is None else "flips" if flips else "stays"


def shift(line: Line) -> float:
    """How far the second word moves the log-odds; negative: towards the second set of answers, as it should."""
    a, b = (math.nan if line[f"log_odds_{side}"] is None else line[f"log_odds_{side}"] for side in "ab")
    return float(b - a)


def judged(tables: Tables) -> list[dict[str, Any]]:
    """The prompts with given answers."""
    return [line for line in to_records(tables["prompts"]) if line["flips"] is not None]


def headline(tables: Tables) -> str:
    """How many prompts flip, and how many move the way they should."""
    lines = judged(tables)
    if not lines:
        return "no answers were given: nothing is scored, and no flip is decided"
    flipped, count = sum(line["flips"] for line in lines), len(lines)
    towards = sum(shift(line) < 0 for line in lines)
    return (
        f"one word flips the likelier answer in {flipped} of {count} prompts; it moves the log-odds the way it should "
        f"in {towards}"
    )


def in_common(line: Line) -> str:
    """How many tokens both greedy answers begin with."""
    if line["part_a"] is not None:
        return str(line["common"])
    return "all" if line["ended_a"] and line["ended_b"] else f"≥ {line['common']}"


def parting(line: Line) -> str:
    """Where the two greedy answers part."""
    if line["part_a"] is None:
        until = "" if line["ended_a"] and line["ended_b"] else ", up to where they were cut"
        return f"the two answers are the same, token by token{until}"
    words = "token" if line["common"] == 1 else "tokens"
    same = f"after {line['common']} {words} in common" if line["common"] else "at the first token"
    return f"the answers part {same}: {line['part_a']!r} or {line['part_b']!r}"


def strongest(tables: Tables, prompt: Line, side: str) -> dict[str, Any] | None:
    """The head that pays most attention to the changed word."""
    own = [line for line in lines_of(tables, "attention", prompt) if line["side"] == side]
    return max(own, key=lambda line: line["weight"], default=None)


def meanings(tables: Tables, about: Mapping[str, Any]) -> Iterator[str]:
    """Explanations of the numbers."""
    yield f"model: {about['model']}, {about['layers']} layers of {about['heads']} heads, {about['dtype']}"
    sent = "the messages inside the model's own chat template" if about["template"] else "the messages as plain text"
    yield f"what was sent: {sent}"
    yield "answers: greedy, the likeliest token each time, up to the end of the turn or the largest number of tokens"
    if judged(tables):
        yield (
            "log-odds: log Σ p(answer) over the first set of given answers minus the same over the second; log p is "
            "that of all tokens of an answer where the reply begins, the end of the reply not counted"
        )
        yield "shift: log-odds with the second word minus with the first; it should be negative"
        yield (
            "flips: the log-odds of the two prompts have different signs; neither the first token nor the greedy "
            "answer decides"
        )
    yield (
        "divergence: Jensen–Shannon, in nats (at most ln 2 ≈ 0.69), of the next token after both prompts, along the "
        "first greedy answer"
    )
    yield "attention to the changed word: the sum over its tokens, the mean over the tokens of the greedy answer"


# Notebook -------------------------------------------------------------------------------------------------------------


def notebook(tables: Tables, about: Mapping[str, Any]) -> str:
    """The table of flips as HTML for a notebook; every text is escaped."""
    rows = []
    for line in to_records(tables["prompts"]):
        both = [side_of(line, side) for side in "ab"]
        cells = [line["prompt"]]
        for side in both:
            cells += [side["word"], whole(side["answer"], side["ended"]), shown(side["log_odds"], 2)]
        rows.append("<tr>" + "".join(f"<td>{escape(cell)}" for cell in [*cells, verdict(line["flips"])]))
    head = "".join(f"<th>{name}" for name in _TITLES)
    said = f"{escape(about['model'])}: {escape(headline(tables))}"
    return f"<p><b>{said}</b></p><table><tr>{head}{''.join(rows)}</table>"


_TITLES = ("prompt", "word", "answer", "log-odds", "word", "answer", "log-odds", "")


# Terminal -------------------------------------------------------------------------------------------------------------


class ChatView:
    """What rich prints for prompts: each with both answers, then one table of all."""

    def __init__(self, tables: Tables, about: Mapping[str, Any], notes: Sequence[str]) -> None:
        self.tables, self.about, self.notes = tables, about, notes

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in to_records(self.tables["prompts"]):
            yield from self._prompt(line, options.max_width)
            yield Text()
        yield from self._flips()
        for said in [*meanings(self.tables, self.about), *self.notes]:
            yield Text(f"· {visible(said)}", style="dim")

    def _prompt(self, line: Line, width: int) -> Iterator[RenderableType]:
        yield Text(visible(line["prompt"]), style="bold")
        both = [side_of(line, side) for side in "ab"]
        yield from self._sent(line, both)
        beside = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
        for side in both:
            beside.add_column(Text(visible(side["word"])), width=max(20, width // 2 - 4), overflow="fold")
        beside.add_row(*(Text(visible(whole(side["answer"], side["ended"]))) for side in both))
        for k, (a, b) in enumerate(self._samples(line), 1):
            beside.add_row(
                Text(f"sample {k}: {visible(a)}", style="dim"), Text(f"sample {k}: {visible(b)}", style="dim")
            )
        yield beside
        yield from self._scores(line)
        yield Text(visible(parting(line)))
        yield from self._steps(line)
        heads = [strongest(self.tables, line, side) for side in "ab"]
        said = [
            f"{shown(head['weight'], 2)} in head {head['head']} of layer {head['layer']} ({visible(side['word'])})"
            for head, side in zip(heads, both, strict=True)
            if head is not None
        ]
        if said:
            yield Text(f"attention to the changed word, at most: {', '.join(said)}")

    def _sent(self, line: Line, both: Sequence[Line]) -> Iterator[Text]:
        text = visible(both[0]["sent"]).replace("\n", "⏎")
        yield Text(f"sent: {text}", style="dim")

    def _samples(self, line: Line) -> list[tuple[str, str]]:
        own = lines_of(self.tables, "samples", line)
        a, b = ([whole(each["answer"], each["ended"]) for each in own if each["side"] == side] for side in "ab")
        return list(zip(a, b, strict=True))

    def _scores(self, line: Line) -> Iterator[RenderableType]:
        """The given answers with their log-likelihoods after both prompts."""
        own = lines_of(self.tables, "answers", line)
        if not own:
            return
        a, b = ([each for each in own if each["side"] == side] for side in "ab")
        rows = [
            [str(x["set"]), x["answer"]]
            + [shown(side[name], 2) for side in (x, y) for name in ("log_likelihood", "per_token")]
            for x, y in zip(a, b, strict=True)
        ]
        words = [visible(line[f"word_{side}"]) for side in "ab"]
        titles = ["set", "given answer", *(Text(f"{what}, {word}") for word in words for what in ("log p", "a token"))]
        yield grid(titles, rows, left=("given answer",))
        odds = " → ".join(shown(line[f"log_odds_{side}"], 2) for side in "ab")
        yield Text(f"log-odds {odds}: {verdict(line['flips'])}", style="bold")

    def _steps(self, line: Line) -> Iterator[Text]:
        """The first answer, each token on a background by the divergence before it."""
        own = lines_of(self.tables, "steps", line)
        if not own:
            return
        out = Text("divergence along the first answer: ")
        for step in own:
            out.append(visible(step["token"]).replace("\n", "⏎"), style=heat_style(step["js"] / LOG2))
        yield out
        most = sorted(own, key=lambda step: -step["js"])[:3]
        said = ", ".join(f"{visible(repr(step['token']))} {shown(step['js'], 2)}" for step in most)
        yield Text(f"most at {said}", style="dim")

    def _flips(self) -> Iterator[RenderableType]:
        yield Text(headline(self.tables), style="bold")
        rows = []
        for line in judged(self.tables):
            a, b = ((line[f"word_{side}"], shown(line[f"log_odds_{side}"], 2)) for side in "ab")
            rows.append([line["prompt"], *a, *b, shown(shift(line), 2), verdict(line["flips"]), in_common(line)])
        if not rows:
            return
        titles = ("prompt", "word", "log-odds", "word", "log-odds", "shift", "", "tokens in common")
        yield grid(titles, rows, left=("prompt", "word", ""), overflow="fold")
        yield Text()
