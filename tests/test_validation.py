"""Files that people write are checked; whatever is wrong is said in one line with the name of the file."""

import os
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field, field_validator

from oneword.errors import FileFormatError, OnewordError, RangeError, UnknownNameError, did_you_mean
from oneword.validation import FileModel, read_model, read_toml


class Inner(FileModel):
    text: str
    sizes: Annotated[tuple[int, ...], Field(strict=False, min_length=2)] = (1, 2)

    @field_validator("text")
    @classmethod
    def _short(cls, text: str) -> str:
        if len(text) > 5:
            raise ValueError(f"expected text of at most 5 letters, got {len(text)}: shorten it")
        return text


class Outer(FileModel):
    title: str = ""
    inner: Annotated[tuple[Inner, ...], Field(strict=False)] = ()
    limits: dict[str, Annotated[float, Field(ge=0.0, le=1.0)]] = Field(default_factory=dict)


def test_a_right_file_becomes_the_model() -> None:
    found = read_model(Outer, {"inner": [{"text": "a", "sizes": [3, 4]}], "limits": {"x": 1}}, "f.toml")
    assert found.inner == (Inner(text="a", sizes=(3, 4)),)
    assert found.limits == {"x": 1.0}


@pytest.mark.parametrize(
    ("data", "error", "said"),
    [
        ({"titel": "a"}, UnknownNameError, "expected title, inner, limits, got 'titel'; did you mean 'title'?"),
        ({"title": 5}, RangeError, "expected title to be a valid string, got 5: correct it"),
        ({"title": [1] * 1000}, RangeError, "expected title to be a valid string, got [1, 1"),
        ({"inner": [{"text": "a"}, {}]}, RangeError, "[[inner]] 2: expected text, got none: add it"),
        ({"inner": [{"txet": "a"}]}, UnknownNameError, "[[inner]] 1: expected text, sizes, got 'txet'; did you mean"),
        ({"inner": [{"text": "too long"}]}, RangeError, "[[inner]] 1: expected text of at most 5 letters, got 8"),
        ({"inner": [{"text": "a", "sizes": [1]}]}, RangeError, "[[inner]] 1: expected sizes to have at least 2 items"),
        ({"inner": [{"text": "a", "sizes": [1, "2"]}]}, RangeError, "[[inner]] 1: expected sizes[2] to be a valid"),
        ({"limits": {"x": 2.0}}, RangeError, "expected limits.x to be less than or equal to 1, got 2.0: correct it"),
        ({"limits": {"x": True}}, RangeError, "expected limits.x to be a valid number, got True: correct it"),
        ({"limits": {"x": float("nan")}}, RangeError, "expected limits.x to be "),
        ([], RangeError, "expected the content to be "),
    ],
)
def test_what_is_wrong_is_said_in_one_line(data: Any, error: type[OnewordError], said: str) -> None:
    with pytest.raises(error) as caught:
        read_model(Outer, data, "f.toml")
    message = str(caught.value)
    assert message.startswith(f"f.toml: {said}")
    assert "\n" not in message
    assert len(message) < 200


def test_a_pipe_or_an_endless_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(FileFormatError, match="a pipe, not a file"):
        read_toml(tmp_path / "pipe.toml")
    with (tmp_path / "large.toml").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(FileFormatError, match="larger than 10,000,000 bytes"):
        read_toml(tmp_path / "large.toml")


def test_files_that_are_no_toml_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"expected a list of limits, got .*none\.toml \(No such file"):
        read_toml(tmp_path / "none.toml", "a list of limits")
    for content in (b"a = ", b"\xff"):
        (tmp_path / "bad.toml").write_bytes(content)
        with pytest.raises(FileFormatError, match=r"expected a TOML file, got bad\.toml \(.+\): correct it"):
            read_toml(tmp_path / "bad.toml")


def test_near_names_are_proposed_and_others_are_not() -> None:
    assert did_you_mean("negatoin", ["negation", "typo"]) == "; did you mean 'negation'?"
    assert did_you_mean("zzz", ["negation", "typo"]) == ""
