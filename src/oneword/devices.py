"""Devices that hold numbers."""

from __future__ import annotations

import torch

from oneword.checks import first_line, shortened, shown
from oneword.errors import UnknownNameError


def check_device(device: torch.device | str) -> torch.device:
    """The device of this name. Raises UnknownNameError unless it is here and can hold numbers ("meta" cannot)."""
    try:
        found = torch.device(device)
        torch.zeros((), device=found).item()
    except (RuntimeError, AssertionError, TypeError, ValueError, NotImplementedError) as error:
        got = f"{shown(device)} ({shortened(first_line(error), 80)})"
        raise UnknownNameError(f"expected device to name one that is here, got {got}: give cpu") from None
    return found
