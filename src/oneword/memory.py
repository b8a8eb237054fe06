"""Memory: how much this machine has, and how many items fit into a budget at once."""

from __future__ import annotations

import os

from oneword.errors import MemoryLimitError


def physical_memory() -> int:
    """Bytes of memory in all. Not what is free: a result must not depend on what else is running."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def batch_size(bytes_each: int, budget: int) -> int:
    """How many items of so many bytes each fit into a budget of bytes: at least 1."""
    return max(1, budget // bytes_each)


def check_memory(needed: int, what: str) -> None:
    """Raise MemoryLimitError if `what` needs more bytes than 80 % of this machine has; called before allocating."""
    total = physical_memory()
    if needed > 0.8 * total:
        raise MemoryLimitError(
            f"expected {what} to fit into 80 % of this machine's {total / 1e9:.1f} GB, got {needed / 1e9:.1f} GB: "
            "make it smaller (width k, words, dimension), or use float32"
        )
