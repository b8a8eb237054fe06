"""`oneword chat` as a person types it: prompts, outputs, and what cannot be asked."""

import json

import jsonschema
import pytest

from oneword.chat import Chat
from tests.chat.conftest import write_chat_model
from tests.text.tiny_models import write_model

PROMPTS = (
    '[[prompt]]\nname = "opinion"\nuser = "I love this {word} film"\nwords = ["good", "bad"]\n'
    'answers = [["It was good."], ["It was bad."]]\n'
)
ONE = ("--user", "I love this {word} film", "--word", "good", "--word", "bad")


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    write_model(folder / "bert", "bert")
    write_chat_model(folder / "qwen2", "qwen2")
    return {kind: str(folder / kind) for kind in ("bert", "qwen2")}


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.toml"
    path.write_text(PROMPTS, encoding="utf-8")
    return str(path)


def test_a_file_of_prompts_in_the_terminal(oneword, models, prompts):
    run = oneword("chat", "--prompts", prompts, "--model", models["qwen2"], "--tokens", "4")
    assert run.returncode == 0, run.stderr
    for what in ("opinion", "sent: <s>user", "It was good.", "log-odds", "shift", "tokens in common"):
        assert what in run.stdout
    assert run.stderr.startswith("oneword: 1 prompt, two words each")


def test_one_prompt_from_the_options_and_everything_written(oneword, models, tmp_path):
    page = tmp_path / "chat.html"
    run = oneword(
        "chat", *ONE, "--system", "Be kind", "--answer", "It was good.", "--against", "It was bad.", "--sample", "1",
        "--seed", "2", "--temperature", "0.7", "--top-p", "0.9", "--tokens", "3", "--model", models["qwen2"],
        "--json", "-", "--html", str(page),
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    content = json.loads(run.stdout)
    jsonschema.validate(content, Chat.schema())
    assert content["command"].startswith("oneword chat")
    assert content["prompts"][0]["system"] == "Be kind"
    assert content["about"]["seed"] == 2
    assert {line["set"] for line in content["answers"]} == {1, 2}
    assert "oneword chat" in page.read_text()


def test_quiet_says_nothing(oneword, models, prompts):
    run = oneword("chat", "--prompts", prompts, "--model", models["qwen2"], "--tokens", "1", "--quiet")
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "RangeError: expected --prompts FILE or --user TEXT with --word twice, got neither"),
        ([*ONE, "--prompts", "a.toml"], "got both"),
        (["--word", "a"], "RangeError: expected --user TEXT"),
        (["--user", "{word}", "--word", "a"], "RangeError: expected --word twice, got it 1 times"),
        ([*ONE, "--answer", "Yes."], "RangeError: expected --answer and --against, got one of them"),
        ([*ONE, "--answer", "Yes", "--against", "Yes sir"], "none begins another"),
        (["--user", "I", "--word", "a", "--word", "b"], "expected {word} once"),
        (["--user", "{word}</s>", "--word", "a", "--word", "b"], "RangeError: expected a message without special"),
        ([*ONE, "--tokens", "0"], "RangeError: expected tokens of at least 1"),
        ([*ONE, "--sample", "2", "--temperature", "0"], "RangeError: expected temperature > 0"),
        ([*ONE, "--dtype", "int8"], "expected"),
        ([*ONE, "--html", "page.txt"], "FileFormatError: expected --html with a name that ends in .html"),
        (["--prompts", "none.toml"], "FileFormatError: expected a TOML file of prompts"),
    ],
)
def test_bad_input_is_one_line(oneword, models, arguments, said):
    run = oneword("chat", *arguments, "--model", models["qwen2"])
    assert run.returncode == 2
    assert run.stdout == ""
    lines = [line for line in run.stderr.splitlines() if "two words each" not in line]
    assert said in lines[0]
    assert len(lines) == 1


def test_a_model_that_does_not_speak_has_no_answer(oneword, models):
    run = oneword("chat", *ONE, "--model", models["bert"])
    assert run.returncode == 2
    assert "expected a causal language model (GPT-2, Llama" in run.stderr
