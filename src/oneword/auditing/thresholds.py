"""Requirements for an encoder, from a TOML file or as text, and verdicts on them, also as JUnit XML for CI servers.

| section | of | requirement |
|---|---|---|
| `auc` | signal types | AUC against the pooled noise is at least this |
| `floor` | signal types | the typical relative change is at least this |
| `ceiling` | noise types | the typical relative change is at most this |
| `chunk` | signal types | the signal is heard in chunks of at least this many tokens |
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Annotated, Any
from xml.etree import ElementTree

import pandas as pd
from pydantic import Field

from oneword.auditing.edits import NOISE, SIGNAL, Kind
from oneword.checks import printable, shown
from oneword.errors import RangeError, UnknownNameError, did_you_mean
from oneword.validation import FileModel, read_model, read_toml

SECTIONS: dict[str, Kind] = {"auc": SIGNAL, "floor": SIGNAL, "ceiling": NOISE, "chunk": SIGNAL}
VERDICTS = ["model", "what", "wanted", "got", "low", "high", "passed", "why"]
_Limits = dict[str, Annotated[float, Field(ge=0.0, allow_inf_nan=False)]]


class Thresholds(FileModel):
    """Limits by section and type of edit.

    `certain`: the whole interval must meet a limit. `fail_deaf` (the default): a signal that is not heard
    at all fails, even without a limit.
    """

    auc: dict[str, Annotated[float, Field(ge=0.0, le=1.0)]] = Field(default_factory=dict)
    floor: _Limits = Field(default_factory=dict)
    ceiling: _Limits = Field(default_factory=dict)
    chunk: _Limits = Field(default_factory=dict)
    certain: bool = False
    fail_deaf: bool = True

    @classmethod
    def of(cls, given: Thresholds | Mapping[str, Any] | str | os.PathLike[str] | None) -> Thresholds:
        """Thresholds as they are, the name of a TOML file, or a mapping such as {"auc": {"negation": 0.7}}.

        Raises FileFormatError, UnknownNameError or RangeError where the file or mapping cannot be understood.
        """
        if isinstance(given, Thresholds):
            return given
        if isinstance(given, str | os.PathLike):
            path = Path(given)
            return read_model(cls, read_toml(path, "thresholds as TOML"), path.name)
        if not (given is None or isinstance(given, Mapping)):
            raise RangeError(f"expected thresholds= a dict or a TOML file, got {shown(given)}: write {{'auc': {{…}}}}")
        return read_model(cls, {} if given is None else dict(given), "thresholds")

    @classmethod
    def parse(cls, lines: Sequence[str]) -> Thresholds:
        """From texts, each the name of a TOML file or a limit such as "auc.negation=0.7"; later ones win.

        `certain` and `fail_deaf` are written "certain=true" and "fail_deaf=false".
        """
        found: dict[str, Any] = {}
        for line in lines:
            name, equals, value = (part.strip() for part in line.partition("="))
            section, dot, type = name.partition(".")
            if not equals and name.endswith(".toml"):
                read = cls.of(name).model_dump(exclude_unset=True)
                for key, limits in read.items():
                    found[key] = found.get(key, {}) | limits if isinstance(limits, dict) else limits
            elif equals and dot:
                read_model(cls, {section: {type: _number(value, line)}}, "thresholds")
                found.setdefault(section, {})[type] = _number(value, line)
            elif equals and value in ("true", "false") and name in ("certain", "fail_deaf"):
                found[name] = value == "true"
            else:
                raise RangeError(
                    f"expected a threshold as auc.negation=0.7 or the name of a .toml file, got {shown(line)}"
                )
        return cls(**found)

    @property
    def limits(self) -> dict[str, dict[str, float]]:
        """The limits by section and type, without sections that have none."""
        return {section: dict(getattr(self, section)) for section in SECTIONS if getattr(self, section)}

    def check(self, kinds: Mapping[str, Kind], lengths: Sequence[int]) -> None:
        """Raise UnknownNameError for a type that the audit does not have, RangeError for a length it does not test."""
        for section, limits in self.limits.items():
            known = [type for type, kind in kinds.items() if kind == SECTIONS[section]]
            for type, limit in limits.items():
                if type not in known:
                    raise UnknownNameError(
                        f"expected {section}. of {', '.join(known) or 'no type'}, got {type!r}"
                        f"{did_you_mean(type, known)}"
                    )
                if section == "chunk" and limit > max(lengths):
                    raise RangeError(
                        f"expected chunk.{type} of at most {max(lengths)}, the longest length tried, got {limit:g}: "
                        "try longer lengths"
                    )


def verdicts(
    thresholds: Thresholds, model: str, types: pd.DataFrame, chunks: pd.DataFrame, named: Iterable[str] = ()
) -> Iterator[dict[str, Any]]:
    """One row per threshold for this model; what could not be measured has not passed.

    The same holds for signals that are requested by name, in `named` or by a threshold, but have a place in no text.
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
            found = "no tested length" if section == "chunk" and got == 0 else _shown(got, low, high)
            why = f"{section} of {type}: wanted {sign} {wanted:g}, got {found}"
            yield {"model": model, "what": f"{section}.{type}", "wanted": wanted, "got": got, "low": low,
                   "high": high, "passed": bool(passed), "why": why}  # fmt: skip
    if thresholds.fail_deaf:
        limited = (type for limits in thresholds.limits.values() for type in limits)
        yield from _deaf(model, types, {*named, *limited})


def _deaf(model: str, types: pd.DataFrame, named: Set[str]) -> Iterator[dict[str, Any]]:
    """One row per signal: does the model hear it at all?"""
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


def _number(value: str, line: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise RangeError(f"expected a number in the threshold {shown(line)}, got {shown(value)}: correct it") from None


# JUnit ----------------------------------------------------------------------------------------------------------------


def junit(verdicts: pd.DataFrame, seconds: float) -> bytes:
    """Verdicts as JUnit XML: one suite per model, one test case per threshold."""
    about = {"name": "oneword audit", **_counts(verdicts), "time": f"{seconds:.1f}"}
    root = ElementTree.Element("testsuites", about)
    for model, some in verdicts.groupby("model", sort=False):
        name = printable(str(model))
        suite = ElementTree.SubElement(root, "testsuite", {"name": name, **_counts(some), "errors": "0"})
        for line in some.to_dict("records"):
            what = {"classname": f"oneword.audit.{name}", "name": printable(line["what"])}
            case = ElementTree.SubElement(suite, "testcase", what)
            if not line["passed"]:
                failure = ElementTree.SubElement(case, "failure", message=printable(line["why"]), type="threshold")
                known = [name for name in ("wanted", "got", "low", "high") if not math.isnan(line[name])]
                failure.text = ", ".join(f"{name} {line[name]:.6g}" for name in known)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _counts(verdicts: pd.DataFrame) -> dict[str, str]:
    return {"tests": str(len(verdicts)), "failures": str(int((~verdicts["passed"].astype(bool)).sum()))}
