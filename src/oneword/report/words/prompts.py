"""What the table of words says of prompts: log-odds of two sets of answers, and which word turns the answer."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pandas as pd

from oneword.report.table import shown
from oneword.report.words.lines import Line, top_line
from oneword.report.words.table import Part

MEANING = (
    "Log-odds say how much likelier the first answers are than the second: log p of one less log p of the other. Of "
    "prompts all numbers count changes toward the answer that is less likely, relative to the log-odds of the prompt: "
    "1 brings them to 0, more turns the answer, less than 0 is a change away from it."
)
LEFT_OUT = (
    "Left out: the prompt is sent without the word. Best word: the prompt is sent with that word typed in its place. "
    "S ≥ and first order move the word’s embedding, and as a rule no word has the one found."
)


def signed(odds: float) -> str:
    """Log-odds with their sign."""
    return f"{'+' if odds > 0 else ''}{shown(odds, 2)}"


def odds_after(part: Part, value: float) -> float:
    """The log-odds after a relative change."""
    return part.subject.log_odds * (1 - value)


def said(part: Part) -> str:
    """Which answers the model finds likelier."""
    odds, what = part.subject.log_odds, part.subject.what
    first, _, second = what.removeprefix("log-odds of ").partition(" over ")
    likelier, other = (first, second) if odds > 0 else (second, first)
    return f"{part.subject.title} finds {likelier} likelier than {other} (log-odds {signed(odds)})."


def prompt_headline(part: Part) -> str:
    """Which answers are likelier, and which word decides."""
    return " ".join([said(part), *_turns(part)])


def _turns(part: Part) -> Iterator[str]:
    left_out = top_line(part, "left_out")
    if left_out is not None:
        yield _turning(part, left_out, "left_out", f"Leaving out “{left_out['word']}”", "leaving out")
    typed = top_line(part, "best_word")
    if typed is not None:
        doing = f"Typing “{typed['replacement']}” in the place of “{typed['word']}”"
        yield _turning(part, typed, "best_word", doing, "typing another word")


def _turning(part: Part, line: Line, column: str, doing: str, others: str) -> str:
    """Whether this change turns the answer, and how many words have one that does."""
    known = part.words[column].dropna()
    turning, after = int((known > 1).sum()), signed(odds_after(part, line[column]))
    if line[column] <= 1:
        return f"{doing} comes nearest to turning it ({after})."
    more = f", and so does {others} at {turning - 1} more" if turning > 1 else ""
    return f"{doing} turns it ({after}){more}."


def prompt_bracket(part: Part) -> str:
    """The log-odds of the prompt, and what leaving out the word that decides makes of them."""
    line, odds = top_line(part, "left_out"), f"log-odds {signed(part.subject.log_odds)}"
    if line is None:
        return odds
    return f"{odds}; {signed(odds_after(part, line['left_out']))} without “{line['word']}”"


def prompt_card(part: Part) -> dict[str, str]:
    """The log-odds, and what each kind of change can make of them."""
    subject, found = part.subject, []
    for column, what in (("left_out", "without"), ("best_word", "with"), ("value", "with a vector found at")):
        line = top_line(part, column)
        if line is not None:
            word = f"“{line['replacement']}” for “{line['word']}”" if column == "best_word" else f"“{line['word']}”"
            found.append(f"{signed(odds_after(part, line[column]))} {what} {word}")
    note = "; ".join(found)
    return {"value": signed(subject.log_odds), "label": f"{subject.title}: {subject.what}", "note": note}


def answers_after(part: Part, line: Line) -> str:
    """For the pointer: the log-odds without the word, and with the best real word in its place."""
    found = [
        f"{what} {signed(odds_after(part, line[column]))}"
        for column, what in (("left_out", "left out:"), ("best_word", f"“{line['replacement']}”:"))
        if not math.isnan(line[column])
    ]
    return f"log-odds {signed(part.subject.log_odds)}; {', '.join(found)}" if found else ""


def is_prompt(part: Part) -> bool:
    return not pd.isna(part.subject.log_odds)
