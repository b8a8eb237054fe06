"""Prompts that differ in one word, and files of them.

    [[prompt]]
    name = "sentiment"
    user = "Reply in a {word} way: how was the film?"
    words = ["positive", "negative"]
    answers = [["The film was good.", "I loved it."], ["The film was bad.", "I hated it."]]

`{word}` becomes each of the two words. `answers` are two sets of whole answers: those that suit the first word, and
those that suit the second. Without them nothing is scored, and no flip is decided.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from oneword.checks import check_string, shown
from oneword.errors import RangeError, TextError
from oneword.validation import FileModel, read_model, read_toml

BLANK = "{word}"
_Words = Annotated[tuple[str, ...], Field(strict=False)]


class Prompt(FileModel):
    """A prompt with a blank, the two words that may stand there, and two sets of whole answers.

    | field | meaning |
    |---|---|
    | `user` | the user's message |
    | `words` | two words, the first of which is "before" and the second "after" |
    | `answers` | two sets of whole answers: for the first word, and for the second; none by default |
    | `system` | the system message; none by default |
    | `name` | for tables; the message itself by default |

    `{word}` stands once, in the user's message or in the system message.
    """

    user: str
    words: _Words
    answers: Annotated[tuple[_Words, ...], Field(strict=False)] = ()
    system: str = ""
    name: str = ""

    @field_validator("words", mode="before")
    @classmethod
    def _two_words(cls, given: object) -> object:
        if not _are_texts(given) or len(given) != 2 or given[0] == given[1]:  # type: ignore[arg-type, index]
            example = '["positive", "negative"]'
            raise ValueError(f"expected words as a list of two different words, got {shown(given)}: write {example}")
        return given

    @field_validator("answers", mode="before")
    @classmethod
    def _two_sets(cls, given: object) -> object:
        if not isinstance(given, list | tuple):
            raise ValueError(f"expected answers as two lists of answers, got {shown(given)}: {_EXAMPLE}")
        if given and not (len(given) == 2 and all(_are_texts(each) and each for each in given)):
            raise ValueError(f"expected answers as two lists of at least one answer, got {shown(given)}: {_EXAMPLE}")
        every = [answer.strip() for each in given for answer in each]
        twice = next((answer for k, answer in enumerate(every) if answer in every[:k]), None)
        if twice is not None:
            raise ValueError(f"expected answers that differ, got {shown(twice)} twice: leave one out")
        return [[answer.strip() for answer in each] for each in given]

    @model_validator(mode="after")
    def _one_blank(self) -> Prompt:
        count = (self.system + "\n" + self.user).count(BLANK)
        if count != 1:
            raise ValueError(f"expected {BLANK} once in user or system, got it {count} times: mark one place")
        try:
            check_string(self.user)
        except TextError as error:
            raise ValueError(str(error)) from None
        return self

    @property
    def title(self) -> str:
        """Its name, or the message with the blank where it has none."""
        return self.name or (self.user if BLANK in self.user else self.system)

    def filled(self, word: str) -> tuple[str, str]:
        """The system message and the user's with this word."""
        return self.system.replace(BLANK, word), self.user.replace(BLANK, word)


class PromptFile(FileModel):
    """The content of a file of prompts."""

    prompt: Annotated[tuple[Prompt, ...], Field(strict=False)]

    @model_validator(mode="before")
    @classmethod
    def _some(cls, content: Any) -> Any:
        if not content or content.get("prompt", True) in ([], ()):
            raise ValueError("expected at least one prompt, got none: write [[prompt]] above its keys")
        return content


def read_prompts(path: str | os.PathLike[str]) -> tuple[Prompt, ...]:
    """The prompts of a TOML file. Raises FileFormatError, UnknownNameError or RangeError, in one line."""
    file = Path(path)
    return read_model(PromptFile, read_toml(file, "a TOML file of prompts"), file.name).prompt


def given_prompts(prompts: object) -> tuple[Prompt, ...]:
    """One prompt or several, each a Prompt or a mapping with the keys of a file. Raises RangeError for other kinds."""
    if isinstance(prompts, str) or not isinstance(prompts, Prompt | Mapping | Sequence):
        got = f"{shown(prompts)}: see ow.chat.Prompt and ow.chat.read_prompts"
        raise RangeError(f"expected prompts as a Prompt, a mapping or a list of them, got {got}")
    several = [prompts] if isinstance(prompts, Prompt | Mapping) else prompts
    return tuple(
        each if isinstance(each, Prompt) else read_model(Prompt, each, f"prompt {number}")
        for number, each in enumerate(several, 1)
    )


_EXAMPLE = 'write [["It was good."], ["It was bad."]]'


def _are_texts(given: object) -> bool:
    return isinstance(given, list | tuple) and all(isinstance(each, str) and each.strip() for each in given)
