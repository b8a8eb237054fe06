"""`make bench`: prints ratios, each measured in this run."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from benchmarks import learning, models, speed, vocabulary

BARS = {
    "one_position_times_faster_than_protocol": "≥ 5,000",
    "all_positions_quick_times_faster_than_protocol": "≥ 100,000",
    "all_positions_full_times_faster_than_protocol": "≥ 5,000",
    "one_position_times_faster_than_same_search_recomputed": "≥ 8",
    "all_positions_times_faster_than_same_search_recomputed": "≥ 100",
    "all_position_step_over_bare_gemms": "≤ 3",
    "rf_peak_memory_gb": "≤ 1.5",
}


def main() -> None:
    console = Console()
    for title, bars, numbers in (
        ("attention, n = 250, d = 768, one thread", BARS, speed.attention(1)),
        ("attention, n = 250, d = 768, two threads", BARS, speed.attention(2)),
        ("how the cost of one position grows", BARS, speed.cost_exponents()),
        ("random features, n = 150, d = 768, k = D, one position in law", BARS, speed.random_features()),
        ("retrained error of attention, n = 120, d = 384, N = 1,000, one thread", learning.BARS, learning.speed()),
        ("every word of a vocabulary at every position, one thread, float32", vocabulary.BARS, vocabulary.speed()),
        ("all-MiniLM-L6-v2, pooled, all positions of 64 tokens", models.BARS, models.inside_the_model()),
    ):
        table = Table(title=title, title_justify="left", box=None)
        for column in ("", "measured", "bar"):
            table.add_column(column, justify="left" if not column else "right")
        for name, number in numbers.items():
            table.add_row(
                name.replace("_", " "), f"{number:,.4g}" if number < 1e4 else f"{number:,.0f}", bars.get(name, "")
            )
        console.print(table, "")


if __name__ == "__main__":
    main()
