"""Results that depend on one object alone, kept as long as the object lives.

A cache of a fixed size would keep the objects, and all that they refer to, of programs that nobody
uses any more.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

_Object = TypeVar("_Object", bound="KeepsResults")
_T = TypeVar("_T")


class KeepsResults:
    """Base of classes whose objects hold what ``kept`` functions found out about them.

    Copies and pickles begin without.
    """

    __slots__ = ("_results",)

    _results: dict[Callable[..., Any], Any]

    def __getstate__(self) -> dict[str, Any] | None:
        """Of classes without slots, the others have their own."""
        return getattr(self, "__dict__", None)


def kept(function: Callable[[_Object], _T]) -> Callable[[_Object], _T]:
    """Call ``function`` once for each object; its results must not refer to the object."""

    @wraps(function)
    def call(subject: _Object) -> _T:
        try:
            results = subject._results
        except AttributeError:
            results = _begun(subject)
        if call not in results:
            results[call] = function(subject)
        found: _T = results[call]
        return found

    return call


def known_result(function: Callable[[_Object], _T], subject: _Object) -> _T | None:
    """What a ``kept`` function found out about an object; None where it was not asked."""
    return getattr(subject, "_results", {}).get(function)


def give_result(function: Callable[[_Object], _T], subject: _Object, result: _T) -> None:
    """Let a ``kept`` function know what another process found out about an equal object."""
    results = getattr(subject, "_results", None)
    (_begun(subject) if results is None else results)[function] = result


def _begun(subject: KeepsResults) -> dict[Callable[..., Any], Any]:
    results: dict[Callable[..., Any], Any] = {}
    object.__setattr__(subject, "_results", results)  # the object may be frozen
    return results
