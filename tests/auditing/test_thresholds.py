"""What must hold: from files and texts, refused by name where it is not understood, judged as stated."""

import math
from xml.etree import ElementTree

import pandas as pd
import pytest

from oneword.auditing.thresholds import VERDICTS, Thresholds, junit, verdicts
from oneword.errors import FileFormatError, RangeError, UnknownNameError

KINDS = {"negation": "signal", "name": "signal", "typo": "noise"}


def types(**changes):
    line = {"kind": "signal", "edits": 9, "silent": 0.0, "change": 0.2, "change_low": 0.1, "change_high": 0.3,
            "auc": 0.7, "auc_low": 0.6, "auc_high": 0.8}  # fmt: skip
    return pd.DataFrame([{"type": "negation"} | line | changes, {"type": "typo"} | line | {"kind": "noise"}])


def chunks(n=64.0, low=32.0, high=100.0):
    return pd.DataFrame([{"type": "negation", "chunk": n, "chunk_low": low, "chunk_high": high}])


def judged(lines, *, certain=False, deaf=False, table=None, advised=None, named=()):
    wanted = Thresholds.parse(lines).model_copy(update={"certain": certain, "fail_deaf": deaf})
    wanted.check(KINDS, (16, 256))
    measured, advised = types() if table is None else table, chunks() if advised is None else advised
    lines = verdicts(wanted, "m", measured, advised, named)
    return {line["what"]: line["passed"] for line in lines}


def test_values_are_judged_and_intervals_where_asked():
    lines = ["auc.negation=0.65", "floor.negation=0.15", "ceiling.typo=0.25", "chunk.negation=64"]
    assert set(judged(lines).values()) == {True}
    assert set(judged(lines, certain=True).values()) == {False}
    assert judged(["auc.negation=0.71", "chunk.negation=65"]) == {"auc.negation": False, "chunk.negation": False}


def test_what_was_not_measured_has_not_passed():
    assert judged(["auc.name=0.1"]) == {"auc.name": False}
    assert judged(["chunk.negation=16"], advised=chunks(math.nan, math.nan, math.nan)) == {"chunk.negation": False}


def test_deafness_fails_without_any_threshold():
    assert judged([], deaf=True) == {"heard.negation": True}
    assert judged([], deaf=True, table=types(auc=0.3, auc_low=0.2, auc_high=0.45)) == {"heard.negation": False}
    assert judged([], deaf=True, table=types(silent=0.8)) == {"heard.negation": False}
    assert judged([], deaf=True, table=types(auc=0.4, auc_low=0.2, auc_high=0.6)) == {"heard.negation": True}


def test_a_signal_without_an_edit_fails_where_it_was_named():
    nothing = types(edits=0, silent=math.nan, auc=math.nan, auc_low=math.nan, auc_high=math.nan)
    assert judged([], deaf=True, table=nothing) == {}
    assert judged([], deaf=True, table=nothing, named=["negation", "typo"]) == {"heard.negation": False}
    assert judged(["floor.negation=0"], deaf=True, table=nothing)["heard.negation"] is False


def test_a_file_and_limits_and_the_later_wins(tmp_path):
    path = tmp_path / "limits.toml"
    path.write_text("[auc]\nnegation = 0.7\nname = 0.6\n[chunk]\nnegation = 64\n")
    found = Thresholds.parse([str(path), "auc.negation=0.8", "certain=true", "fail_deaf=false"])
    assert (found.certain, found.fail_deaf) == (True, False)
    assert Thresholds.of(str(path)).auc == Thresholds.of({"auc": {"negation": 0.7, "name": 0.6}}).auc
    assert found.limits == {"auc": {"negation": 0.8, "name": 0.6}, "chunk": {"negation": 64.0}}


@pytest.mark.parametrize(
    ("content", "error", "says"),
    [
        ("[acu]\nnegation = 1", UnknownNameError, "did you mean 'auc'"),
        ("auc = 1", RangeError, "expected auc to be a valid dictionary, got 1"),
        ("[auc]\nnegation = 'x'", RangeError, "auc.negation"),
        ("[auc]\nnegation = 1.5", RangeError, "less than or equal to 1, got 1.5"),
        ("[floor]\nnegation = inf", RangeError, "floor.negation"),
        ("[auc", FileFormatError, "as TOML"),
    ],
)
def test_a_bad_file_is_named(tmp_path, content, error, says):
    path = tmp_path / "limits.toml"
    path.write_text(content)
    with pytest.raises(error, match=says) as caught:
        Thresholds.of(path)
    assert "limits.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("auc.negatoin=0.7", "did you mean 'negation'"),
        ("ceiling.negation=0.7", "'negation'"),
        ("chunk.negation=512", "longest length tried"),
        ("auc=0.7", "auc.negation=0.7"),
        ("auc.negation", "auc.negation=0.7"),
        ("auc.negation=high", "a number"),
    ],
)
def test_a_bad_limit_is_named(line, says):
    with pytest.raises((UnknownNameError, RangeError), match=says):
        judged([line])


def test_junit_has_a_case_a_threshold_and_a_failure_a_miss():
    wanted = Thresholds.parse(["auc.negation=0.9", "floor.negation=0.1", "fail_deaf=false"])
    lines = pd.DataFrame(list(verdicts(wanted, "a & <b>\x1b", types(), chunks())), columns=VERDICTS)
    root = ElementTree.fromstring(junit(lines, 1.0))
    assert (root.get("tests"), root.get("failures")) == ("2", "1")
    failures = root.findall("testsuite/testcase/failure")
    assert len(failures) == 1
    assert "wanted at least 0.9, got 0.7 [0.6, 0.8]" in failures[0].get("message")
