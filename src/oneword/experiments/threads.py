"""One thread for everything that counts: how a sum is split among threads decides its last bits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numba
import torch
from threadpoolctl import threadpool_limits

# One cell of a process at a time: another one that ends would give all of them their threads back.
_ALONE = threading.RLock()


@contextmanager
def one_thread() -> Iterator[None]:
    """torch, BLAS, OpenMP and numba on one thread each, and as they were afterwards."""
    with _ALONE, threadpool_limits(1):
        threads = torch.get_num_threads(), numba.get_num_threads()
        torch.set_num_threads(1)
        numba.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads[0])
            numba.set_num_threads(threads[1])
