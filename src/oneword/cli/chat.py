"""`oneword chat`: prompts that differ in one word, and what a chat model answers to each."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from oneword.checks import MODEL_PRECISIONS
from oneword.cli import common
from oneword.cli.common import command_line
from oneword.cli.watch import watched
from oneword.errors import RangeError

_input = partial(typer.Option, rich_help_panel="What is asked")
_model = partial(typer.Option, rich_help_panel="Who answers")
_Several = list[str] | None


def chat(
    prompts: Annotated[
        Path | None, _input(metavar="FILE", help="Prompts in a TOML file; see examples/prompts.toml.")
    ] = None,
    user: Annotated[
        str | None, _input(metavar="TEXT", help="One prompt: the user's message, {word} where the word stands.")
    ] = None,
    word: Annotated[_Several, _input(metavar="W", help="The two words: give it twice.")] = None,
    system: Annotated[str, _input(metavar="TEXT", help="The system message; {word} may stand here instead.")] = "",
    answer: Annotated[
        _Several, _input(metavar="TEXT", help="A whole answer that suits the first word; repeat for more.")
    ] = None,
    against: Annotated[
        _Several, _input(metavar="TEXT", help="A whole answer that suits the second word; repeat for more.")
    ] = None,
    model: Annotated[
        str, _model(help="smollm2 (embedded), the folder of a causal language model, or a hub name.")
    ] = "smollm2",
    revision: Annotated[str | None, _model(help="Of a hub name: which version.")] = None,
    dtype: Annotated[str, _model(help=f"{', '.join(MODEL_PRECISIONS)}.")] = "float32",
    device: Annotated[str, _model(help="cpu, cuda, …")] = "cpu",
    tokens: Annotated[int, _model(help="Tokens of an answer at most.")] = 48,
    sample: Annotated[int, _model(metavar="N", help="Beside the greedy answer, N answers drawn at random.")] = 0,
    seed: Annotated[int, _model(help="Of these draws: the same seed gives the same answers.")] = 0,
    temperature: Annotated[float, _model(help="Of these draws: below 1 the likeliest tokens become likelier.")] = 1.0,
    top_p: Annotated[float, _model(help="Draw among the likeliest tokens whose probabilities sum to this.")] = 1.0,
    html: common.HtmlFile = None,
    json_file: common.JsonFile = None,
    quiet: common.Quiet = False,
) -> None:
    """One word of a prompt: does it flip the answer of a chat model?

    Each prompt is sent twice, with one word and with the other, inside the model's own chat template. You see both
    whole answers, the token where they part, how far apart the next tokens are along the first answer, and which heads
    attend to the changed word.

    With given answers a flip is decided: the log-odds say how much likelier the answers of the first set are than
    those of the second, by the log-likelihood of all their tokens. The answer flips if the log-odds change sign.

    [bold]Examples[/bold]

    oneword chat --prompts examples/prompts.toml --html flips.html

    oneword chat --user "Reply in a {word} way: how was the film?" --word positive --word negative

    oneword chat --user "My tea is too {word}. What now?" --word hot --word cold --answer "Let it cool down." --against "Warm it up."

    oneword chat --system "You are a {word} critic." --user "How was the film?" --word kind --word harsh --sample 3 --temperature 0.7
    """  # noqa: E501 (an example is one line)
    from oneword.text.sources import expect_hub

    given = _given(user, word, system, answer, against)
    if (prompts is None) == (given is None):
        got = "neither" if given is None else "both"
        example = '--user "Reply in a {word} way." --word positive --word negative'
        raise RangeError(f"expected --prompts FILE or --user TEXT with --word twice, got {got}: for example {example}")
    expect_hub(model)  # torch takes longer to load than a hub to answer
    outputs = common.Outputs(html, json_file, quiet=quiet)
    from oneword.chat.prompts import given_prompts, read_prompts

    asked = read_prompts(prompts) if prompts is not None else given_prompts(given or ())
    with watched(outputs.silent) as progress:
        progress.say(f"{len(asked)} {'prompt' if len(asked) == 1 else 'prompts'}, two words each: reading {model}")
        from oneword.chat.verb import ask
        from oneword.maps.transformer import TransformerFeatures

        like = common.like_of(dtype, device)
        phi = TransformerFeatures.load(model, revision=revision, dtype=like.dtype, device=like.device)
        found = ask(
            asked, phi, tokens=tokens, samples=sample, seed=seed, temperature=temperature, top_p=top_p,
            progress=progress,
        )  # fmt: skip
    outputs.show(found)
    if html is not None:
        found.save_html(html, command=command_line())
    outputs.write_json({"command": command_line(), **found.to_dict()})


def _given(user: str | None, word: _Several, system: str, answer: _Several, against: _Several) -> dict[str, Any] | None:
    """The prompt of the options, with the keys of a file; None if none of them was given."""
    if user is None:
        if word or system or answer or against:
            raise RangeError("expected --user TEXT with --word, --system, --answer or --against, got none: add it")
        return None
    if len(word or ()) != 2:
        raise RangeError(f"expected --word twice, got it {len(word or ())} times: for example --word hot --word cold")
    if bool(answer) != bool(against):
        raise RangeError("expected --answer and --against, got one of them: a flip needs answers to both words")
    sets = [answer, against] if answer else []
    return {"user": user, "words": word, "system": system, "answers": sets}
