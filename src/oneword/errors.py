"""Every error a user can cause: one line that says what was expected, what was given and what to do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

# What a terminal obeys instead of showing it: control characters (ESC, BEL, CR, and C1 such as U+009B), line and
# paragraph separators, marks that turn the direction of all that follows; and halves of surrogate pairs, which cannot
# be written at all. XML allows none of them either.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ufffe\uffff\ud800-\udfff]")


def printable(text: str, keep: str = "") -> str:
    """The text with what a terminal would obey instead of showing, line breaks too, written as in Python: \\x1b.

    Characters of `keep` stay as they are.
    """
    return _UNPRINTABLE.sub(
        lambda found: found[0] if found[0] in keep else found[0].encode("unicode_escape").decode(), text
    )


class OnewordError(Exception):
    """Base of all errors raised on purpose; the command line prints it without a traceback."""

    def __str__(self) -> str:
        """One line that is safe to print, whatever names and values it repeats."""
        return printable(super().__str__())


class ShapeError(OnewordError):
    """An array has the wrong number of axes or the wrong size."""


class DTypeError(OnewordError):
    """An array is not floating point, or not of the map's dtype or device."""


class NonFiniteError(OnewordError):
    """NaN or infinity where a finite number was needed."""


class ZeroNormError(OnewordError):
    """The features of the unchanged text vanish: a relative change is not defined."""


class MapError(OnewordError):
    """A map of one's own fails at the text that it is given; the message repeats what it raised."""


class RangeError(OnewordError):
    """A number lies outside its allowed range."""


class UnknownNameError(OnewordError):
    """A name that is in no registry; the message lists the nearest known ones."""


class MemoryLimitError(OnewordError):
    """What was asked for cannot fit; the message gives the size and the option that would make it fit."""


class FileFormatError(OnewordError):
    """A file is missing, unreadable, truncated or not one of ours."""


class TextError(OnewordError):
    """A text that is empty, not a string or not valid Unicode."""


class MissingExtraError(OnewordError):
    """A package of an extra is not installed; the message says what to install."""


class HubError(OnewordError):
    """A hub cannot be reached, or does not give what was asked for."""


class RankError(OnewordError):
    """Samples whose features are linearly dependent: no model on them can take every set of labels."""


class CellError(OnewordError):
    """Cells of a run failed; the message names them and says why. The other cells are done and kept."""


class BusyError(OnewordError):
    """Another run is at work in the same folder."""


class ClusterError(OnewordError):
    """A cluster cannot be started or reached, or its workers are not what this run needs."""


def did_you_mean(value: object, known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the known name that is spelled most like it; empty if none is."""
    near = difflib.get_close_matches(value, list(known), n=1) if isinstance(value, str) and len(value) < 200 else []
    return f"; did you mean {near[0]!r}?" if near else ""
