"""Are the claims decided by the seed? `python -m benchmarks.seeds DIR 1-10` runs the quick scale at other seeds.

DIR holds one folder a seed, and what is there is not done again. The answers go to docs/seeds.json, from which
`benchmarks.reproduction` makes a table. Names of figures (`… DIR 1-10 fig2 words`) do those alone: claims about the
others are then left out of the file.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from oneword.experiments import paper
from oneword.experiments.claims import verdict
from oneword.experiments.judging import Claim
from oneword.experiments.making import versions
from oneword.experiments.run import run
from oneword.report.table import shown

SCALE = "quick"
# The figures whose rows a claim rests on, by the beginning of its name; others rest on all of them.
FIGURES = {
    "T1": "fig2",
    "T2": "fig2",
    "T3": "fig3",
    "contrast": "fig3",
    "m-words": "words",
    "T4": "fig4-5",
    "T5": "fig4-5",
}
CHOSEN_WITH = (0, 1, 2)  # seeds that were looked at while sizes and trials of the quick scale were chosen
TARGET = Path(__file__).parents[1] / "docs" / "seeds.json"


def answers(folder: Path, seed: int, figures: Sequence[str]) -> list[Claim]:
    """The claims that rest on these figures, at one seed."""
    claims = verdict(run(paper.cells(SCALE, figures, seed=seed), folder / f"seed-{seed}"))
    return [claim for claim in claims if _needed(claim.id) <= set(figures)]


def _needed(name: str) -> set[str]:
    found = {figure for start, figure in FIGURES.items() if name.startswith(start)}
    return found or set(paper.figures(SCALE))


def measure(folder: Path, seeds: Iterable[int], figures: Sequence[str] = ()) -> dict[str, Any]:
    """The answers at every seed, and what they were made with."""
    figures = list(figures) or paper.figures(SCALE)
    found: dict[str, list[Claim]] = {}
    for seed in seeds:
        found[str(seed)] = answers(folder, seed, figures)
        print(f"seed {seed}:", *(f"{c.id} {c.holds}" for c in found[str(seed)] if c.holds is not True), flush=True)
    return {
        "scale": SCALE,
        "figures": figures,
        "versions": dict(versions()),
        "seeds": {seed: [claim.to_json() for claim in claims] for seed, claims in found.items()},
    }


def table(measured: Mapping[str, Any]) -> list[str]:
    """One line a claim: at how many seeds it holds, stays open and fails, and how far its intervals reached."""
    lines = ["| claim | predicted | holds | open | fails | measured | ends of the intervals |", "|---" * 7 + "|"]
    every = [claim for claims in measured["seeds"].values() for claim in claims]
    for name in dict.fromkeys(claim["id"] for claim in every):
        those = [claim for claim in every if claim["id"] == name]
        counts = " | ".join(str(sum(claim["holds"] is answer for claim in those)) for answer in (True, None, False))
        values, lows, highs = ([c[end] for c in those if c[end] is not None] for end in ("measured", "low", "high"))
        span = f"{shown(min(values))} to {shown(max(values))}" if values else ""
        ends = f"{shown(min(lows))}, {shown(max(highs))}" if lows else ""
        lines.append(f"| {name} | {those[0]['predicted']} | {counts} | {span} | {ends} |")
    return lines


def _seeds(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        raise SystemExit("expected a folder and seeds: python -m benchmarks.seeds DIR 1-10 [FIGURE …]")
    result = measure(Path(sys.argv[1]), _seeds(sys.argv[2]), sys.argv[3:])
    TARGET.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print("\n".join(table(result)))
