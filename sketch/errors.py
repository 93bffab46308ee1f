"""The error tree: one base for users to catch, one subclass per layer.

A message has three parts: what went wrong (with the values), where, and what to do about it.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final, Self

# Characters of a value that a message quotes.
_QUOTED: Final = 60


def quoted(value: object) -> str:
    """A value for a message, cut short: what comes from outside may be large."""
    text = repr(value)
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}..."


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that somebody may have meant; None: none is near.  The case is no matter."""
    names = {text.upper(): text for text in known}
    close = get_close_matches(name.upper(), names, n=1, cutoff=0.5)
    return names[close[0]] if close else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """The nearest of the names as a question, where one is near, and all of them."""
    names = list(known)
    close = nearest(name, names)
    guess = "" if close is None else f"did you mean {close}? "
    return f"{guess}known: {', '.join(names)}" if names else "there are none"


class AutoschedError(Exception):
    """Base of every error that autosched raises on purpose."""

    def __init__(self, what: str, where: str = "", hint: str = "") -> None:
        self.what, self.where, self.hint = what, where, hint
        super().__init__(" | ".join(part for part in (what, where, hint) if part))

    def at(self, place: str) -> Self:
        """The same error, which also says that it happened at ``place``, a wider one."""
        found = type(self).__new__(type(self))
        found.__dict__.update(self.__dict__)
        where = ", ".join(part for part in (self.where, place) if part)
        AutoschedError.__init__(found, self.what, where, self.hint)
        return found

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        return (type(self), (self.what, self.where, self.hint))


class ExpressionError(AutoschedError):
    """A tensor expression is malformed: shape, dtype, index rank, duplicate names."""


class ScheduleError(AutoschedError):
    """A step or a decision does not fit the program it is applied to."""


class LoweringError(AutoschedError):
    """A loop nest could not be derived from a sketch and its decisions, or failed verification."""


class TargetError(AutoschedError):
    """A target is unknown, malformed, or not available on this machine."""
