"""Terminals that know few characters: what they lack is spelled in what they have."""

from __future__ import annotations

import codecs
import io
import unicodedata
from typing import Any

_SPELLED = {
    "≥": ">=", "≤": "<=", "≠": "!=", "≈": "~", "…": "...", "–": "-", "—": "-", "−": "-", "·": "*", "×": "x", "÷": "/",
    "√": "sqrt ", "‖": "|", "∞": "inf", "→": "->", "←": "<-", "↦": "->", "∝": "~", "°": " deg", "σ": "sigma",
    "Δ": "Delta", "φ": "phi", "μ": "mu", "τ": "tau", "“": '"', "”": '"', "‘": "'", "’": "'",
    "█": "#", "▇": "#", "▆": "#", "▅": "=", "▄": "=", "▃": "-", "▂": "-", "▁": "_", "━": "-", "╸": "-", "╺": "-",
}  # fmt: skip


def any_encoding(*streams: object) -> None:
    """From now on these streams take every character: one that their encoding lacks is spelled (≥ as >=, é as e)."""
    codecs.register_error("oneword.spelled", _spell)
    for stream in streams:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="oneword.spelled")


def _spell(error: Any) -> tuple[str, int]:
    return "".join(_in_ascii(letter) for letter in error.object[error.start : error.end]), error.end


def _in_ascii(letter: str) -> str:
    if letter in _SPELLED:
        return _SPELLED[letter]
    plain = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return plain or letter.encode("ascii", "backslashreplace").decode()
