"""One word changed by hand: two texts through one map or model, with attention."""

from __future__ import annotations

from oneword.app.subjects import Subjects
from oneword.comparison.comparison import Comparison, compare, compare_attention
from oneword.maps.registry import find, in_app

SEEN = tuple(name for name in in_app() if find(name)[0].score is not None)  # the maps that have attention to show


def change(subjects: Subjects, key: str, before: str, after: str) -> Comparison:
    """What became of the text, as this one sees it."""
    if subjects.is_model(key):
        return compare(subjects.model(key), before, after)
    return compare_attention(subjects.attention(key), subjects.encoder, before, after)
