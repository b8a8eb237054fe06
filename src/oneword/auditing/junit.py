"""Verdicts as JUnit XML, which every CI server reads: one suite a model, one test case a threshold."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pandas as pd


def junit(verdicts: pd.DataFrame, seconds: float) -> bytes:
    """The whole file."""
    missed = int((~verdicts["passed"].astype(bool)).sum())
    root = ElementTree.Element(
        "testsuites", name="oneword audit", tests=str(len(verdicts)), failures=str(missed), time=f"{seconds:.1f}"
    )
    for model, some in verdicts.groupby("model", sort=False):
        failed = some[~some["passed"].astype(bool)]
        suite = ElementTree.SubElement(
            root, "testsuite", name=_plain(str(model)), tests=str(len(some)), failures=str(len(failed)), errors="0"
        )
        for line in some.to_dict("records"):
            case = ElementTree.SubElement(
                suite, "testcase", classname=f"oneword.auditing.{_plain(str(model))}", name=_plain(line["what"])
            )
            if not line["passed"]:
                failure = ElementTree.SubElement(case, "failure", message=_plain(line["why"]), type="threshold")
                failure.text = ", ".join(
                    f"{name} {line[name]:.6g}"
                    for name in ("wanted", "got", "low", "high")
                    if not math.isnan(line[name])
                )
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _plain(text: str) -> str:
    """Without characters that XML cannot hold."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
