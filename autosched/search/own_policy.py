"""A policy of a user's: what it raises or returns that makes no sense becomes an error of ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from autosched.measure.result import MeasureResult
from autosched.search.policy import SearchPolicy
from autosched.system.errors import TuningError
from autosched.tasks.candidate import Candidate
from sketch.errors import AutoschedError, quoted

_Answer = TypeVar("_Answer")


class OwnPolicy:
    """The policy that ``make`` makes, see ``SearchPolicy``.

    Raises:
        TuningError: it fails, or what it asks for are no candidates.
    """

    def __init__(self, make: Callable[[], SearchPolicy]) -> None:
        self._policy = _called("the maker of the search policy", make)
        self._name = f"search policy {type(self._policy).__name__}"

    def ask(self, count: int) -> list[Candidate]:
        """See ``SearchPolicy``.

        Raises:
            TuningError: it fails, or gives something else than candidates.
        """
        given: object = _called(f"ask of {self._name}", lambda: self._policy.ask(count))
        if not isinstance(given, list | tuple):
            given = [given]
        for item in given:
            if not isinstance(item, Candidate):
                raise TuningError(
                    f"{quoted(item)} is no candidate", f"ask of {self._name}",
                    "return a list of Candidate(sketch, values)",
                )  # fmt: skip
        return list(given)

    def tell(self, candidates: Sequence[Candidate], results: Sequence[MeasureResult]) -> None:
        """See ``SearchPolicy``.

        Raises:
            TuningError: it fails.
        """
        _called(f"tell of {self._name}", lambda: self._policy.tell(candidates, results))


def _called(what: str, function: Callable[[], _Answer]) -> _Answer:
    """What it returns; raises TuningError where it raises what is no error of ours."""
    try:
        return function()
    except AutoschedError:
        raise
    except Exception as error:  # the function is the user's
        raise TuningError(f"it raised {type(error).__name__}: {error}", what) from error
