"""Hostile texts, specs, prompts, thresholds, pairs and tables for `benchmarks.fuzz`; none of them is ever run as code.

`python -m benchmarks.fuzz_inputs [COUNT]` prints what became of them. The same number gives the same cases.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

import oneword as ow
from benchmarks.fuzz import Case, Home, run
from oneword.auditing.pairs import Pairs
from oneword.auditing.thresholds import Thresholds
from oneword.chat.prompts import read_prompts
from oneword.experiments.spec import load_spec

COUNT = 500
Lines = tuple[str, ...]
LONG, DEEP = 1_000_000, 100_000
PIECES = (
    "good film", "not", "\x00", "\x1b[31m", "\x1b]8;;x\x07", "\x9b2J", "\ud800", "\udfff", "\u202e", "\u2066", "\u200b",
    "\u200d", "\ufeff", "\uffff", "\U0010ffff", "\r", "\n", "\t", "\x85", "\u2028", "שלום",
    "مرحبا", "中文", "👩‍👧‍👦", "e" + "\u0301" * 50,
    "...!!!???", "<script>", "</script>", "[red]", "[/]", "{{7*7}}", "=cmd|'/C'!A0", "%s%n",
    "${HOME}", "$(id)", "../../x",
    "[CLS]", "[SEP]", "[MASK]", "<s>", "##ing", "\N{ZERO WIDTH NO-BREAK SPACE}", "\x7f", " ",
    "\u00a0", "\u3000", "a" * 5000,
)  # fmt: skip
VALUES = (
    "0", "-1", "1", "3", "2.5", "1e400", "-1e400", "nan", "inf", "-inf", "9" * 400,
    "9" * 5000, "9223372036854775807", "true",
    "false", '""', '"x"', '"rf"', '"attention"', '"../../etc/x"', '"os:system"', "[]", "[[]]", "[1, 2, 3]", "[1, 'a']",
    '["rf", "attention"]', "[nan]", "{}", "{a = {b = {c = 1}}}", "1979-05-27", "07:32:00",
    "1979-05-27T07:32:00Z", "0x10",
    '"""a\nb"""', '"\\u0000"', '"\\u202E"', "[" + "1, " * 2000 + "]", "[" * 300 + "]" * 300,
    '"' + "x" * 100_000 + '"', "1_000",
)  # fmt: skip


def cases(count: int = COUNT, seed: int = 0) -> Iterator[Case]:
    """So many cases, of every kind in turn; the first of each kind are those that were found to do harm."""
    makers = {
        "text": _text,
        "spec": _spec,
        "prompts": _prompts,
        "thresholds": _thresholds,
        "pairs": _pairs,
        "table": _table,
    }
    for number in range(count):
        kind = list(makers)[number % len(makers)]
        turn = number // len(makers)
        draw = random.Random(f"{seed} {kind} {turn}")
        yield makers[kind](turn, draw)


# Texts ----------------------------------------------------------------------------------------------------------------

TEXTS: tuple[tuple[str, str], ...] = (
    ("long", "word " * (LONG // 5)),
    ("one long word", "a" * LONG),
    ("long punctuation", "." * LONG),
    ("empty", ""),
    ("zero bytes", "\x00" * 50),
    ("marks alone", "\u200b\u202e\u2066"),
    ("half a pair", "a \ud800 b"),
    ("marks on one letter", "e" + "\u0301" * 100_000),
)


def _measured(text: str) -> object:
    return ow.measure(text, by="attention", effort="quick", seeds=1, words=False)


READERS: dict[str, Callable[[str], object]] = {
    "encode": ow.encode,
    "sensitivity": lambda text: ow.sensitivity("attention", text, search="quick", certify=False, baseline=1),
    "measure": _measured,
    "compare": lambda text: ow.compare(text, f"{text} not", by="attention"),
    "corpus": lambda text: ow.Corpus.of([text, "good"], ["pos", text]).texts,
    "words": lambda text: ow.measure("I love her", by="attention", effort="quick", seeds=1, words=[text, "good"]),
    "name of a map": lambda text: ow.sensitivity(text, "I love her"),
    "name of an encoder": ow.Encoder.load,
    "name of a set": lambda text: ow.measure("I love her", by="attention", within=text),
    "threshold": lambda text: Thresholds.parse([text]),
}


def _text(turn: int, draw: random.Random) -> Case:
    reader = list(READERS)[turn % len(READERS)]
    if turn < len(TEXTS) * 2:
        name, text = TEXTS[turn % len(TEXTS)]
    else:
        name, text = "mixed", "".join(draw.choices(PIECES, k=draw.randint(1, 12)))
    return Case(f"{turn}: {name}, {reader}", "text", lambda home: partial(READERS[reader], text))


# TOML -----------------------------------------------------------------------------------------------------------------

SPECS = (
    '[sweep]\nmaps = "rf"\nn = 4\nd = 3\ntrials = 1000000000000\n',
    "[sweep]\nmaps = 'rf'\n" + "".join(f"{name} = {list(range(1, 2000))}\n" for name in ("n", "d", "k", "seed")),
    "[[sweep]]\n" * 50_000,
    '[sweep]\nmaps = "os:system"\nn = 4\nd = 3\n',
    '[sweep]\nmaps = "attention"\nn = 4\nd = 3\ncorpus = "../outside/decoy.txt"\nwords_from = "corpus"\n',
    "title = '\x1b[31m'\n",
    'title = "\\u001b[31m"\n[sweep]\nmaps = "\\u001b]8;;x\\u0007"\nn = 4\nd = 3\n',
    "a" * DEEP + " = 1",
    ".".join("a" * 1000) + " = 1\n",
    "x = " + "[" * DEEP,
    "x = " + "{a = " * DEEP,
    "[" + ".".join(["a"] * DEEP) + "]",
)
SPEC_KEYS = (
    "maps", "n", "d", "trials", "depth", "k", "seed", "activation", "words_from", "encoder",
    "corpus", "real_words", "words",
    "label", "samples", "sentences", "model", "unknown", "n", "map", "radius", "own", "__class__",
)  # fmt: skip
THRESHOLDS = (
    "[auc]\nnegation = 1e400\n",
    "[chunk]\nnegation = 1e308\n",
    '[auc]\n"\\u001b[31m" = 2\n',
    "[auc]\n" + "".join(f"k{k} = 0.5\n" for k in range(20_000)),
    "certain = 1\nfail_deaf = 'no'\n",
    "[auc.negation]\nx = 1\n",
)
PROMPTS = (
    "prompt = 3\n",
    "prompt = []\n",
    "prompt = ['a']\n",
    "[prompt]\nuser = 'a'\n",
    "[[prompt]]\nuser = 'a {word}'\nwords = [1, 2]\n",
    "[[prompt]]\nuser = 'a {word}'\nwords = " + json.dumps([f"w{k}" for k in range(20_000)] * 2) + "\n",
    "[[prompt]]\nuser = 'a {word} {word}'\nwords = ['a', 'b']\n",
    '[[prompt]]\nuser = "{word}\\u001b[2J"\nwords = ["\\u0000", "b"]\nanswers = [["\\u202e"], ["a"]]\n',
)


def _toml(kind: str, known: Lines, keys: Lines, tables: Lines, usual: Lines, turn: int, draw: random.Random,
          read: Callable[[Path], object]) -> Case:  # fmt: skip
    if turn < len(known):
        content = known[turn].encode(errors="surrogatepass")
    else:
        lines = []
        for table in draw.sample(tables, draw.randint(1, 3)):
            names = draw.sample(keys, draw.randint(0, min(6, len(keys))))
            lines += [table, *(f"{name} = {draw.choice(VALUES)}" for name in names)]
        if draw.random() < 0.6:  # what can be read, but for one or two values
            lines = list(usual)
            for place in draw.sample(range(len(lines)), min(len(lines), draw.randint(1, 2))):
                name, equals, _ = lines[place].partition(" = ")
                lines[place] = f"{name}{equals}{draw.choice(VALUES)}" if equals else lines[place]
        content = "\n".join(lines).encode(errors="surrogatepass")
    harm = "as it is" if turn < len(known) or draw.random() < 0.7 else draw.choice(list(HARMS))
    return Case(
        f"{turn}: {harm}", kind, partial(_file, f"{kind}.toml", partial(bytes, content), harm, draw.random(), read)
    )


def _spec(turn: int, draw: random.Random) -> Case:
    tables = (
        "[sweep]",
        "[[sweep]]",
        "[learning]",
        "[review]",
        "[attention_map]",
        "[trained]",
        "[unknown]",
        "title = 3",
        "",
    )
    usual = ('title = "a"', "[[sweep]]", 'maps = "rf"', "n = [4, 5]", "d = 3", "k = 7", "trials = 1", "seed = 0",
             'words_from = "gaussian"', 'activation = "relu"')  # fmt: skip
    return _toml("spec", SPECS, SPEC_KEYS, tables, usual, turn, draw, load_spec)


def _prompts(turn: int, draw: random.Random) -> Case:
    keys = ("user", "words", "answers", "system", "name", "unknown", "prompt")
    answers = 'answers = [["yes"], ["no"]]'
    usual = ("[[prompt]]", 'user = "Is it {word}?"', 'words = ["good", "bad"]', answers, 'name = "a"')
    return _toml("prompts", PROMPTS, keys, ("[[prompt]]", "[prompt]", "[other]", ""), usual, turn, draw, read_prompts)


def _thresholds(turn: int, draw: random.Random) -> Case:
    keys = ("negation", "typo", "number", "'\\u001b'", "certain", "fail_deaf", "auc", "a.b.c", "x")
    tables = ("[auc]", "[floor]", "[ceiling]", "[chunk]", "[unknown]", "", "[[auc]]")
    usual = (
        "certain = true",
        "fail_deaf = false",
        "[auc]",
        "negation = 0.7",
        "[ceiling]",
        "typo = 0.1",
        "[chunk]",
        "a = 32",
    )
    return _toml("thresholds", THRESHOLDS, keys, tables, usual, turn, draw, Thresholds.of)


# Tables ---------------------------------------------------------------------------------------------------------------

COLUMNS = ("text", "label", "edited", "kind", "type", "=text", "text\x1b[31m", "text", "\u202etext", "")
CELLS: tuple[Any, ...] = (
    "good film", "bad film", "signal", "noise", "pos", "neg", "1", "0", "-1", "7", "", "nan",
    None, 3, 2.5, True, b"\xff\x00",
    date(2020, 1, 1), Decimal("1.5"), ["a"], {"a": 1}, 10**30, float("nan"), "=cmd|'/C'!A0",
    "\x1b[31m", "a\x00b", "\ud800",
    "\u202ebad", '"', "a,b", "a\tb", "a\nb", "<br/>",
)  # fmt: skip


def _wide(suffix: str) -> bytes:
    """Few bytes that say very much."""
    if suffix == ".parquet":
        rows = pa.DictionaryArray.from_arrays(
            pa.array([0]).take(pa.nulls(30_000_000, pa.int32()).fill_null(0)), ["x" * 1000]
        )
        file = io.BytesIO()
        parquet.write_table(pa.table({"text": rows, "edited": rows, "kind": rows}), file, compression="zstd")
        return file.getvalue()
    if suffix == ".jsonl":
        return b'{"text": ' + b"[" * DEEP + b"\n" + b'{"text": "a", "text": "b"}\n' * 1000
    return b'text,edited,kind,label\n"' + b"a" * 30_000_000


def _written(suffix: str, draw: random.Random) -> bytes:
    names = draw.sample(COLUMNS, draw.randint(1, 6)) if draw.random() < 0.5 else ["text", "edited", "kind", "label"]
    rows = [[draw.choice(CELLS) for _ in names] for _ in range(draw.randint(0, 8))]
    if suffix == ".parquet":
        columns = {name: _column([row[k] for row in rows], draw) for k, name in enumerate(names)}
        file = io.BytesIO()
        parquet.write_table(pa.table(columns), file)
        return file.getvalue()
    if suffix in (".jsonl", ".json"):
        lines = [json.dumps(dict(zip(names, row, strict=True)), default=str) for row in rows]
        return "\n".join(lines).encode(errors="surrogatepass")
    by = "\t" if suffix == ".tsv" else ","
    lines = [by.join(names), *(by.join(map(str, row)) for row in rows)]
    return "\n".join(lines).encode(errors="surrogatepass")


def _column(values: list[Any], draw: random.Random) -> pa.Array:
    """Of one type, whichever the first value has."""
    kind = type(draw.choice(values)) if values else str
    same = [value if type(value) is kind and value != "\ud800" else None for value in values]
    if kind is int:
        same = [value if value is None or abs(value) < 2**60 else None for value in same]
    made = pa.array(same)
    return made.dictionary_encode() if pa.types.is_string(made.type) and draw.random() < 0.3 else made


def _rows(kind: str, turn: int, draw: random.Random, read: Callable[[Path], object]) -> Case:
    suffixes = (".csv", ".jsonl", ".parquet", ".tsv", ".csv", ".jsonl", ".parquet", ".json")
    suffix = suffixes[turn % len(suffixes)]
    bomb = turn < len(suffixes)
    content = partial(_wide, suffix) if bomb else partial(bytes, _written(suffix, draw))
    harm = "as it is" if bomb or draw.random() < 0.6 else draw.choice(list(HARMS))
    name = f"{kind}{suffix}" if draw.random() < 0.8 else f"\x1b[31m\u202e{kind}{draw.choice(suffixes)}"
    what = "bomb" if bomb else harm
    return Case(f"{turn}: {suffix}, {what}", kind, partial(_file, name, content, harm, draw.random(), read))


def _pairs(turn: int, draw: random.Random) -> Case:
    return _rows("pairs", turn, draw, Pairs.read)


def _table(turn: int, draw: random.Random) -> Case:
    column = draw.choice(["text", "text", "text", "=text", "edited", "\x1b", ""])
    label = draw.choice(["label", "label", None, "kind"])
    return _rows("table", turn, draw, lambda path: ow.Corpus.load(path, text=column, label=label).texts)


# Files ----------------------------------------------------------------------------------------------------------------


def _file(
    name: str, content: Callable[[], bytes], harm: str, chance: float, read: Callable[[Path], object], home: Home
) -> partial[object]:
    path = home.input / name
    HARMS[harm](path, content(), chance, home)
    return partial(read, path)


def _plain(change: Callable[[bytes, float], bytes]) -> Callable[[Path, bytes, float, Home], None]:
    return lambda path, content, chance, home: void(path.write_bytes(change(content, chance)))


def void(_: object) -> None:
    """Nothing."""


def _flipped(content: bytes, chance: float) -> bytes:
    found = bytearray(content or b"x")
    found[int(chance * len(found))] ^= 1 << int(chance * 1e6) % 8
    return bytes(found)


def _pipe(path: Path, content: bytes, chance: float, home: Home) -> None:
    os.mkfifo(path)


def _folder(path: Path, content: bytes, chance: float, home: Home) -> None:
    path.mkdir()


def _link(path: Path, content: bytes, chance: float, home: Home) -> None:
    """A person may name a link; it is read as what it points to."""
    (home.outside / "real").write_bytes(content)
    path.symlink_to(home.outside / "real")


def _loop(path: Path, content: bytes, chance: float, home: Home) -> None:
    path.symlink_to(path)


HARMS: dict[str, Callable[[Path, bytes, float, Home], None]] = {
    "as it is": _plain(lambda content, chance: content),
    "truncated": _plain(lambda content, chance: content[: int(chance * len(content))]),
    "a bit": _plain(_flipped),
    "a mark first": _plain(lambda content, chance: b"\xef\xbb\xbf" + content),
    "UTF-16": _plain(lambda content, chance: content.decode(errors="replace").encode("utf-16")),
    "latin-1": _plain(lambda content, chance: content + "é".encode("latin-1")),
    "zero bytes": _plain(lambda content, chance: content.replace(b"e", b"\0")),
    "a huge line": _plain(lambda content, chance: content + b"x" * 3_000_000),
    "compressed": _plain(lambda content, chance: gzip.compress(content)),
    "twice": _plain(lambda content, chance: content + b"\n" + content),
    "random bytes": _plain(lambda content, chance: random.Random(chance).randbytes(2000)),
    "empty": _plain(lambda content, chance: b""),
    "brackets": _plain(lambda content, chance: content + b"\n" + b"[" * DEEP),
    "returns": _plain(lambda content, chance: content.replace(b"\n", b"\r")),
    "a pipe": _pipe,
    "a folder": _folder,
    "a link": _link,
    "a loop": _loop,
    "nothing": lambda path, content, chance, home: None,
}


def measure(count: int = COUNT) -> dict[str, Any]:
    """What became of so many cases; `faults` is empty if every one was a result or an error of one line."""
    return run(cases(count))


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]) if len(sys.argv) > 1 else COUNT), indent=1, ensure_ascii=False))
