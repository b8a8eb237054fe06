"""Chat templates: the text that a chat model is sent for a system message and a user's.

The template is data of the model's files: Jinja in chat_template.jinja, or `chat_template` in tokenizer_config.json.
transformers renders it in its sandbox, which sees the messages and nothing else. A model without a template is sent the
plain text: the system message, an empty line, the user's message.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, models

from oneword.checks import described, printable, shortened
from oneword.errors import FileFormatError, RangeError
from oneword.files import read_regular
from oneword.text.model_folder import TEMPLATE, TOKENIZER_SETTINGS
from oneword.text.settings import read_json, unreadable
from oneword.text.tokenizer_files import tokenised

MOST_BYTES = 1_000_000  # of a template, and characters of what it makes; the largest published ones have 20 kB
_NAMED = ("bos_token", "eos_token", "unk_token", "pad_token")  # the special tokens that a template may name


@dataclass(frozen=True)
class ChatTemplate:
    """The template of a model's files, and the special tokens that it may name."""

    source: str
    special: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path) -> ChatTemplate | None:
        """The template in the folder of a model; None if it has none. Raises FileFormatError for damaged files."""
        settings = tokenizer_settings(folder)
        path = folder / TEMPLATE
        try:
            source: Any = read_regular(path, MOST_BYTES).decode() if path.exists() else settings.get("chat_template")
        except (OSError, ValueError) as error:
            raise unreadable(path, error) from None
        if isinstance(source, list):  # several templates by name
            named = {each.get("name"): each.get("template") for each in source if isinstance(each, dict)}
            source = named.get("default", False)
        if source is None:
            return None
        if not isinstance(source, str) or len(source) > MOST_BYTES:
            wanted = f"chat_template in {TOKENIZER_SETTINGS} as a text of at most {MOST_BYTES:,} characters"
            got = f"{len(source):,} characters" if isinstance(source, str) else type(source).__name__
            raise FileFormatError(f"expected {wanted}, got {got}: save the tokenizer again with save_pretrained(…)")
        return cls(source, {name: token for name in _NAMED if (token := special_token(settings, name)) is not None})

    def render(self, system: str, user: str) -> str:
        """What the model is sent. Raises FileFormatError if the template fails, RangeError if it refuses."""
        from jinja2 import TemplateError
        from transformers import PreTrainedTokenizerFast

        messages = [{"role": "system", "content": system}] * bool(system) + [{"role": "user", "content": user}]
        given: dict[str, Any] = {"tokenize": False, "add_generation_prompt": True, **self.special}
        try:
            renderer: Any = PreTrainedTokenizerFast(
                tokenizer_object=Tokenizer(models.WordLevel({})), chat_template=self.source
            )  # type: ignore[no-untyped-call]
            text = renderer.apply_chat_template(messages, **given)
        except TemplateError as error:
            got = shortened(printable(described(error)), 200)
            remedy = "leave the system message out, or choose another model" if system else "choose another model"
            raise RangeError(f"expected messages that the model's chat template takes, got {got}: {remedy}") from None
        except Exception as error:
            got = shortened(printable(described(error)), 200)
            raise FileFormatError(f"expected a chat template that can be filled, got {got}: choose another") from None
        if not isinstance(text, str) or not 0 < len(text) <= MOST_BYTES + len(system) + len(user):
            raise FileFormatError("expected a chat template that gives a text, got none or a huge one: choose another")
        return text


def plain(system: str, user: str) -> str:
    """What a model without a template is sent."""
    return f"{system}\n\n{user}" if system else user


def tokenizer_settings(folder: Path) -> Mapping[str, Any]:
    """The content of tokenizer_config.json; empty if there is none."""
    path = folder / TOKENIZER_SETTINGS
    found = read_json(path) if path.exists() else {}
    if not isinstance(found, dict):
        raise unreadable(path, TypeError("no table"))
    return found


def special_token(settings: Mapping[str, Any], name: str) -> str | None:
    """A special token of tokenizer_config.json by its name; it is a text, or a table that has one."""
    token = settings.get(name)
    token = token.get("content") if isinstance(token, dict) else token
    return token if isinstance(token, str) else None


def check_no_marks(tokenizer: Tokenizer, text: str, what: str) -> None:
    """Raise RangeError for a text that holds special tokens: the model would take them for the template's own.

    Refused, not spelled in ordinary tokens: what is sent is then exactly what is shown.
    """
    special = {number for number, token in tokenizer.get_added_tokens_decoder().items() if token.special}
    mark = next((number for number in tokenised(tokenizer, text, special=False).ids if number in special), None)
    if mark is not None:
        raise RangeError(
            f"expected {what} without special tokens, got {tokenizer.id_to_token(mark)!r}, which the model would take "
            "for a mark of its template: leave it out"
        )
