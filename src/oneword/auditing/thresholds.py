"""What must hold, from a TOML file or flags, and whether it does.

| section | of | what must hold |
|---|---|---|
| `auc` | signal types | AUC against the pooled noise is at least this |
| `floor` | signal types | the typical relative change is at least this |
| `ceiling` | noise types | the typical relative change is at most this |
| `chunk` | signal types | the signal is heard in chunks of at least this many tokens |
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from oneword.auditing.edits import NOISE, SIGNAL, Kind
from oneword.errors import FileFormatError, RangeError, UnknownNameError, did_you_mean
from oneword.experiments.cell import real

SECTIONS: dict[str, Kind] = {"auc": SIGNAL, "floor": SIGNAL, "ceiling": NOISE, "chunk": SIGNAL}
_MOST = {"auc": 1.0, "floor": math.inf, "ceiling": math.inf, "chunk": math.inf}
VERDICTS = ["model", "what", "wanted", "got", "low", "high", "passed", "why"]
DEAF_TO = 1e-6  # a relative change below this is none: the last bits of float32


@dataclass(frozen=True)
class Thresholds:
    """`limits` by section and type. `certain`: the whole interval must meet them. `deaf`: fail what is not heard."""

    limits: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    certain: bool = False
    deaf: bool = True

    @classmethod
    def read(
        cls, path: Path | None, flags: Sequence[str] = (), *, certain: bool = False, deaf: bool = True
    ) -> Thresholds:
        """From a file and flags such as auc.negation=0.7; a flag wins."""
        found: dict[str, dict[str, float]] = {}
        given = {} if path is None else _toml(path)
        for section, lines in given.items():
            _check_section(section, f" in {path.name if path else ''}")
            if not isinstance(lines, dict):
                raise FileFormatError(f"expected [{section}] as a table of types, got {lines!r}: write negation = 0.7")
            found[section] = {str(type): _limit(section, str(type), value) for type, value in lines.items()}
        for flag in flags:
            name, equals, value = flag.partition("=")
            section, dot, type = name.strip().partition(".")
            if not (equals and dot):
                raise RangeError(f"expected --threshold as auc.negation=0.7, got {flag!r}")
            _check_section(section, "")
            found.setdefault(section, {})[type] = _limit(section, type, _number(value, flag))
        return cls(found, certain, deaf)

    def check(self, kinds: Mapping[str, Kind], lengths: Sequence[int]) -> None:
        """Refuse types that the audit does not have, and lengths that it does not try."""
        for section, limits in self.limits.items():
            known = [type for type, kind in kinds.items() if kind == SECTIONS[section]]
            for type, limit in limits.items():
                if type not in known:
                    hint = did_you_mean(type, known)
                    raise UnknownNameError(
                        f"expected {section}. of {', '.join(known) or 'no type'}, got {type!r}{hint}"
                    )
                if section == "chunk" and limit > max(lengths):
                    raise RangeError(
                        f"expected chunk.{type} of at most {max(lengths)}, the longest length tried, got {limit:g}: "
                        "try longer ones with --lengths"
                    )


def verdicts(
    thresholds: Thresholds, model: str, types: pd.DataFrame, chunks: pd.DataFrame, named: Iterable[str] = ()
) -> Iterator[dict[str, Any]]:
    """One line a threshold for this model; what could not be measured has not passed.

    So do signals that are asked for by name, here or by a threshold, and for which no text has a place.
    """
    measured, advised = types.set_index("type").to_dict("index"), chunks.set_index("type").to_dict("index")
    for section, limits in thresholds.limits.items():
        table = advised if section == "chunk" else measured
        column = {"auc": "auc", "chunk": "chunk"}.get(section, "change")
        for type, wanted in limits.items():
            line = table.get(type, {})
            got, low, high = (float(line.get(column + end, math.nan)) for end in ("", "_low", "_high"))
            most = section == "ceiling"
            judged = (high if most else low) if thresholds.certain else got
            passed = judged <= wanted if most else judged >= wanted  # NaN is neither
            sign = "at most" if most else "at least"
            found = "no length tried" if section == "chunk" and got == 0 else _shown(got, low, high)
            why = f"{section} of {type}: wanted {sign} {wanted:g}, got {found}"
            yield {"model": model, "what": f"{section}.{type}", "wanted": wanted, "got": got, "low": low,
                   "high": high, "passed": bool(passed), "why": why}  # fmt: skip
    if thresholds.deaf:
        limited = (type for limits in thresholds.limits.values() for type in limits)
        yield from _deaf(model, types, {*named, *limited})


def _deaf(model: str, types: pd.DataFrame, named: Set[str]) -> Iterator[dict[str, Any]]:
    """Whether the model hears each signal at all."""
    asked = (types["edits"] > 0) | types["type"].isin(named)
    for line in types[(types["kind"] == SIGNAL) & asked].to_dict("records"):
        drowned = not math.isnan(line["auc_high"]) and line["auc_high"] < 0.5
        silent = line["silent"] > 0.5
        against = f"AUC {_shown(line['auc'], line['auc_low'], line['auc_high'])}"
        why = f"{line['type']} moves it, and is not surely below the noise: {against}"
        if not line["edits"]:
            why = f"nothing was measured of {line['type']}: no text had a place for it"
        elif silent:
            why = f"deaf to {line['type']}: no change in {line['silent']:.0%} of texts"
        elif drowned:
            why = f"{line['type']} is drowned by noise: {against}, all of it below 0.5"
        found = {"got": line["auc"], "low": line["auc_low"], "high": line["auc_high"]}
        passed = line["edits"] > 0 and not (silent or drowned)
        yield {"model": model, "what": f"heard.{line['type']}", "wanted": 0.5, **found, "passed": passed, "why": why}


def _shown(got: float, low: float, high: float) -> str:
    if math.isnan(got):
        return "nothing measured"
    return f"{got:.3g}" if math.isnan(low) else f"{got:.3g} [{low:.3g}, {high:.3g}]"


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or next(iter(str(error).splitlines()), "")
        raise FileFormatError(f"expected thresholds as TOML, got {path.name} ({reason}): mend it") from None


def _check_section(section: str, where: str) -> None:
    if section not in SECTIONS:
        raise UnknownNameError(
            f"expected thresholds under {', '.join(SECTIONS)}, got {section!r}{where}{did_you_mean(section, SECTIONS)}"
        )


def _limit(section: str, type: str, value: object) -> float:
    return real(f"{section}.{type}", value, 0.0, _MOST[section])


def _number(value: str, flag: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise RangeError(f"expected a number in --threshold {flag!r}, got {value!r}") from None
