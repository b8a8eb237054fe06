"""Every argument of every public verb, given a value of a wrong kind: a result, or an error of one line that names it.

Nothing from inside (AttributeError, a RuntimeError of torch, a KeyError) reaches the person who made the mistake.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import oneword as ow
from oneword.errors import DTypeError, MapError, OnewordError, RangeError, ShapeError, TextError, UnknownNameError
from oneword.maps import registry
from oneword.maps.scores import SCORES
from oneword.words.verb import Options

X = ow.gaussian(4, 3)
PHI = ow.AttentionFeatures.draw(3, seed=0)
TEXT = "I love her much"
REVIEWS = ["It was not a good film, and I was sad.", "She is a really great actor, but he was boring."]


class Thing:
    """Neither a number nor a text nor anything that can be called."""


KINDS: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "a number": lambda: -1,
    "a fraction": lambda: 2.5,
    "NaN": lambda: float("nan"),
    "a huge number": lambda: 10**400,
    "a huger number": lambda: 10**5000,
    "a string": lambda: "no/such/thing",
    "an empty string": lambda: "",
    "bytes": lambda: b"ab",
    "an array": lambda: np.ones((4, 2), dtype=int),
    "a tensor": lambda: torch.ones(4, 2, dtype=torch.int64),
    "ragged lists": lambda: [[1.0, 2.0], [3.0]],
    "an empty list": list,
    "a list of None": lambda: [None],
    "a dict": lambda: {"a": 1},
    "a path": lambda: Path("nowhere"),
    "a set": lambda: {7},
    "a generator": lambda: (i for i in (7, 8)),
    "a class": lambda: Thing,
    "a type": lambda: int,
    "an object": Thing,
    "a complex number": lambda: 1j,
}


def letters(texts: list[str]) -> list[list[int]]:
    return [[1 + text.count(letter) for letter in "aeinot"] for text in texts]


@pytest.fixture(scope="module")
def verbs() -> dict[str, tuple[Callable[..., Any], dict[str, Any]]]:
    """Each with arguments that it takes."""
    encoder = ow.Encoder.load()
    sizes = {"n": 4, "d": 3}
    return {
        "sensitivity": (ow.sensitivity, {"phi": PHI, "x": X, "search": "quick", "certify": False, "baseline": 2}),
        "measure": (ow.measure, {"texts": TEXT, "by": "attention", "effort": "quick", "seeds": 1, "words": False}),
        "compare": (ow.compare, {"a": TEXT, "b": "I love her smile", "by": "attention", "encoder": encoder}),
        "audit": (ow.audit, {"model": letters, "texts": REVIEWS, "lengths": [8], "edits": ["typo"], "resamples": 99}),
        "sweep": (ow.sweep, {"maps": "attention", "trials": 1, **sizes}),
        "encode": (ow.encode, {"text": TEXT}),
        "gaussian": (ow.gaussian, sizes),
        "Encoder.load": (ow.Encoder.load, {}),
        "Corpus.load": (ow.Corpus.load, {"name": "no/such/file.csv"}),
        "Corpus.of": (ow.Corpus.of, {"texts": ["a b"]}),
        "Context": (ow.Context, {"X": X.X}),
        "Ball": (ow.Ball, {}),
        "Sphere": (ow.Sphere, {}),
        "Certify": (ow.Certify, {}),
        "Ascent": (ow.Ascent, {}),
        "Vectors.of": (ow.Vectors.of, {"vectors": X.X}),
        "Vocabulary.of": (ow.Vocabulary.of, {"encoder": encoder, "among": ["good"]}),
        "Words.of": (ow.Words.of, {"encoder": encoder, "words": ["good"]}),
        "RandomFeatures.draw": (ow.RandomFeatures.draw, sizes),
        "DeepRandomFeatures.draw": (ow.DeepRandomFeatures.draw, {**sizes, "depth": 2}),
        "AttentionFeatures.draw": (ow.AttentionFeatures.draw, {"d": 3}),
        "MultiHeadAttention.draw": (ow.MultiHeadAttention.draw, {"d": 3, "heads": 1}),
        "ModuleFeatures": (ow.ModuleFeatures, {"function": lambda X: X}),
        "TransformerFeatures.of": (ow.TransformerFeatures.of, {"model": None}),
        "Sensitivity.load": (ow.Sensitivity.load, {"path": "nowhere.json"}),
    }


MORE = {"measure": list(Options.__annotations__), "sweep": ["depth", "k", "activation", "encoder", "corpus", "seed"]}
VERBS = [
    "sensitivity",
    "measure",
    "compare",
    "audit",
    "sweep",
    "encode",
    "gaussian",
    "Encoder.load",
    "Corpus.load",
    "Corpus.of",
    "Context",
    "Ball",
    "Sphere",
    "Certify",
    "Ascent",
    "Vectors.of",
    "Vocabulary.of",
    "Words.of",
    "RandomFeatures.draw",
    "DeepRandomFeatures.draw",
    "AttentionFeatures.draw",
    "MultiHeadAttention.draw",
    "ModuleFeatures",
    "TransformerFeatures.of",
    "Sensitivity.load",
]
# What takes seconds where it is accepted, or is tested elsewhere.
LEFT_OUT = {("sweep", "cluster"), ("sweep", "workers"), ("measure", "by", "None"), ("audit", "model", "a string")}


@pytest.mark.parametrize("verb", VERBS)
def test_an_argument_of_a_wrong_kind_is_refused_in_one_line(verb: str, verbs: Any, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    function, given = verbs[verb]
    options = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    known = [name for name, about in inspect.signature(function).parameters.items() if about.kind not in options]
    wrong = []
    for argument in dict.fromkeys([*known, *MORE.get(verb, ())]):
        for kind, value in KINDS.items():
            if {(verb, argument), (verb, argument, kind)} & LEFT_OUT:
                continue
            try:
                function(**{**given, argument: value()})
            except OnewordError as error:
                text = str(error)
                if "\n" in text or len(text) > 500 or "expected" not in text:
                    wrong.append(f"{argument} as {kind}: {text[:100]}")
            except Exception as error:
                wrong.append(f"{argument} as {kind}: {type(error).__name__}: {str(error)[:80]}")
    assert wrong == [], "; ".join(wrong)


# Maps of one's own ----------------------------------------------------------------------------------------------------


class OwnMap(ow.FeatureMap):
    def __init__(self) -> None:
        super().__init__()
        self.W = nn.Parameter(torch.ones(5, 2, dtype=torch.float64))

    def forward(self, X: Tensor) -> Tensor:
        return X @ self.W

    def describe(self) -> dict[str, Any]:
        return {"map": "OwnMap"}


class OneTextMap(OwnMap):
    """Takes one text, never a batch."""

    def forward(self, X: Tensor) -> Tensor:
        return X @ X.t()


class LateProbe(ow.Probe):
    """Fails when it is asked, not when it is made."""

    def __init__(self, X: Tensor) -> None:
        self.X, self.norm = X, 1.0

    def change2(self, y: Tensor, i: Tensor) -> Tensor:
        return (y @ torch.ones(7, 1, dtype=y.dtype)).sum(-1)

    def features(self, y: Tensor, i: Tensor) -> Tensor:
        return y

    def bytes_per_candidate(self, m: int) -> int:
        return 8


class LateMap(OwnMap):
    def at(self, X: Tensor) -> ow.Probe:
        return LateProbe(X)


def changing() -> Callable[[Tensor], Tensor]:
    sizes = iter(range(1, 99))
    return lambda X: X[: 1 + next(sizes) % 2]


W32 = torch.ones(384, 5)
PHI32 = ow.AttentionFeatures.draw(3, dtype=torch.float32)
REFUSED: dict[str, tuple[type[OnewordError], str, Any, Any]] = {
    "None": (UnknownNameError, "expected a map: .*got None: give", None, X),
    "a number": (UnknownNameError, "got 3: give", 3, X),
    "a class of ours": (UnknownNameError, "the class AttentionFeatures", ow.AttentionFeatures, X),
    "a class of torch": (UnknownNameError, "the class Linear", nn.Linear, X),
    "weights in float32": (DTypeError, "takes torch.float32; build its weights in X.dtype", lambda X: X @ W32[:3], X),
    "weights in float32 and a string": (DTypeError, r"X\.dtype.*dtype=.*ow\.encode", lambda X: X @ W32, TEXT),
    "a string for a map of another width": (MapError, r"\(6, 384\).*ow\.encode", nn.Linear(5, 3), TEXT),
    "a string for a map of another length": (ShapeError, r"ow\.encode", ow.RandomFeatures.draw(9, 384, k=5), TEXT),
    "a string for a function of arrays": (MapError, r"ow\.encode", lambda X: X @ torch.ones(3, 2).double(), TEXT),
    "an own map of another width": (MapError, r"\(4, 3\).*mat1 and mat2 shapes", OwnMap(), X),
    "an own Probe of another width": (MapError, r"\(4, 3\).*got RuntimeError", LateMap(), X),
    "an own map without batches": (MapError, r"batch \(b, n, d\), or wrap it as ModuleFeatures", OneTextMap(), X),
    "numpy": (ShapeError, "one tensor, got ndarray", lambda X: X.detach().numpy(), X),
    "a tuple": (ShapeError, "one tensor, got tuple", lambda X: (X, X), X),
    "nothing": (ShapeError, "one tensor, got NoneType", lambda X: None, X),
    "NaN": (ow.errors.NonFiniteError, "finite features", lambda X: X * torch.nan, X),
    "whole numbers": (DTypeError, "floating point, got torch.int64", lambda X: X.long(), X),
    "complex numbers": (DTypeError, "floating point, got torch.complex128", lambda X: X * 1j, X),
    "another shape each time": (ShapeError, "one shape", changing(), X),
    "a shape that depends on words": (ShapeError, "one shape", lambda X: X[X[:, 0] > 0], X),
    "no gradient": (DTypeError, "differentiated", lambda X: X.detach() * 2, X),
    "no argument": (MapError, "takes 0 positional arguments", lambda: 1, X),
    "an error of its own": (MapError, "got KeyError: 'a'", lambda X: {}["a"], X),
    "an array in float64": (DTypeError, r"X\.astype\(numpy\.float32\)", PHI32, X.X.numpy()),
    "an array in float32": (DTypeError, r"X\.astype\(numpy\.float64\)", PHI, X.X.float().numpy()),
    "lists": (DTypeError, r"numpy\.array\(X, numpy\.float32\)", PHI32, X.X.tolist()),
    "lists of whole numbers": (DTypeError, r"numpy\.array\(X, float\)", PHI, [[1, 2, 3], [4, 5, 6]]),
    "an array of whole numbers": (DTypeError, r"X\.astype\(float\)", PHI, np.ones((4, 3), int)),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_with_a_map_is_said_in_one_line(case: str) -> None:
    kind, match, phi, x = REFUSED[case]
    with pytest.raises(kind, match=match) as caught:
        ow.sensitivity(phi, x, search=ow.Ascent(random=2), certify=False)
    assert "\n" not in str(caught.value)
    assert "X.to(" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_measure_says_the_same_before_the_work() -> None:
    with pytest.raises(DTypeError, match=r"build its weights in X.dtype.*dtype=torch.float32"):
        ow.measure(TEXT, by=lambda X: X @ W32, effort="quick", words=False)
    with pytest.raises(UnknownNameError, match="the class Linear"):
        ow.measure(TEXT, by=nn.Linear)  # type: ignore[arg-type]


def test_what_a_map_of_ones_own_raised_stays_the_cause() -> None:
    with pytest.raises(MapError) as caught:
        ow.sensitivity(lambda X: {}["a"], X)
    assert isinstance(caught.value.__cause__, KeyError)


def test_faults_of_the_package_are_not_laid_to_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ow.AttentionFeatures, "at", lambda *_: {}["a"])
    with pytest.raises(KeyError):
        ow.sensitivity(PHI, X)


@pytest.mark.parametrize("within", ["ball:-1", "sphere:-1", "ball:0"])
@pytest.mark.parametrize("by", ["attention", "minilm"])
def test_a_radius_is_shown_as_it_was_given(within: str, by: str) -> None:
    with pytest.raises(RangeError, match=rf"got {within.partition(':')[2]}\b(?!\.)|within='ball'"):
        ow.measure(TEXT, by=by, within=within)


def test_an_incomplete_score_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.SCORES, "half", "oneword.maps.scores.base:Score")
    monkeypatch.setitem(registry.SCORES, "gone", "oneword.maps.scores.base:Nothing")
    assert ow.AttentionFeatures.draw(3, score="relu").score.name == "relu"
    assert "half" in SCORES
    for name in ("half", "gone"):
        with pytest.raises(UnknownNameError, match=f"'{name}' as a complete Score, got (Type|Attribute)Error"):
            ow.AttentionFeatures.draw(3, score=name)


# Encoders of one's own ------------------------------------------------------------------------------------------------


def model(**members: Any) -> object:
    """An object that an audit takes, with these members in the place of its own."""
    vectors = lambda self, texts: letters(texts)  # noqa: E731
    return type("Model", (), {"vectors": vectors, **members})()


AUDITED: dict[str, tuple[type[OnewordError], str, object]] = {
    "no vectors": (UnknownNameError, "expected an encoder", model(vectors=None)),
    "a class": (UnknownNameError, "the class Model", type(model())),
    "a missing member": (MapError, "no attribute 'reader'", model(vectors=lambda self, texts: self.reader)),
    "no array": (MapError, "could not convert", lambda texts: ["a"] * len(texts)),
    "ragged": (MapError, "inhomogeneous", lambda texts: [[1.0] * (1 + k) for k in range(len(texts))]),
    "nothing": (ShapeError, "one vector for each", lambda texts: None),
    "longest": (RangeError, "longest of Model as a whole number, got 'abc'", model(longest="abc")),
    "tokens": (ShapeError, r"tokens\(text\) of Model as a list", model(tokens=lambda self, text: 3)),
    "tokens that fail": (MapError, "tokens of a text from Model", model(tokens=lambda self, text: self.nothing)),
    "describe": (ShapeError, r"describe\(\) of Model to give a dict, got 3", model(describe=lambda self: 3)),
}  # fmt: skip


@pytest.mark.parametrize("case", AUDITED)
def test_what_is_wrong_with_an_audited_model_is_said_in_one_line(case: str) -> None:
    kind, match, audited = AUDITED[case]
    with pytest.raises(kind, match=match) as caught:
        ow.audit(audited, REVIEWS, lengths=[8], edits=["typo"])
    assert "\n" not in str(caught.value)


def test_an_audited_model_may_give_lists_of_tokens_and_tensors_with_gradients() -> None:
    own = model(
        tokens=lambda self, text: text.split(),
        vectors=lambda self, texts: torch.tensor(letters(texts), dtype=torch.float64, requires_grad=True),
    )
    assert len(ow.audit(own, REVIEWS, lengths=[8], edits=["typo"], resamples=99).types)


@pytest.mark.parametrize("texts", [[1, 2], 3, [None]])
def test_texts_of_an_audit_that_are_no_strings_are_refused(texts: Any) -> None:
    with pytest.raises(TextError, match=r"expected (a list of texts|texts as strings)"):
        ow.audit(letters, texts, lengths=[8])
