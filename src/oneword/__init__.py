"""oneword: how much can one word change?

    import oneword as ow
    text = ow.gaussian(50, 384)
    phi = ow.AttentionFeatures.draw(text.d, seed=0)
    ow.sensitivity(phi, text)

Names are imported when they are first used: `import oneword` alone does not load torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from oneword._version import __version__

if TYPE_CHECKING:
    from oneword.auditing.result import Audit
    from oneword.auditing.verb import audit
    from oneword.bounds.certificate import Certificate, Certify
    from oneword.comparison.result import Comparison
    from oneword.comparison.verb import compare
    from oneword.errors import OnewordError
    from oneword.experiments.run import sweep
    from oneword.maps.activations import Activation
    from oneword.maps.attention import AttentionFeatures
    from oneword.maps.base import FeatureMap, ModuleFeatures, Probe
    from oneword.maps.multihead import MultiHeadAttention
    from oneword.maps.random import DeepRandomFeatures, RandomFeatures
    from oneword.maps.scores import ReLU, Softmax
    from oneword.maps.transformer import TransformerFeatures
    from oneword.report.words.table import WordTable
    from oneword.result import Sensitivity
    from oneword.search.ascent import Ascent
    from oneword.search.base import Found, Search, Status
    from oneword.sets.constraints import Ball, Constraint, Sphere
    from oneword.sets.vocabulary import Vectors, Vocabulary, Words
    from oneword.sup.verb import sensitivity
    from oneword.text.context import Context, gaussian
    from oneword.text.corpora import Corpus
    from oneword.text.encoders import Encoder, encode
    from oneword.words.verb import measure

_HOME = {
    "Activation": "maps.activations",
    "Ascent": "search.ascent",
    "AttentionFeatures": "maps.attention",
    "Audit": "auditing.result",
    "Ball": "sets.constraints",
    "Certificate": "bounds.certificate",
    "Certify": "bounds.certificate",
    "Comparison": "comparison.result",
    "Constraint": "sets.constraints",
    "Context": "text.context",
    "Corpus": "text.corpora",
    "DeepRandomFeatures": "maps.random",
    "Encoder": "text.encoders",
    "FeatureMap": "maps.base",
    "Found": "search.base",
    "ModuleFeatures": "maps.base",
    "MultiHeadAttention": "maps.multihead",
    "OnewordError": "errors",
    "Probe": "maps.base",
    "RandomFeatures": "maps.random",
    "ReLU": "maps.scores",
    "Search": "search.base",
    "Sensitivity": "result",
    "Softmax": "maps.scores",
    "Sphere": "sets.constraints",
    "Status": "search.base",
    "TransformerFeatures": "maps.transformer",
    "Vectors": "sets.vocabulary",
    "Vocabulary": "sets.vocabulary",
    "WordTable": "report.words.table",
    "Words": "sets.vocabulary",
    "audit": "auditing.verb",
    "compare": "comparison.verb",
    "encode": "text.encoders",
    "gaussian": "text.context",
    "measure": "words.verb",
    "sensitivity": "sup.verb",
    "sweep": "experiments.run",
}

__all__ = [
    "Activation",
    "Ascent",
    "AttentionFeatures",
    "Audit",
    "Ball",
    "Certificate",
    "Certify",
    "Comparison",
    "Constraint",
    "Context",
    "Corpus",
    "DeepRandomFeatures",
    "Encoder",
    "FeatureMap",
    "Found",
    "ModuleFeatures",
    "MultiHeadAttention",
    "OnewordError",
    "Probe",
    "RandomFeatures",
    "ReLU",
    "Search",
    "Sensitivity",
    "Softmax",
    "Sphere",
    "Status",
    "TransformerFeatures",
    "Vectors",
    "Vocabulary",
    "WordTable",
    "Words",
    "__version__",
    "audit",
    "compare",
    "encode",
    "gaussian",
    "measure",
    "sensitivity",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name in ("chat", "errors", "learning", "theory"):
        return import_module(f"oneword.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'oneword' has no attribute {name!r}")
    value = getattr(import_module(f"oneword.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
