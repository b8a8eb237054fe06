"""What a corpus leaves out: why, how many rows, and where the first of them are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

_NAMED = 3  # places named for each reason: enough to look, short enough for one line


class Places(NamedTuple):
    """How many rows, and the first of them, counted from 1."""

    total: int
    first: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Skipped(Mapping[str, Places]):
    """A mapping from reason to places, empty if every row was used; `str` says it in one line.

    `rows` counts all rows, used or not. A place is a line of a text file, else a row or a file of a folder: `unit`.
    """

    rows: int
    unit: str
    reasons: Mapping[str, Places]

    @classmethod
    def at(cls, places: Mapping[str, Sequence[int]], *, rows: int, unit: str) -> Skipped:
        """From all places of each reason; the reason with most rows comes first."""
        found = {reason: Places(len(where), tuple(sorted(where)[:_NAMED])) for reason, where in places.items() if where}
        ordered = sorted(found.items(), key=lambda item: (-item[1].total, item[0]))
        return cls(rows, unit, MappingProxyType(dict(ordered)))

    @property
    def count(self) -> int:
        return sum(places.total for places in self.reasons.values())

    def __getitem__(self, reason: str) -> Places:
        return self.reasons[reason]

    def __iter__(self) -> Iterator[str]:
        return iter(self.reasons)

    def __len__(self) -> int:
        return len(self.reasons)

    def __str__(self) -> str:
        if not self:
            return f"none of {self.rows:,} rows skipped"
        return f"{self.count:,} of {self.rows:,} rows skipped: {self.why}"

    @property
    def why(self) -> str:
        """The reasons alone: 2 empty text (lines 3, 9), 1 unknown label (line 4)."""
        return ", ".join(f"{places.total:,} {reason} ({self._where(places)})" for reason, places in self.items())

    def _where(self, places: Places) -> str:
        more = ", …" if places.total > len(places.first) else ""
        return f"{self.unit}{'s' if places.total > 1 else ''} {', '.join(map(str, places.first))}{more}"
