"""What fits into this machine: asked before anything large is allocated."""

from __future__ import annotations

import os

from oneword.errors import MemoryLimitError


def physical_memory() -> int:
    """Bytes of memory in all. Not what is free: a result must not depend on what else is running."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def check_memory(needed: int, what: str) -> None:
    """Refuse what cannot fit into this machine at all, before anything is allocated."""
    total = physical_memory()
    if needed > 0.8 * total:
        raise MemoryLimitError(
            f"expected {what} to fit into 80 % of this machine's {total / 1e9:.1f} GB, got {needed / 1e9:.1f} GB: "
            "make it smaller (width k, words, dimension), or use float32"
        )
