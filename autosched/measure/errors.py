"""Errors of the measuring layer."""

from typing import Any

from sketch.errors import AutoschedError


class MeasureError(AutoschedError):
    """Measuring itself does not work here; a candidate that fails is a ``Failure`` instead."""


class ChildDiedError(MeasureError):
    """A child process ended while it worked on a request.

    ``kind`` is the name of the signal, or ``exit status N``; ``output`` the end of what it printed.
    """

    def __init__(self, kind: str, output: str = "") -> None:
        self.kind, self.output = kind, output
        super().__init__(f"a measuring child process died ({kind})", output)

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.kind, self.output)


class ChildTimeoutError(MeasureError):
    """A child process did not answer in time and was killed; ``seconds`` is what it was given."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"a measuring child process gave no answer in {seconds:g} s")

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        return type(self), (self.seconds,)
