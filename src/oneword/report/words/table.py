"""The table of words: every word of a text under maps and models, in one schema.

`COLUMNS` declares each column once; the terminal, the page, the app and JSON read it there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from oneword.report.table import shown, to_records

if TYPE_CHECKING:
    from rich.console import RenderableType

FORMAT = "oneword.words/3"
WORD = ["text", "window", "position"]  # which word of which text


@dataclass(frozen=True)
class Column:
    """One column of `WordTable.words`.

    | field | meaning |
    |---|---|
    | `name`, `meaning` | for programs, for people |
    | `dtype` | of pandas: float64 (NaN where unknown), Int64, boolean or object (None where unknown) |
    | `title` | the header in the terminal and on pages; "" for columns that are not shown there |
    | `sign`, `label` | before and after the number in the app's card; no label: not shown there |
    | `of_best` | where there are several seeds: the value of the seed with the best word, not the mean |
    """

    name: str
    meaning: str
    dtype: Literal["float64", "int64", "Int64", "boolean", "object"] = "float64"
    title: str = ""
    sign: str = ""
    label: str = ""
    of_best: bool = False


COLUMNS = (
    Column("text", "number of the text", "int64"),
    Column("window", "window of a long text", "int64"),
    Column("position", "position of the word in its window, as the library counts", "int64"),
    Column("index", "position in the whole text; missing for tokens between windows", "Int64"),
    Column("word", "the word", "object"),
    Column("start", "where the word begins in the text", "Int64"),
    Column("end", "where it ends", "Int64"),
    Column("tokens", "tokens of the word", "int64"),
    Column("n", "tokens of the window", "int64"),
    Column("by", "the map or model", "object"),
    Column("seed", "of the random weights; missing for trained models", "Int64"),
    Column("value", "sup over the allowed changes, searched: a lower bound", title="S ≥", sign="S ≥",
           label="worst change found"),
    Column("upper", "upper bound on the sup", title="S ≤", sign="S ≤", label="upper bound"),
    Column("upper_kind", "certificate: the allowed changes; ceiling: changes of any size", "object"),
    Column("first_order", "r‖J‖/‖φ(X)‖, what the Jacobian predicts: no bound", title="first order", sign="≈",
           label="first order, no bound"),
    Column("radius", "the largest ‖Δ‖ allowed, in units of √d or of the word's norm"),
    Column("best_word", "the best real word that was tried", title="best word"),
    Column("replacement", "which word that is", "object", title="becomes", of_best=True),
    Column("distance", "its ‖Δ‖, in the same units as radius", title="‖Δ‖", of_best=True),
    Column("kind", "of best_word: exact, shortlist or sample; the last two are lower bounds", "object", of_best=True),
    Column("candidates", "how many real words were tried", "Int64", of_best=True),
    Column("left_out", "relative change when the word is left out of a prompt: toward the other answers, below 0 away",
           title="left out", sign="=", label="the prompt without the word"),
    Column("random_word", "mean over random real words", title="random word", sign="∼", label="random real word"),
    Column("random_distance", "their mean ‖Δ‖"),
    Column("random", "mean over random changes of the allowed size", title="random Δ", sign="∼",
           label="random change of that size"),
    Column("below_noise", "whether value is no larger than what batch size and padding do", "boolean"),
)  # fmt: skip
RANKED = ["text", "window", "position", "index", "word", "by", "seed", "rank", "replacement", "value", "distance"]
SHADES = {
    "left_out": "word left out",
    "value": "worst change found",
    "best_word": "best real word",
    "random_word": "random word",
}  # may colour
STAND_IN = "first_order"  # colours in the place of random words, while nothing else is known


def words_frame(lines: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Lines as a table with every column and its type; what a line does not say is missing."""
    table = pd.DataFrame(list(lines), columns=[column.name for column in COLUMNS], dtype=object)
    for column in COLUMNS:
        missing = {"float64": math.nan, "object": None}.get(column.dtype, pd.NA)
        table[column.name] = table[column.name].where(table[column.name].notna(), missing)
    return table.astype({column.name: column.dtype for column in COLUMNS})


@dataclass(frozen=True)
class Subject:
    """One map or model at one text, and what its numbers rest on.

    | field | meaning |
    |---|---|
    | `text`, `by` | as in the table of words |
    | `title` | what a page calls it |
    | `kind` | "map" (random weights, or your own), "model" (trained), or "prompt" (a trained model that answers) |
    | `what` | of a model, what is measured: "pooled, layer 6" |
    | `within` | the allowed changes |
    | `certificate` | what the upper bounds rest on, or why there are none |
    | `noise` | the relative change that batch size and padding alone make; NaN if not measured |
    | `about` | provenance of the measurement |
    | `log_odds` | of prompts: how much likelier the first answers are than the second; NaN for all others |
    """

    text: int
    by: str
    title: str
    kind: str
    what: str = ""
    within: str = ""
    certificate: str = ""
    noise: float = math.nan
    about: Mapping[str, Any] = field(default_factory=dict)
    log_odds: float = math.nan

    @property
    def named(self) -> str:
        """The title, with what is measured where that is not clear."""
        return f"{self.title}: {self.what}" if self.what else self.title

    def quiet(self, value: float | None) -> bool:
        """Whether a change is no larger than the noise."""
        return value is not None and value <= self.noise


@dataclass(frozen=True, eq=False)
class Part:
    """One subject at one text: its words (means over seeds), layers and heads."""

    subject: Subject
    content: str
    words: pd.DataFrame
    layers: pd.DataFrame
    heads: pd.DataFrame
    replacements: Mapping[tuple[int, int], Sequence[Mapping[str, Any]]]  # by (window, position), best first

    def at(self, start: int) -> Mapping[str, Any] | None:
        """The row of the word that stands there."""
        from oneword.report.words.lines import records

        found = self.words[(self.words["start"] <= start) & (self.words["end"] > start)]
        return next(iter(records(found)), None)

    def lacks_words(self, start: int) -> bool:
        """Whether this is a model in which real words were not yet looked for in the place of that word."""
        line = self.at(start)
        return self.subject.kind == "model" and line is not None and line["candidates"] is None

    def in_layers(self, position: object, word: object) -> str:
        """A word as the tables of layers call it: attention sinks say so."""
        here = self.layers["position"] == position
        return f"{word} (sink)" if bool(self.layers.loc[here, "sink"].any()) else str(word)

    @property
    def placed(self) -> pd.DataFrame:
        """The words that stand in the text; special tokens where there is nothing else."""
        own = self.words[self.words["start"].notna()]
        return self.words if own.empty else own


@dataclass(frozen=True, eq=False)
class WordTable:
    """What `measure` returns: every word of one or many texts under maps and models.

    | field | one row a | columns |
    |---|---|---|
    | `words` | text, word, subject and seed | `COLUMNS`; NaN or None where unknown |
    | `replacements` | the same and rank | the real words that change most: replacement, value, distance |
    | `layers` | text, model, word and layer | value, how it was found; sink: is it an attention sink there? |
    | `heads` | text, model, layer and head | change of its attention, mass on the word before and after |
    | `joint` | text, subject and seed | several words changed at once, if asked for: positions, value, upper |

    `subjects` says what was measured, `notes` what was left out, `about` how it was made, `results` are the
    measurements of the sup by name (`Sensitivity`). `seconds_left` is None, but for a table that `measure` shows on its
    way: about how long the rest will take. Its first answers are no bounds; `notes` say what they are.
    """

    texts: tuple[str, ...]
    words: pd.DataFrame
    replacements: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=RANKED))
    layers: pd.DataFrame = field(default_factory=pd.DataFrame)
    heads: pd.DataFrame = field(default_factory=pd.DataFrame)
    joint: pd.DataFrame = field(default_factory=pd.DataFrame)
    subjects: tuple[Subject, ...] = ()
    notes: tuple[str, ...] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    results: Mapping[str, Any] = field(default_factory=dict, repr=False)
    seconds_left: float | None = None

    def to_pandas(self) -> pd.DataFrame:
        """A copy of `words`."""
        return self.words.copy()

    def to_dict(self, command: str = "") -> dict[str, Any]:
        """Everything but `results`, ready for JSON; every table opens with `pandas.DataFrame`."""
        return {
            "format": FORMAT,
            "command": command,
            "texts": list(self.texts),
            **{name: to_records(getattr(self, name)) for name in TABLES},
            "subjects": [
                {name: None if value != value else value for name, value in asdict(subject).items()}  # NaN: unknown
                for subject in self.subjects
            ],
            "notes": list(self.notes),
            "about": dict(self.about),
        }

    @staticmethod
    def schema() -> dict[str, Any]:
        """The JSON Schema of `to_dict`."""
        return json_schema()

    def save_html(self, path: str | Path, *, command: str = "", top: int = 1) -> Path:
        """Write one page: the text in colour, the numbers, what they mean. Needs the extra `page`."""
        from oneword.report.words.page import render

        return render(self, Path(path), command=command, top=top)

    @cached_property
    def parts(self) -> list[Part]:
        """The table cut by text and subject, in the order in which they were given."""
        from oneword.report.words.lines import best_replacements, over_seeds

        lines, best = over_seeds(self.words), best_replacements(self.replacements, len(self.replacements))
        found = []
        for subject in self.subjects:
            mine = {name: _rows(table, subject) for name, table in (("layers", self.layers), ("heads", self.heads))}
            tops = {
                (window, position): some
                for (text, window, position, by), some in best.items()
                if (text, by) == (subject.text, subject.by)
            }
            found.append(Part(subject, self.texts[subject.text], _rows(lines, subject), **mine, replacements=tops))
        return found

    def parts_of(self, text: int) -> list[Part]:
        """All subjects at one text."""
        return [part for part in self.parts if part.subject.text == text]

    def with_replacements(
        self, text: int, by: str, position: int, best: Sequence[Mapping[str, Any]], kind: str, *, tried: int
    ) -> WordTable:
        """The same table with the real words that change most in the place of one word, of `tried`, best first.

        Each of `best` holds `replacement` and `value`; there are none where nothing could be tried.
        """
        words = self.words.copy()
        here = (words["text"] == text) & (words["by"] == by) & (words["position"] == position)
        label = words[here].iloc[0]
        words["candidates"] = words["candidates"].mask(here, tried)
        if best:
            for name, value in (
                ("best_word", best[0]["value"]),
                ("replacement", best[0]["replacement"]),
                ("kind", kind),
            ):
                words[name] = words[name].mask(here, value)
        known = {
            name: label[name] for name in RANKED if name in words and name not in ("replacement", "value", "distance")
        }
        ranks = [known | {"distance": math.nan, **line, "rank": rank} for rank, line in enumerate(best, 1)]
        old = self.replacements
        mine = (old["text"] == text) & (old["by"] == by) & (old["position"] == position)
        kept = [frame for frame in (old[~mine], pd.DataFrame(ranks, columns=RANKED)) if len(frame)]
        return replace(self, words=words, replacements=pd.concat(kept, ignore_index=True) if kept else old[~mine])

    def _headline(self) -> Iterator[str]:
        from oneword.report.words.sentences import headline

        yield from (headline(part) for part in self.parts)

    def __repr__(self) -> str:
        return f"WordTable({'; '.join(self._headline())})"

    def __rich__(self) -> RenderableType:
        from oneword.report.words.terminal import WordsView

        return WordsView(self)

    def _repr_html_(self) -> str:
        columns = {column.name: column.title for column in COLUMNS if column.title}
        out = []
        for part, said in zip(self.parts, self._headline(), strict=True):
            known = ["word", *(name for name in columns if part.words[name].notna().any())]
            body = (
                part.words.sort_values("value", ascending=False, kind="stable")[known]
                .head(20)
                .fillna({name: "–" for name in known if part.words[name].dtype == object})
                .rename(columns=columns)
                .to_html(index=False, escape=True, float_format=lambda x: shown(x, 2), na_rep="–")
            )
            out.append(f"<p><b>{escape(part.subject.named)}</b><br>{escape(said)}</p>{body}")
        return "".join(out)


TABLES = ("words", "replacements", "layers", "heads", "joint")


def json_schema() -> dict[str, Any]:
    """The JSON Schema of `WordTable.to_dict` and of the JSON that the command writes; null where a value is unknown."""
    words = {column.name: {"type": _JSON_TYPES[column.dtype]} for column in COLUMNS}
    known: dict[str, Any] = dict(words)
    known |= {name: {"type": "integer"} for name in ("rank", "layer", "head")} | {"how": {"type": "string"}}
    known |= {name: {"type": ["number", "null"]} for name in ("change", "before", "after", "baseline")}
    known["sink"] = {"type": "boolean"}
    known["positions"] = {"type": "array", "items": {"type": "integer"}}
    tables = {
        "words": list(words),
        "replacements": RANKED,
        "layers": ["text", "by", "position", "word", "layer", "value", "how", "sink"],
        "heads": ["text", "by", "layer", "head", "change", "before", "after"],
        "joint": ["text", "by", "seed", "positions", "word", "value", "upper", "baseline"],
    }
    strings = {"type": "array", "items": {"type": "string"}}
    subject = _object({each.name: {"type": _JSON_TYPES[str(each.type)]} for each in fields(Subject)})
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "oneword measure"} | _object(
        {
            "format": {"const": FORMAT},
            "command": {"type": "string"},
            "texts": strings,
            **{
                name: {"type": "array", "items": _object({each: known[each] for each in columns})}
                for name, columns in tables.items()
            },
            "subjects": {"type": "array", "items": subject},
            "notes": strings,
            "about": {"type": "object"},
        }
    )


# Types of pandas, and of the fields of a subject, in JSON.
_JSON_TYPES = {
    "float64": ["number", "null"], "int64": ["integer"], "Int64": ["integer", "null"], "boolean": ["boolean", "null"],
    "object": ["string", "null"], "int": ["integer"], "str": ["string"], "float": ["number", "null"],
    "Mapping[str, Any]": ["object"],
}  # fmt: skip


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    """An object with all of these and nothing else."""
    names = list(properties)
    return {"type": "object", "properties": dict(properties), "required": names, "additionalProperties": False}


def _rows(table: pd.DataFrame, subject: Subject) -> pd.DataFrame:
    if table.empty:
        return table
    return table[(table["text"] == subject.text) & (table["by"] == subject.by)].reset_index(drop=True)
