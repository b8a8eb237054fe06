"""All rules by their types, and a choice of them."""

from __future__ import annotations

from collections.abc import Sequence

from oneword.auditing import noise_rules, signal_rules
from oneword.auditing.edits import Rule
from oneword.experiments.cell import choice

RULES = (*signal_rules.RULES, *noise_rules.RULES)
NAMES = tuple(rule.type for rule in RULES)


def chosen(types: Sequence[str] | None) -> tuple[Rule, ...]:
    """The rules of these types; all by default."""
    wanted = NAMES if types is None else {choice("an edit", name, NAMES) for name in types}
    return tuple(rule for rule in RULES if rule.type in wanted)
