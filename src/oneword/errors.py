"""Every error a user can cause: one line that says what was expected, what was given and what to do."""

from __future__ import annotations


class OnewordError(Exception):
    """Base of all errors raised on purpose; the command line prints it without a traceback."""


class ShapeError(OnewordError):
    """An array has the wrong number of axes or the wrong size."""


class DTypeError(OnewordError):
    """An array is not floating point, or not of the map's dtype or device."""


class NonFiniteError(OnewordError):
    """NaN or infinity where a finite number was needed."""


class ZeroNormError(OnewordError):
    """The features of the unchanged text vanish: a relative change is not defined."""


class RangeError(OnewordError):
    """A number lies outside its allowed range."""


class UnknownNameError(OnewordError):
    """A name that is in no registry; the message lists the nearest known ones."""


class MemoryLimitError(OnewordError):
    """What was asked for cannot fit; the message gives the size and the option that would make it fit."""


class FileFormatError(OnewordError):
    """A file is missing, unreadable, truncated or not one of ours."""
