"""A causal language model as a chat model: what it is sent, how an answer is spelled, where a reply ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType

import torch
from tokenizers import Encoding

from oneword.chat.prefix import Prefix
from oneword.chat.prompts import BLANK, Prompt
from oneword.chat.template import ChatTemplate, check_no_marks, plain, special_token, tokenizer_settings
from oneword.checks import check_string, shortened
from oneword.comparison.answers import check_has_next_token
from oneword.errors import RangeError, TextError
from oneword.maps.transformer import TransformerFeatures
from oneword.text.context import Context
from oneword.text.tokenizer_files import tokenised
from oneword.text.tokens import align


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
        text, before, found = self._composed(*prompt.filled(word))
        message = prompt.user if BLANK in prompt.user else prompt.system
        filled = message.replace(BLANK, word)
        begin, spelled = _place(text, filled, last=BLANK in prompt.user)
        first = begin + message.index(BLANK) - (filled.index(spelled) if spelled else 0)
        first, last = (first, first + len(word)) if begin >= 0 else (0, 0)
        rows = [row for row, (start, end) in enumerate(found.offsets, len(before)) if start < last and end > first]
        return Sent(text, (*before, *found.ids), tuple(rows))

    def send_message(self, user: str, system: str = "") -> Sent:
        """A message without a blank."""
        text, before, found = self._composed(system, user)
        return Sent(text, (*before, *found.ids), ())

    def context(self, user: str, system: str = "") -> Context:
        """A prompt as a text whose words are those of the user's message; all else that is sent is special.

        `spans` are places in the message. Raises TextError for a message without words, RangeError where `send` does
        and for a template that rewrites the message.
        """
        check_string(user)
        text, before, found = self._composed(system, user)
        begin, message = _place(text, user, last=True)
        if begin < 0:
            got = f"one that rewrites {shortened(user, 60)!r}: choose another model"
            raise RangeError(f"expected a chat template that keeps the message as it is, got {got}")
        words, ahead = align(text, found.offsets), len(before)
        inside = [begin <= start and end <= begin + len(message) for start, end in words.spans]
        if not any(inside):
            raise TextError(f"expected a prompt with at least one word, got {shortened(user)!r}: give words")
        encoder, ids, shift = self.phi.encoder, torch.tensor([*before, *found.ids]), user.index(message) - begin
        tokens = encoder.tokens_of(ids)
        return Context(
            encoder.embed(ids, dtype=self.phi.dtype).to(self.phi.device),
            words=(*tokens[:ahead], *(text[start:end] for start, end in words.spans)),
            rows=(*((row,) for row in range(ahead)), *(tuple(row + ahead for row in own) for own in words.rows)),
            tokens=tokens,
            source=MappingProxyType({"text": "a prompt as it is sent", **encoder.describe(), "sent": text}),
            text=user,
            spans=(
                *(None for _ in before),
                *((start + shift, end + shift) if own else None
                  for (start, end), own in zip(words.spans, inside, strict=True)),
            ),
            special=(*(True for _ in before), *(not own for own in inside)),
            encoder=encoder,
        )  # fmt: skip

    def _composed(self, system: str, user: str) -> tuple[str, tuple[int, ...], Encoding]:
        """The text that is sent, the tokens before it, and its own."""
        tokenizer = self.phi.encoder.tokenizer
        for message, what in ((system, "a system message"), (user, "a message")):
            check_no_marks(tokenizer, message, what)
        text = plain(system, user) if self.template is None else self.template.render(system, user)
        found = tokenised(tokenizer, text, special=False)
        before = self.phi.encoder.around[0] if self.template is None else ()
        self.phi.encoder.check_length(len(before) + len(found.ids) + 1)  # room for one token of an answer
        return text, before, found

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


def _place(text: str, message: str, *, last: bool) -> tuple[int, str]:
    """Where a message stands in what is sent, and its spelling there: some templates strip it. -1: it was rewritten."""
    for given in (message, message.strip()):
        begin = text.rfind(given) if last else text.find(given)
        if begin >= 0:
            return begin, given
    return -1, ""


def check_apart(spelled: Sequence[tuple[tuple[int, ...], str]]) -> None:
    """Refuse an answer that begins another one, or is spelled as another one: its probability would count twice."""
    answers = dict(spelled)
    for ids, following in pairwise(sorted(answers)):  # what begins another one stands before it
        if following[: len(ids)] == ids:
            got = f"{answers[ids]!r} and {answers[following]!r}: end the first with a full stop, or leave it out"
            raise RangeError(f"expected answers of which none begins another, got {got}")
    if len(answers) < len(spelled):
        raise RangeError("expected answers that differ in their tokens, got two that the model reads alike: change one")
