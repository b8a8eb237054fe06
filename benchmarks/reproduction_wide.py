"""docs/reproduction-768.md: a run at the paper's own width, claim by claim beside docs/reproduction.md.

    oneword reproduce --scale paper --encoder mpnet --out DIR
    python -m benchmarks.reproduction_wide DIR

Numbers of this run come from its files, those beside them from the page of the other run.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks import reproduction
from benchmarks.reproduction import NAMES, PAPER, curves, measured, number, objectives
from oneword import theory
from oneword.experiments.results import read_results
from oneword.experiments.rows import complete, fits, of_map, one_word
from oneword.report.paper.claims import by_chance

TARGET = reproduction.TARGET.with_name("reproduction-768.md")
CUT = """
| what | trials or new texts here | at d = 384 |
|---|---|---|
| RF, n = 90 … 150 | 3 at d = 768, 4 at 384, 10 at 192 | 10 |
| RF, all positions | one trial at d = 192 | one each at 96 and 192 |
| deep RF, d = 192 | 5 at n = 15, 2 at 25, 35, 50 and 80 | 12, 6, 3 (d = 96), at 60 and 70 too |
| softmax and ReLU attention, d = 768 | 5; 2 at n = 400 | 10 |
| attention on Gaussian and clustered words | 3 | 5 |
| other scores | at d = 192, as there; sparsemax up to n = 50 | up to 100 |
| several words, RF | 6, at d = 96 | 6, at d = 96 |
| learning, RF | 20 new texts at n = 20 and 40 each, 8 at 14 and 28 | 18, 26, 15 |
| learning, texts to pre-train on | 1,300, as many as the paper's largest | 1,000 |
"""
TEXT = """# The paper at its own width, d = 768

`oneword reproduce --scale paper --encoder {encoder_name}` on word embeddings of IMDB reviews from layer 0 of
{encoders}, d = 192, 384, 768 as in the paper. It has the width of the paper's BERT-Base and is not BERT-Base:
another training, and no token types. Beside it the run of [the other page](reproduction.md), layer 0 of
all-MiniLM-L6-v2 at d = 96, 192, 384.

**{held} of {all} claims hold.** What the numbers are is said [there](reproduction.md). {chance}

So that it takes little more than an hour on two cores, some trials were cut:
{cut}
## Claim by claim
{claims}

## What changes with d
{widths}

The prediction for RF has no d in it where k = n·d, and S shows none. S of softmax attention is larger the wider the
words are, at every n, and its exponent in n is within a few hundredths of 0 at every width.

T3 asks for d/log⁴d = Ω(n), and log⁴d is larger than d at 768 as well ({log4:.0f}). So its condition is not met by any
text here, and what is seen of attention goes beyond the theorem. S of softmax attention by n/d:
{n_over_d}

## S against n, medians over trials (reviews)
{curves}

## Learning a one-word change: three objectives, medians over new texts
{objectives}

## How it was made

`oneword reproduce --scale {scale} --encoder {encoder_name}` on {machine}; {cells} cells, {workers} at a time,
{wall}{minutes} minutes of one core in all. {versions}. `python -m benchmarks.reproduction_wide DIR` writes this file.
"""
_ROW = re.compile(r"^\| ([\w-]+): .* \| ([^|]*) \| ([^|]*) \| ([^|]*) \|$", re.M)


def beside(page: str) -> dict[str, tuple[str, str]]:
    """What the other page says of each claim: measured, and whether it holds."""
    return {name: (found.strip(), holds.strip()) for name, _, found, holds in _ROW.findall(page)}


def claims(found: Sequence[Mapping[str, Any]], other: Mapping[str, tuple[str, str]]) -> list[str]:
    """One table a theorem: this run, and the other one."""
    lines: list[str] = []
    for start in PAPER:
        lines += ["", "| claim | predicted | d = 768 | holds | d = 384 | holds |", "|---|---|---|---|---|---|"]
        for claim in found:
            if str(claim["id"]).startswith(start):
                what = f"{claim['id']}: {claim['claim']} ({claim['note']})".replace("|", "∣")
                here, answer = measured(claim)
                there = " | ".join(other.get(str(claim["id"]), ("", "")))
                lines.append(f"| {what} | {claim['predicted']} | {here} | {answer} | {there} |")
    return lines


def widths(table: pd.DataFrame) -> list[str]:
    """The exponent of S in n, and S itself at the longest texts that all widths have, for each width."""
    rows, found = one_word(complete(table)), fits(table)
    lines = ["", "| map | d | exponent of S in n [95 %] | n | S, median |", "|---|---|---|---|---|"]
    for name in ("rf", "attention", "attention-relu"):
        fitted = found[(found["map"] == name) & (found["words_from"] == "corpus")]
        own = of_map(rows, name, "corpus")
        own = own[own["d"].isin(fitted["d"])]
        shared = set.intersection(*(set(some["n"]) for _, some in own.groupby("d"))) if len(own) else set()
        for line in fitted.sort_values("d").to_dict("records"):
            here = own[(own["d"] == line["d"]) & (own["n"] == max(shared, default=0))]["value"]
            interval = f"{number(line['slope'])} [{number(line['low'])}, {number(line['high'])}]"
            size = f"{max(shared):.0f} | {number(here.median())}" if shared else " | "
            lines.append(f"| {NAMES[name].split(',')[0]} | {line['d']:.0f} | {interval} | {size} |")
    return lines


def n_over_d(table: pd.DataFrame) -> list[str]:
    """Medians of S of softmax attention by n/d, a column for each width."""
    rows = of_map(one_word(complete(table)), "attention", "corpus")
    if rows.empty:
        return ["", "No rows of softmax attention."]
    rows = rows.assign(share=(rows["n"] / rows["d"]).round(3))
    medians = rows.pivot_table(index="share", columns="d", values="value", aggfunc="median")
    lines = ["", "| n/d | " + " | ".join(f"d = {d:.0f}" for d in medians) + " |", "|---" * (1 + medians.shape[1]) + "|"]
    lines += [f"| {share:.3f} | " + " | ".join(map(number, line)) + " |" for share, line in medians.iterrows()]
    return lines


def page(folder: Path) -> str:
    """The whole document."""
    run = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    found = json.loads((folder / "verdict.json").read_text(encoding="utf-8"))["claims"]
    table = read_results(folder / "results.parquet")
    return TEXT.format(
        **reproduction.how_it_was_made(run),
        encoder_name=run["command"].partition("--encoder ")[2].partition(" ")[0] or "mpnet",
        encoders=", ".join(sorted(table["encoder"].dropna().unique())),
        held=sum(claim["holds"] is True for claim in found),
        all=len(found),
        chance=by_chance(claim["intervals"] for claim in found),
        cut=CUT,
        claims="\n".join(claims(found, beside(reproduction.TARGET.read_text(encoding="utf-8")))),
        widths="\n".join(widths(table)),
        log4=theory.log4(768.0),
        n_over_d="\n".join(n_over_d(table)),
        curves="\n".join(curves(table)),
        objectives="\n".join(objectives(table)),
    )


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("expected the folder of a run: python -m benchmarks.reproduction_wide DIR")
    TARGET.write_text(page(Path(sys.argv[1])), encoding="utf-8")
    print(f"written to {TARGET.name}")
