"""Prompts that differ in one word as one HTML file, without script or request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from oneword.checks import shortened
from oneword.plot import Axis, Look, Mark, Panel, numbers
from oneword.report.chat import (
    LOG2,
    Line,
    Tables,
    headline,
    in_common,
    judged,
    lines_of,
    meanings,
    parting,
    shift,
    side_of,
    strongest,
    verdict,
    whole,
)
from oneword.report.table import heat_cell, shown, to_records
from oneword.report.templating import facts, write_page

MOST_CELLS = 7_000  # of heat maps of attention on a page, so that it stays small; other prompts show their top heads
ROW = 30.0  # pixels of a prompt in the plot of log-odds
SIDES = {"a": Look("with the first word", "blue", "circle"), "b": Look("with the second word", "orange", "square")}
FLIP, STAY = Look("flips", "vermilion"), Look("stays", "grey")


def render(tables: Tables, about: Mapping[str, Any], notes: Sequence[str], path: Path, *, command: str = "") -> Path:
    """Write the page of prompts, given as the tables of the result."""
    lines = to_records(tables["prompts"])
    scored = judged(tables)
    return write_page(
        "chat.html.j2",
        path,
        about=about,
        headline=headline(tables),
        cards=list(_cards(tables, lines)),
        judged=bool(scored),
        odds=log_odds(scored) if scored else None,
        odds_height=70 + ROW * len(scored),
        prompts=list(_prompts(tables, lines)),
        meanings=[*meanings(tables, about), *notes],
        facts=[("", list(facts(about)))],
        command=command,
    )


def log_odds(lines: Sequence[Line]) -> Panel:
    """Prompts down: the log-odds with the first word and with the second, joined; at 0 answers flip."""
    marks = [Mark("line", (0.0, 0.0), (-0.5, len(lines) - 0.5), Look("", "ink"), dash="dash")]
    for k, line in enumerate(lines):
        ends = numbers(line[f"log_odds_{side}"] for side in "ab")
        marks.append(Mark("line", ends, (float(k), float(k)), FLIP if line["flips"] else STAY))
    for side, look in SIDES.items():
        values = numbers(line[f"log_odds_{side}"] for line in lines)
        marks.append(Mark("dots", values, numbers(range(len(lines))), look, look.name))
    names = tuple(shortened(line["prompt"], 24) for line in lines)
    x = Axis("log-odds: first set of answers against the second")
    return Panel("Log-odds of each prompt with either word", x, Axis("", names=names, reverse=True), tuple(marks))


def _cards(tables: Tables, lines: Sequence[Line]) -> Iterator[dict[str, str]]:
    scored = judged(tables)
    if scored:
        yield {
            "value": f"{sum(line['flips'] for line in scored)} of {len(scored)}",
            "label": "prompts whose likelier answer flips with one word",
            "note": "by the log-likelihood of whole answers, never by the first token",
        }
        most = max(scored, key=lambda line: abs(shift(line)))
        yield {
            "value": shown(abs(shift(most)), 1),
            "label": f"the largest shift of the log-odds: {most['prompt']}",
            "note": f"from {shown(most['log_odds_a'], 1)} to {shown(most['log_odds_b'], 1)}; it {_verb(most)}",
        }
    apart = [line for line in lines if line["part_a"] is not None]
    late = [line for line in apart if line["common"]]
    yield {
        "value": f"{len(apart)} of {len(lines)}",
        "label": "prompts whose greedy answers differ",
        "note": f"in {len(late)} of these only after a common beginning" if late else "all from the first token on",
    }


def _verb(line: Line) -> str:
    return "flips" if line["flips"] else "does not flip"


def _prompts(tables: Tables, lines: Sequence[Line]) -> Iterator[dict[str, Any]]:
    """What the page shows of each prompt."""
    room = MOST_CELLS
    for line in lines:
        own = lines_of(tables, "attention", line)
        room -= len(own)
        scores = lines_of(tables, "answers", line)
        yield {
            **line,
            "parting": parting(line),
            "verdict": verdict(line["flips"]),
            "shift": shift(line),
            "same": in_common(line),
            "sides": [_side(tables, line, side) for side in "ab"],
            "scores": list(_scores(scores)),
            "steps": [_step(step) for step in lines_of(tables, "steps", line)],
            "heads": [(line[f"word_{side}"], _heads(own, side)) for side in "ab"] if own and room >= 0 else [],
        }


def _side(tables: Tables, line: Line, side: str) -> dict[str, Any]:
    own = side_of(line, side)
    drawn = [each for each in lines_of(tables, "samples", line) if each["side"] == side]
    top = strongest(tables, line, side)
    return {
        **own,
        "answer": whole(own["answer"], own["ended"]),
        "samples": [whole(each["answer"], each["ended"]) for each in drawn],
        "top": top and f"at most {shown(top['weight'], 2)}, head {top['head']} of layer {top['layer']}",
    }


def _scores(scores: Sequence[Line]) -> Iterator[dict[str, Any]]:
    """Given answers with both sides in one row."""
    a, b = ([each for each in scores if each["side"] == side] for side in "ab")
    for x, y in zip(a, b, strict=True):
        yield {"set": x["set"], "answer": x["answer"], "tokens": x["tokens"], "sides": (x, y)}


def _step(step: Line) -> dict[str, Any]:
    said = f"divergence {shown(step['js'], 3)}; probability {shown(step['p_a'])}, then {shown(step['p_b'])}"
    return {"token": step["token"].replace("\n", "⏎"), "strength": f"{step['js'] / LOG2:.2f}", "title": said}


def _heads(own: Sequence[Line], side: str) -> dict[str, Any]:
    """Layers down, heads across, both sides on one scale."""
    scale = max(line["weight"] for line in own) or 1.0
    rows: dict[int, list[dict[str, Any]]] = {}
    for line in own:
        if line["side"] == side:
            rows.setdefault(line["layer"], []).append(heat_cell(line["weight"], scale, False))
    words = range(max(map(len, rows.values())))
    named = [(layer if layer == 1 or layer % 5 == 0 else "", cells) for layer, cells in rows.items()]
    return {"corner": "layer", "words": words, "rows": named, "flat": True, "numbered": False, "scale": scale}
