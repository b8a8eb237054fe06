"""Independent pieces of work in threads: as many workers as torch has threads, each with a single one of its own.

A piece is computed by one thread from start to end, so that its bits do not depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Work = TypeVar("Work")


def in_threads(do: Callable[[Work], None], pieces: Iterable[Work]) -> Iterator[None]:
    """Yields once a piece, when it is done; consume it to the end."""
    threads = torch.get_num_threads()
    if threads == 1:
        yield from map(do, pieces)
        return
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield from pool.map(do, pieces)
    finally:
        torch.set_num_threads(threads)
