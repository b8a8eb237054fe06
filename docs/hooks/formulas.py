"""Formulas as MathML, made when the site is built: browsers draw it themselves, so no page needs a script for it."""

import html
import re
import unicodedata
from contextlib import suppress
from typing import Any

from latex2mathml.converter import convert

_FOUND = re.compile(
    r'<span class="arithmatex">\\\((?P<inline>.*?)\\\)</span>'
    r'|<div class="arithmatex">\s*\\\[(?P<block>.*?)\\\]\s*</div>',
    re.DOTALL,
)
_SIZED_NORM = re.compile(r"\\[Bb]igg?[lr]\\\|")  # the converter knows the norm alone, not the enlarged one
_TAG = re.compile(r"\\tag\{(\w+)\}")
_LIMITS = re.compile(r"\\(sup|max|min)_")  # below the sign in a formula of its own, beside it in a line
# Browsers know the letters of these styles, and not the styles.
_STYLED = re.compile(r'<mi mathvariant="(double-struck|script)">([A-Z])</mi>')


def on_page_content(content: str, **_: Any) -> str:
    return _FOUND.sub(_mathml, content)


def _mathml(found: re.Match[str]) -> str:
    block = found["block"] is not None
    latex = html.unescape(found["block"] if block else found["inline"])
    latex = _TAG.sub(r"\\qquad(\1)", _SIZED_NORM.sub(r"\\|", latex))
    if not block:
        return _lettered(convert(latex))
    made = _lettered(convert(_LIMITS.sub(r"\\\1\\limits_", latex), display="block"))
    return f'<div class="formula">{made}</div>'


def _lettered(mathml: str) -> str:
    return _STYLED.sub(lambda found: f"<mi>{_letter(found[1].upper(), found[2])}</mi>", mathml)


def _letter(style: str, letter: str) -> str:
    for name in (f"{style} CAPITAL {letter}", f"MATHEMATICAL {style} CAPITAL {letter}"):  # ℝ is older than 𝔼
        with suppress(KeyError):
            return unicodedata.lookup(name)
    raise ValueError(f"expected a letter that Unicode has, got {letter} in {style}")
