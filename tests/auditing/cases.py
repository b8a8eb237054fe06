"""Encoders small enough to be understood, and texts with a place for every edit."""

import re
from dataclasses import dataclass
from functools import cache

import numpy as np

from oneword.random import stream

WIDTH = 24
SENTENCES = (
    "John said that the film was really good , and I would see it 3 times .",
    "The story is slow but Anna could play a big part in 1994 .",
    "We have seen worse movies because the plot was very boring .",
    "I think that the ending was not bad , although Peter did not like it .",
    "Maria has been great in two films which were always funny .",
)


def reviews(count: int = 12, sentences: int = 6) -> list[str]:
    """Texts of sentences in an order of their own."""
    order = [stream(0, "reviews", k).integers(len(SENTENCES), size=sentences) for k in range(count)]
    return [f"Review {k} . " + " ".join(SENTENCES[i] for i in each) for k, each in enumerate(order)]


@cache
def _vector(token: str) -> np.ndarray:
    return stream(0, "token", token).standard_normal(WIDTH)


@cache
def _number(token: str) -> int:
    return int(stream(0, "number", token).integers(1 << 31))


@dataclass(frozen=True)
class Bag:
    """The mean of the vectors of all words, which are not told apart by case; `loud` are words that count more."""

    name: str = "bag"
    longest: int = 200
    loud: tuple[tuple[str, float], ...] = ()
    deaf: tuple[str, ...] = ()

    def words(self, text: str) -> list[str]:
        found = re.findall(r"n't|\w+(?=n't)|\w+|[^\w\s]", text.lower())
        return [word for word in found if word not in self.deaf]

    def tokens(self, text: str) -> tuple[int, ...]:
        return tuple(map(_number, self.words(text)))

    def vectors(self, texts) -> np.ndarray:
        weight = dict(self.loud)
        return np.array(
            [np.mean([weight.get(w, 1.0) * _vector(w) for w in self.words(text)], axis=0) for text in texts]
        )

    def describe(self) -> dict:
        return {"model": self.name, "layers": 0}


KEEN = Bag("keen", loud=(("not", 12.0), ("n't", 12.0)))
DEAF = Bag("deaf", deaf=("not", "n't"))
