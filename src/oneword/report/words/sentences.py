"""The table of words in sentences: what one word can do, what the numbers are, what they cover."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from oneword.checks import layer_ranges, ranges
from oneword.maps.outputs import spoken
from oneword.progress import duration
from oneword.report.table import shown, to_records
from oneword.report.words.lines import Line, leading, scales, top_line
from oneword.report.words.prompts import LEFT_OUT, MEANING, is_prompt, prompt_bracket, prompt_headline
from oneword.report.words.table import Part, Subject, WordTable

_KINDS = {
    "exact": "exact over them",
    "shortlist": "a lower bound (≥), from a gradient shortlist",
    "sample": "a lower bound (≥), since only some of those that fit were tried",
}


def percent(x: float) -> str:
    """A relative change in per cent: whole numbers where they say enough."""
    return f"{shown(100 * x, 0 if x >= 0.095 else 1)} %"


def headline(part: Part) -> str:
    """What one word can do, in one sentence."""
    subject = part.subject
    if is_prompt(part):
        return prompt_headline(part)
    kind, _, rest = subject.what.partition(", ")
    thing, whose, it = spoken(kind or "the output")
    moved = f"{thing}{f' ({rest})' if rest else ''} of {subject.title}"
    top = top_line(part)
    if top is None:
        return f"No word was measured in {subject.title}."
    if subject.quiet(top["value"]):
        return (
            f"No single word moves {moved} by more than batch size and padding do, "
            f"{percent(subject.noise)} of {whose} norm."
        )
    said = f"Changing “{top['word']}” can move {moved} by {percent(top['value'])} of {whose} norm"
    others = []
    if not math.isnan(top["best_word"]):
        tried = "" if top["kind"] == "exact" else " tried"
        others.append((f"the best real word{tried}, “{top['replacement']}”,", top["best_word"]))
    if not math.isnan(top["random_word"]):
        others.append(("a random word in its place", top["random_word"]))
    clauses = [f"{who} {f'moves {it} ' if k == 0 else ''}by {percent(value)}" for k, (who, value) in enumerate(others)]
    return said + (f"; {', '.join(clauses)}" if clauses else "") + "."


def bracket(part: Part) -> str:
    """The most sensitive word with its lower and upper bound."""
    top = top_line(part)
    if is_prompt(part):
        return prompt_bracket(part)
    if top is None:
        by = "first order, which is no bound," if "first_order" in scales(part) else "a random real word in each place,"
        return f"coloured by {by} while the search goes on"
    upper = part.words.loc[part.words["value"].notna(), "upper"].max(skipna=False)
    kind = "ceiling" if top["upper_kind"] == "ceiling" else "certified"
    bound = f", S ≤ {shown(upper, 2)} ({kind})" if pd.notna(upper) else ", no upper bound"
    return f"S ≥ {shown(top['value'], 2)} at “{top['word']}” (found){bound}"


def first_answer(part: Part, most: int = 3) -> str:
    """The words that matter most as far as is known before the search: an estimate or a sample, never a bound."""
    if is_prompt(part):
        return prompt_headline(part)
    said = []
    for column, what in (("first_order", "first order (no bound) at"), ("random_word", "random word at")):
        known = part.placed[part.placed[column].notna()]
        if len(known):
            words = ", ".join(f"“{line['word']}” {shown(line[column], 2)}" for line in leading(known, column, most))
            said.append(f"{what} {words}")
    return f"{part.subject.title}: most {'; '.join(said)}" if said else f"{part.subject.title}: nothing is known yet"


def first_line(table: WordTable, seconds: float) -> str:
    """When the first answer came, what it is, and how long the rest will take."""
    rest = "" if table.seconds_left is None else f", about {duration(table.seconds_left)} left"
    what = "words left out" if any(map(is_prompt, table.parts)) else "random words and first order"
    return f"first answer after {duration(seconds)}: {what}; refining{rest}"


def upper_bound(part: Part) -> str | None:
    """The upper bound of the most sensitive word, what it covers and how much of it was reached; or why there is none.

    None where nothing was measured yet.
    """
    top, how = top_line(part), part.subject.certificate
    if top is None or not how:
        return None
    if math.isnan(top["upper"]):
        return how[:1].upper() + how[1:] + "."
    bound, covers = f"S ≤ {shown(top['upper'], 2)}", how.removeprefix("ceiling: ")
    said = f"{bound} ({how})" if covers == how else f"Ceiling: {bound} for {covers}"
    return f"{said}; “{top['word']}” reaches {percent(top['value'] / top['upper'])} of it."


def together(table: WordTable, part: Part) -> Iterator[str]:
    """Several words changed at once, where that was asked for."""
    if table.joint.empty:
        return
    same = (table.joint["text"] == part.subject.text) & (table.joint["by"] == part.subject.by)
    for line in to_records(table.joint[same]):
        upper = "no upper bound" if line["upper"] is None else f"S ≤ {shown(line['upper'], 2)}"
        at = ", ".join(map(str, line["positions"]))
        yield (
            f"{part.subject.title}: {len(line['positions'])} words at once ({line['word']}; positions {at}): "
            f"S ≥ {shown(line['value'], 2)}, {upper}"
        )


def top_head(part: Part) -> Line | None:
    """The head whose attention the most sensitive word moves most."""
    if part.heads.empty:
        return None
    return next(iter(to_records(part.heads.sort_values("change", ascending=False, kind="stable").head(1))))


def layers_found(layers: pd.DataFrame) -> str:
    """Which layers were searched, and which were evaluated at a change found for another one."""
    found = {
        str(how): sorted({int(layer) for layer in some["layer"]}) for how, some in layers.groupby("how", sort=False)
    }
    return "; ".join(f"{layer_ranges(each)}: {how}" for how, each in found.items())


def meanings(table: WordTable) -> Iterator[str]:
    """How to read the numbers."""
    about, kinds = table.about, {subject.kind for subject in table.subjects}
    within = _allowed(table.subjects)
    whose = ", where ‖x‖ is the norm of the word’s own embedding" if "‖x‖" in within else ""
    if "prompt" in kinds:
        yield MEANING
        yield LEFT_OUT
    yield (
        "S ≥ is the largest ‖φ(X′) − φ(X)‖ / ‖φ(X)‖ that a search found when the embedding x of one word moves by Δ, "
        f"{within}{whose}. That change attains it: a lower bound. Δ is a vector; as a rule no word has that embedding."
    )
    if (table.words["upper_kind"] == "certificate").any():
        yield "S ≤ of a map is certified: no allowed change exceeds it."
    for part in table.parts:
        if part.subject.certificate.startswith("no certificate"):
            yield f"{part.subject.title}: {part.subject.certificate}."
    if "model" in kinds:
        yield (
            "S ≤ of a model is a ceiling: where a model ends in a norm, its output stays in a known range whatever the "
            "words are. It covers changes of any size; the true sup lies between S ≥ and S ≤."
        )
        yield "First order is r‖J‖/‖φ(X)‖, r the largest ‖Δ‖: what the Jacobian at the text predicts, and no bound."
    if table.words["best_word"].notna().any():
        yield from _real_words(table)
    if about.get("encoder"):
        encoder, seeds = about["encoder"], about.get("seeds", [])
        weights = f"mean ± standard deviation over {len(seeds)} seeds" if len(seeds) > 1 else "one seed"
        drawn = f"; random weights: {weights} ({', '.join(map(str, seeds))})" if seeds else ""
        yield f"Maps read layer {encoder['layer']} of {encoder['encoder']}, d = {about['d']}{drawn}."
    special = ", ".join(about.get("special tokens", ()))
    if special:
        what = "may change, too" if about["special tokens change"] else "are in the text, but only its own words change"
        yield f"Special tokens ({special}) {what}."
    if len(table.layers):
        yield "Layer 0 is the embeddings. A layer that was not searched is shown at the change found for another one."
    if len(table.heads):
        yield (
            "Heads: total variation distance between attention before and after the most sensitive word changes, the "
            "share of it that goes elsewhere, on average over rows."
        )
    yield from noise_lines(table)


def _allowed(subjects: Sequence[Subject]) -> str:
    """The allowed changes; where maps and models differ, whose they are."""
    found: dict[str, list[str]] = {}
    for subject in subjects:
        if subject.within:
            found.setdefault(subject.within, []).append(f"{subject.kind}s")
    if len(found) < 2:
        return "".join(found)
    return ", ".join(f"{within} for {' and '.join(dict.fromkeys(kinds))}" for within, kinds in found.items())


def _real_words(table: WordTable) -> Iterator[str]:
    """What was tried, and which kind of number the best word is."""
    tried = table.about.get("tried") or {}
    pairs = ", ".join(f"{name} {count:,}" for name, count in tried.get("pairs", {}).items())
    source = (table.about.get("words") or {}).get("shown", "the vocabulary")
    said = f"of the (position, word) pairs tried ({pairs})" if pairs else "of those tried"
    found: dict[str, list[str]] = {}
    for subject, some in table.words.dropna(subset="kind").groupby("by", sort=False):
        for kind in some["kind"].unique():
            found.setdefault(_KINDS[kind], []).append(str(subject))
    each = "; ".join(f"{bound}: {', '.join(names)}" for bound, names in found.items())
    far = table.words["random_distance"].mean()
    distance = f", at ‖Δ‖ = {far:.2f} √d for maps" if pd.notna(far) else ""
    yield f"Best word: the real word {said}, from {source}, that changes most. {each[:1].upper() + each[1:]}."
    yield f"A random word is the mean over real words{distance}. Real words may lie further away than Δ reaches."


def noise_lines(table: WordTable) -> Iterator[str]:
    """For each model how large the noise is, and how many words stay below it."""
    for by in dict.fromkeys(subject.by for subject in table.subjects if not math.isnan(subject.noise)):
        mine = [part for part in table.parts if part.subject.by == by and not math.isnan(part.subject.noise)]
        below = sum(int(part.words["below_noise"].fillna(False).sum()) for part in mine)
        count = sum(len(part.words) for part in mine)
        which = f"{below} of {count} words stay below it and are grey" if below else "every word is above it"
        noise = max(part.subject.noise for part in mine)
        moved = f"move it by {shown(noise, 1)} of its norm" if noise > 0 else "do not move it"
        yield f"{mine[0].subject.title}: batch size and padding alone {moved}; {which}."


def provenance(table: WordTable) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What the numbers rest on: first what all share, then what all models share, then what belongs to one of them."""
    several = len(table.texts) > 1
    said = [{name: _short(value) for name, value in subject.about.items()} for subject in table.subjects]
    models = [each for subject, each in zip(table.subjects, said, strict=True) if subject.kind == "model"]
    everywhere, common = len(models) == len(said), {}
    if everywhere or len(models) > 1:
        first = next(iter(models), {})
        common = {name: value for name, value in first.items() if all(each.get(name) == value for each in models)}
    yield "", {**table.about, **(common if everywhere else {})}
    if common and not everywhere:
        yield "All models", common
    for subject, each in zip(table.subjects, said, strict=True):
        own = {name: value for name, value in each.items() if subject.kind != "model" or name not in common}
        if own:
            yield subject.title + (f", text {subject.text}" if several else ""), own


def _short(value: Any) -> Any:
    """Positions of a long text as runs."""
    whole = isinstance(value, list) and all(isinstance(each, int) for each in value)
    return ranges(value) if whole else value
