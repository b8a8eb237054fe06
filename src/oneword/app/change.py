"""One word changed by hand: two texts through one map or model, with attention."""

from __future__ import annotations

from oneword.app.subjects import Subjects
from oneword.comparison.result import Comparison
from oneword.comparison.verb import compare
from oneword.maps.registry import find, in_app

SEEN = tuple(name for name in in_app() if find(name)[0].score is not None)  # the maps that have attention to show


def change(subjects: Subjects, key: str, before: str, after: str) -> Comparison:
    """What became of the text, as this one sees it."""
    if subjects.is_model(key):
        return compare(before, after, by=subjects.model(key))
    return compare(before, after, by=subjects.attention(key), encoder=subjects.encoder)
