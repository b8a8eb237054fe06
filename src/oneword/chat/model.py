"""A causal language model as a chat model: what it is sent, how an answer is spelled, where a reply ends."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from oneword.chat.prefix import Prefix
from oneword.chat.prompts import BLANK, Prompt
from oneword.chat.template import ChatTemplate, check_no_marks, plain, special_token, tokenizer_settings
from oneword.comparison.answers import check_has_next_token
from oneword.errors import RangeError
from oneword.maps.transformer import TransformerFeatures
from oneword.text.tokenizer_files import tokenised


@dataclass(frozen=True)
class Sent:
    """What a model is sent: the text, its tokens, and which of these are the changed word (none: it was not found)."""

    text: str
    ids: tuple[int, ...]
    word: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class ChatModel:
    """A model with its chat template (None: plain text) and the tokens that end a reply."""

    phi: TransformerFeatures
    template: ChatTemplate | None
    ends: frozenset[int]

    @classmethod
    def of(cls, phi: TransformerFeatures) -> ChatModel:
        """The template and the ends are those of the model's files. Raises RangeError for other models."""
        check_has_next_token(phi)
        folder = phi.encoder.folder
        return cls(phi, None if folder is None else ChatTemplate.read(folder), frozenset(_ends(phi)))

    def send(self, prompt: Prompt, word: str) -> Sent:
        """The prompt with this word, as the model is sent it.

        Its tokens are those of transformers' `apply_chat_template`; a model without a template gets what its tokenizer
        puts before every text. Raises RangeError for messages with special tokens, and for a prompt that is too long.
        """
        tokenizer, system_user = self.phi.encoder.tokenizer, prompt.filled(word)
        for message, what in zip(system_user, ("a system message", "a message"), strict=True):
            check_no_marks(tokenizer, message, what)
        text = plain(*system_user) if self.template is None else self.template.render(*system_user)
        found = tokenised(tokenizer, text, special=False)
        before = self.phi.encoder.around[0] if self.template is None else ()
        ids = (*before, *found.ids)
        self.phi.encoder.check_length(len(ids) + 1)  # room for one token of an answer
        first, last = _place(text, prompt, word)
        rows = [row for row, (start, end) in enumerate(found.offsets, len(before)) if start < last and end > first]
        return Sent(text, ids, tuple(rows))

    def read(self, sent: Sent) -> Prefix:
        """The prompt, read once."""
        return Prefix.read(self.phi.model, sent.ids)

    def spelled(self, sent: Sent, answer: str) -> tuple[int, ...]:
        """The tokens of an answer where the reply to this prompt begins.

        Behind plain text an answer stands after a space. Raises RangeError for one that the model cannot spell there.
        """
        encoder = self.phi.encoder
        check_no_marks(encoder.tokenizer, answer, "answers")
        attached = self.template is not None or sent.text[-1:].isspace()
        behind = tokenised(encoder.tokenizer, f"{sent.text}{'' if attached else ' '}{answer}", special=False).ids
        prompt = list(sent.ids[len(sent.ids) - len(tokenised(encoder.tokenizer, sent.text, special=False).ids) :])
        ids = tuple(behind[len(prompt) :]) if behind[: len(prompt)] == prompt else ()
        ids = ids or encoder.spelled(answer, attached=attached)  # the answer's first token may join the prompt's last
        if not ids:
            raise RangeError(f"expected answers that {self.phi.name} can spell, got {answer!r}: choose another")
        encoder.check_length(len(sent.ids) + len(ids))
        return ids

    def text(self, ids: tuple[int, ...]) -> str:
        """Tokens as a person reads them."""
        return self.phi.encoder.tokenizer.decode(list(ids), skip_special_tokens=False).strip()

    def room(self, sent: Sent, tokens: int) -> int:
        """How many tokens a reply may have, at most `tokens`."""
        return max(1, min(tokens, self.phi.encoder.longest - len(sent.ids)))


def _ends(phi: TransformerFeatures) -> Iterator[int]:
    """The ends of a reply: those of config.json, and the end of text of tokenizer_config.json."""
    said = getattr(phi.checkpoint.config, "eos_token_id", None)
    yield from said if isinstance(said, list) else [] if said is None else [said]
    if phi.encoder.folder is not None:
        token = special_token(tokenizer_settings(phi.encoder.folder), "eos_token")
        number = None if token is None else phi.encoder.tokenizer.token_to_id(token)
        if number is not None:
            yield number


def _place(text: str, prompt: Prompt, word: str) -> tuple[int, int]:
    """The characters of the changed word in the text that is sent; (0, 0) if the template rewrote the message."""
    message = prompt.user if BLANK in prompt.user else prompt.system
    for given in (message, message.strip()):  # some templates strip messages
        filled = given.replace(BLANK, word)
        begin = text.rfind(filled) if BLANK in prompt.user else text.find(filled)
        if begin >= 0:
            first = begin + given.index(BLANK)
            return first, first + len(word)
    return 0, 0
