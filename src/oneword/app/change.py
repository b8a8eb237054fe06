"""One word changed by hand: two texts through one map or model, with attention."""

from __future__ import annotations

from oneword.app.readers import Readers
from oneword.comparison.comparison import Comparison, compare, compare_attention

SEEN = ("attention", "attention-relu")  # the maps that have attention to show


def change(readers: Readers, key: str, before: str, after: str) -> Comparison:
    """What became of the text, as this one sees it."""
    if readers.is_model(key):
        return compare(readers.model(key), before, after)
    return compare_attention(readers.attention(key), readers.encoder, before, after)
