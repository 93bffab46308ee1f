"""Errors of the measuring layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from sketch.errors import AutoschedError

if TYPE_CHECKING:
    from autosched.measure.result import MeasureResult

# Signals that no kernel and no compiler raises itself: the OOM killer's, and those people send.
_FROM_OUTSIDE: Final = ("SIGKILL", "SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT")


def killed_from_outside(kind: str) -> bool:
    """Whether a process that ended by ``kind``, a signal's name or another text, was killed."""
    return kind in _FROM_OUTSIDE


class MeasureError(AutoschedError):
    """Measuring itself does not work here; a candidate that fails is a ``Failure`` instead."""


class BatchInterrupted(KeyboardInterrupt):
    """Ctrl-C while a batch was timed; ``results``: of its first candidates, which are timed."""

    def __init__(self, results: Sequence[MeasureResult]) -> None:
        self.results = tuple(results)
        super().__init__(*self.results)


class ChildDiedError(MeasureError):
    """A child process ended while it worked on a request.

    ``kind`` is the name of the signal, or ``exit status N``; ``output`` the end of what it printed.
    """

    def __init__(self, kind: str, output: str = "") -> None:
        self.kind, self.output = kind, output
        super().__init__(f"a measuring child process died ({kind})", output)

    @property
    def from_outside(self) -> bool:
        """Whether somebody killed it: no fault of what it worked on, unless it happens again."""
        return killed_from_outside(self.kind)

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.kind, self.output)


class ChildTimeoutError(MeasureError):
    """A child process did not answer in time and was killed; ``seconds`` is what it was given."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"a measuring child process gave no answer in {seconds:g} s")

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.seconds,)
