"""A trained model at a text, as a person reads it: the tables, the word that moves it most, what the numbers are.

`Profiled` holds the tables of one model and one text. A page, a terminal and figures show a sequence of them; what was
not measured is an empty table, a column that is not there, or a gap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from oneword.maps.outputs import spoken
from oneword.report.table import shown, to_records

Line = Mapping[str, Any]

WORDS = [
    "position", "word", "start", "end", "tokens", "sup", "upper", "first_order", "random_ball", "random_word",
    "best_word", "replacement", "kind", "below_noise",
]  # fmt: skip
# What may colour a text, under which name.
SHADES = {"sup": "searched change (S ≥)", "best_word": "best real word", "random_word": "random word"}


@dataclass(frozen=True, eq=False)
class Profiled:
    """One model at one text.

    | field | one line a | columns |
    |---|---|---|
    | `words` | word | `WORDS`: start and end are NA for special tokens, kind is "exact", "shortlist" or "sampled" |
    | `layers` | word and layer 0 … L | position, word, layer, value, how |
    | `heads` | layer 1 … L and head 0 … | layer, head, change, before, after |

    `noise` is the relative change that batch size and padding alone make; NaN if it was not measured.
    """

    model: str
    text: str
    objective: str
    noise: float
    words: pd.DataFrame
    layers: pd.DataFrame = field(default_factory=pd.DataFrame)
    heads: pd.DataFrame = field(default_factory=pd.DataFrame)
    about: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def complete(self) -> pd.DataFrame:
        """The words with every column there."""
        return self.words.reindex(columns=WORDS)

    def quiet(self, value: float | None) -> bool:
        """Whether a change is no larger than the noise."""
        return value is not None and value <= self.noise


# Words ----------------------------------------------------------------------------------------------------------------


def by_sup(profile: Profiled) -> list[dict[str, Any]]:
    """The words as plain values, None where there is none; those that move the model most come first."""
    return to_records(profile.complete.sort_values("sup", ascending=False, kind="stable", na_position="last"))


def top_word(profile: Profiled) -> Line | None:
    """The word of the text that moves the model most; a special token only where nothing else was measured."""
    known = [line for line in by_sup(profile) if line["sup"] is not None]
    return next((line for line in known if line["start"] is not None), next(iter(known), None))


def leading(profile: Profiled, most: int) -> pd.DataFrame:
    """The words that move the model most, in the order of the text."""
    return profile.complete.sort_values("sup", ascending=False, kind="stable").head(most).sort_values("position")


def placed(profile: Profiled) -> pd.DataFrame:
    """The words that stand in the text, as `words.pieces` takes them; special tokens where there is nothing else."""
    words = profile.complete.assign(text=0, window=0, map=profile.model)
    own = words[words["start"].notna()]
    return words if own.empty else own


def ends(profiles: Sequence[Profiled], column: str) -> tuple[float, float] | None:
    """The ends of a scale of colours for words of all these models, noise left out; None where there is no value."""
    shown_words = [words[words["below_noise"] != True] for words in map(placed, profiles)]  # noqa: E712  or a gap
    values = pd.concat([words[column].astype("float64") for words in shown_words]).dropna()
    return None if values.empty else (float(values.min()), float(values.max()))


def at_least(line: Line) -> str:
    """The sign before the value of the best word: unless every word was tried, there may be a better one."""
    return "" if line["kind"] == "exact" or line["best_word"] is None else "≥ "


def becomes(line: Line) -> str:
    return "–" if line["replacement"] is None else str(line["replacement"])


def by_text(profiles: Sequence[Profiled]) -> list[tuple[str, list[Profiled]]]:
    """The models of each text, in the order in which they were given."""
    found: dict[str, list[Profiled]] = {}
    for profile in profiles:
        found.setdefault(profile.text, []).append(profile)
    return list(found.items())


# Sentences ------------------------------------------------------------------------------------------------------------


def percent(x: float) -> str:
    """A relative change in per cent: whole numbers where they say enough."""
    return f"{shown(100 * x, 0 if x >= 0.095 else 1)} %"


def headline(profile: Profiled) -> str:
    """What one word can do, in one sentence."""
    kind, _, rest = profile.objective.partition(", ")
    thing, whose, it = spoken(kind)
    moved = f"{thing}{f' ({rest})' if rest else ''} of {profile.model}"
    top = top_word(profile)
    if top is None:
        return f"No word was measured in {profile.model}."
    if profile.quiet(top["sup"]):
        return (
            f"No single word moves {moved} by more than batch size and padding do, "
            f"{percent(profile.noise)} of {whose} length."
        )
    said = f"Changing “{top['word']}” can move {moved} by {percent(top['sup'])} of {whose} length"
    others = []
    if top["best_word"] is not None:
        tried = "" if top["kind"] == "exact" else " tried"
        others.append((f"the best real word{tried}, “{becomes(top)}”,", top["best_word"]))
    if top["random_word"] is not None:
        others.append(("a random word in its place", top["random_word"]))
    clauses = [f"{who} {f'moves {it} ' if k == 0 else ''}by {percent(value)}" for k, (who, value) in enumerate(others)]
    return said + (f"; {', '.join(clauses)}" if clauses else "") + "."


def ceiling_line(profile: Profiled) -> str | None:
    """The upper bound of the most sensitive word, what it covers and how much of it was reached; or why there is none.

    None where nothing was measured yet.
    """
    top, how = top_word(profile), str(profile.about.get("certificate", ""))
    if top is None or not how:
        return None
    if top["upper"] is None:
        return how[:1].upper() + how[1:] + "."
    bound, covers = f"S ≤ {shown(top['upper'], 2)}", how.removeprefix("ceiling: ")
    said = f"{bound} ({how})" if covers == how else f"Ceiling: {bound} for {covers}"
    return f"{said}; “{top['word']}” reaches {percent(top['sup'] / top['upper'])} of it."


def head_line(profile: Profiled) -> Line | None:
    """The head whose attention the most sensitive word moves most."""
    if profile.heads.empty:
        return None
    return next(iter(to_records(profile.heads.sort_values("change", ascending=False, kind="stable").head(1))))


def hows(layers: pd.DataFrame) -> str:
    """Which layers were searched, and which were looked at where another search had ended."""
    found = {
        str(how): sorted({int(layer) for layer in some["layer"]}) for how, some in layers.groupby("how", sort=False)
    }
    return "; ".join(f"layer{'s' if len(each) > 1 else ''} {ranges(each)}: {how}" for how, each in found.items())


def ranges(whole: Sequence[int]) -> str:
    """0, 1, 2, 5 as 0–2, 5."""
    runs: list[list[int]] = []
    for k in whole:
        if runs and k == runs[-1][-1] + 1:
            runs[-1].append(k)
        else:
            runs.append([k])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def noise_lines(profiles: Sequence[Profiled]) -> Iterator[str]:
    """For each model how large the noise is, and how many words stay below it."""
    for model in dict.fromkeys(profile.model for profile in profiles):
        mine = [profile for profile in profiles if profile.model == model and not math.isnan(profile.noise)]
        if not mine:
            continue
        below = sum(bool(line["below_noise"]) for profile in mine for line in by_sup(profile))
        count = sum(len(profile.words) for profile in mine)
        which = f"{below} of {count} words stay below it and are grey" if below else "every word is above it"
        noise = max(profile.noise for profile in mine)
        by = f"move it by {shown(noise, 1)} of its length" if noise > 0 else "do not move it"
        yield f"{model}: batch size and padding alone {by}; {which}."


def meanings(profiles: Sequence[Profiled]) -> Iterator[str]:
    """How to read the numbers."""
    within = "; ".join(dict.fromkeys(_within(profile.about) for profile in profiles))
    whose = ", where ‖x‖ is the norm of the word’s own embedding" if "‖x‖" in within else ""
    yield (
        "S ≥ is the largest ‖φ(X′) − φ(X)‖ / ‖φ(X)‖ that a search found when the embedding x of one word moves by Δ, "
        f"{within}{whose}. That change attains it: a lower bound."
    )
    yield (
        "S ≤ is a ceiling: where a model ends in a norm, its output stays in a known range whatever the words are. It "
        "covers changes of any size and knows no radius; the true sup lies between S ≥ and S ≤."
    )
    yield "Δ is a vector, not a word. The embedding that it leads to belongs, as a rule, to no word at all."
    yield "First order is r‖J‖/‖φ(X)‖, r the largest ‖Δ‖: what the Jacobian at the text predicts, and no bound."
    yield (
        "The best word is the largest change among the real words that were tried; it is exact where all of the "
        "vocabulary was tried, else a lower bound (≥). A real word may lie further away than Δ reaches and so do more "
        "than S. A random word and a random Δ are means."
    )
    if any(len(profile.layers) for profile in profiles):
        yield "Layer 0 is the embeddings. A layer that was not searched is shown at the change found for another one."
    if any(len(profile.heads) for profile in profiles):
        yield (
            "Heads: total variation distance between attention before and after the most sensitive word changes, the "
            "share of it that goes elsewhere, on average over rows."
        )
    yield from noise_lines(profiles)


def _within(about: Mapping[str, Any]) -> str:
    """How far a word may move; by its own norm unless the provenance says something else."""
    return str(about.get("within", {}).get("shown", "‖Δ‖ ≤ ‖x‖"))
