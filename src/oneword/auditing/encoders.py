"""What can be audited: anything that turns texts into vectors.

The length of a text is counted in tokens where the tokenizer is known, as for transformers, and in words otherwise, as
for a plain function. `NAMED` is the registry of encoders that have a name and are not transformers.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from oneword.checks import described, shortened, shown, whole_number
from oneword.errors import (
    MapError,
    NonFiniteError,
    OnewordError,
    RangeError,
    ShapeError,
    UnknownNameError,
    ZeroNormError,
)
from oneword.text.tokenizer_files import tokenised

Unit = Literal["tokens", "words"]
Vectors = Float[np.ndarray, "texts p"]

NAMED: dict[str, Callable[[], object]] = {}  # name → what makes the encoder; a transformer needs no entry

_WORD = re.compile(r"\s*\S+(?:\s+$)?|\s+")  # with the space around it, so that only equal texts have equal words


def split_words(text: str) -> tuple[str, ...]:
    """The words of a text, each with the space before it."""
    return tuple(_WORD.findall(text))


@dataclass(frozen=True, eq=False)
class AuditedEncoder:
    """An encoder, with all that an audit needs to know about it; `of` makes one from any kind of encoder.

    | field | meaning |
    |---|---|
    | `name` | its name in tables |
    | `vectors` | a function from a list of texts to an array with one row per text |
    | `tokens` | what the encoder sees of a text: texts with equal tokens have equal vectors |
    | `longest` | how many tokens a text may have |
    | `unit` | what `tokens` gives: the "tokens" of a tokenizer, or "words" where nothing is known of one |
    | `about` | where it comes from, for reports |
    """

    name: str
    vectors: Callable[[list[str]], ArrayLike] = field(repr=False)
    tokens: Callable[[str], tuple[Hashable, ...]] = field(default=split_words, repr=False)
    longest: int = sys.maxsize
    unit: Unit = "words"
    about: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, model: object, name: str | None = None) -> AuditedEncoder:
        """Any encoder as an AuditedEncoder; `name` replaces its own.

        | model | what is audited |
        |---|---|
        | a string | as `load_encoder` finds it: "minilm", a folder, a name of `NAMED` or of a hub |
        | TransformerFeatures | its pooled vector, or the output "cls" if it was made with that |
        | any other object | its method `vectors` or `encode`, or the object itself if it can be called |

        Of other objects `name`, `longest`, `tokens(text)` and `describe()` are used where they have them. Raises
        UnknownNameError for an object that has none of the three.
        """
        from torch import nn  # takes seconds to load, which the registry alone need not wait for

        from oneword.maps.transformer import TransformerFeatures

        if isinstance(model, AuditedEncoder):
            return model if name is None else cls(**{**vars(model), "name": name})
        if isinstance(model, str):
            return cls.of(load_encoder(model), name)
        if isinstance(model, TransformerFeatures):
            return _transformer(model, name)
        found = [getattr(model, each, None) for each in ("vectors", "encode")]
        itself = None if isinstance(model, nn.Module) else model  # which takes tensors, not texts
        if isinstance(model, type):
            found, itself = [], None
        call: Any = next(filter(callable, (*found, itself)), None)
        if call is None:
            raise UnknownNameError(
                "expected an encoder as a name, TransformerFeatures or a function from texts to vectors, got "
                f"{shown(model)}: give one of these, for example TransformerFeatures.of(model, tokenizer)"
            )
        own = name or str(getattr(model, "name", None) or getattr(model, "__name__", type(model).__name__))
        tokens, longest = getattr(model, "tokens", None), getattr(model, "longest", None)
        describe = getattr(model, "describe", None)
        about = _asked(own, "describe()", describe) if callable(describe) else {}
        if not isinstance(about, Mapping):
            raise ShapeError(f"expected describe() of {own} to give a dict, got {shown(about)}: mend or remove it")
        return cls(
            own,
            call,
            partial(_tokens, own, tokens) if callable(tokens) else split_words,
            sys.maxsize if longest is None else whole_number(f"longest of {own}", longest),
            "tokens" if callable(tokens) else "words",
            {"model": own, **about},
        )

    def encode(self, texts: Sequence[str]) -> Vectors:
        """The vectors of these texts in float64; all must be finite and not zero, or a relative change is not defined.

        Raises ShapeError, NonFiniteError or ZeroNormError.
        """
        given = _asked(self.name, f"the vectors of {len(texts)} texts", self.vectors, list(texts))
        given = given.detach().cpu() if hasattr(given, "detach") else given  # a tensor
        found = _asked(self.name, f"one vector for each of {len(texts)} texts", np.asarray, given, dtype=np.float64)
        if found.ndim != 2 or len(found) != len(texts):
            raise ShapeError(f"expected one vector for each of {len(texts)} texts, got {found.shape} from {self.name}")
        bad = int((~np.isfinite(found).all(axis=1)).sum())
        if bad:
            raise NonFiniteError(f"expected finite vectors, got {bad} of {len(texts)} that are not from {self.name}")
        zero = int((np.linalg.norm(found, axis=1) == 0).sum())
        if zero:
            raise ZeroNormError(
                f"expected vectors that are not zero, got {zero} of {len(texts)} from {self.name}: a relative change "
                "is not defined; choose another output"
            )
        return found


def _asked(name: str, what: str, function: Callable[..., Any], *given: Any, **options: Any) -> Any:
    """What an encoder of one's own answers; what it raises instead, in one line."""
    try:
        return function(*given, **options)
    except OnewordError:
        raise
    except Exception as error:
        got = shortened(described(error), 200)
        raise MapError(f"expected {what} from {name}, got {got}: mend the encoder, or give another") from error


def _tokens(name: str, tokens: Callable[[str], Any], text: str) -> tuple[Hashable, ...]:
    """The tokens of a text as a tuple."""
    found = _asked(name, "the tokens of a text", tokens, text)
    if not isinstance(found, Sequence) or not all(isinstance(each, Hashable) for each in found):
        raise ShapeError(f"expected tokens(text) of {name} as a list of tokens, got {shown(found)}: return one")
    return tuple(found)


def load_encoder(name: str, **options: Any) -> AuditedEncoder:
    """An encoder by its name: one of `NAMED`, else a transformer as `TransformerFeatures.load` takes it.

    `options` are those of `TransformerFeatures.load`; `output` is "pooled" by default. Raises RangeError if
    `layer` or `random_init` is given for an encoder that is not a transformer.
    """
    if name in NAMED:
        asked = sorted(key for key in ("layer", "random_init") if options.get(key) is not None)
        if asked:
            raise RangeError(f"expected no {asked[0]} for {name}, which is no transformer: leave it out")
        return AuditedEncoder.of(NAMED[name](), name)
    from oneword.maps.transformer import TransformerFeatures

    return _transformer(TransformerFeatures.load(name, **{"output": "pooled", **options}))


def encoders_of(models: object) -> list[AuditedEncoder]:
    """One encoder, several, or a mapping from names to encoders, in their order."""
    if isinstance(models, Mapping):
        return [AuditedEncoder.of(model, str(name)) for name, model in models.items()]
    if isinstance(models, list | tuple):
        return [AuditedEncoder.of(model) for model in models]
    return [AuditedEncoder.of(models)]


def _transformer(features: Any, name: str | None = None) -> AuditedEncoder:
    """A transformer with one vector per text: its own output if that is pooled, else the pooled output."""
    one = features if features.selection.output.pooled else features.select(output="pooled")
    return AuditedEncoder(
        name or one.name,
        lambda texts: one.vectors(texts).double().cpu().numpy(),
        lambda text: tuple(tokenised(one.encoder.tokenizer, text).ids),
        one.encoder.longest,
        "tokens",
        dict(one.describe()),
    )
