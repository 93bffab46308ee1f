"""What users should know though it is no error: Python warnings of a category of our own."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable
from types import FrameType
from typing import Final

# What stands between a user's line and ours: our packages, and the library's wrappers of functions.
_NOT_OF_USERS: Final = ("autosched", "sketch", "costmodel", "codegen", "contextlib", "functools")


class AutoschedWarning(UserWarning):
    """Something is not as the user may think: records that are not used, tasks without one."""


def notify(lines: Iterable[str]) -> None:
    """Warn once for each line; the command line prints them as they are.

    A warning is one of the line that called this library: Python shows a text once for each.
    """
    frame = _caller()
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    for line in lines:
        warnings.warn_explicit(
            line,
            AutoschedWarning,
            frame.f_code.co_filename,
            frame.f_lineno,
            _module(frame),
            registry,
        )


def _caller() -> FrameType:
    """The innermost frame outside this library; in a thread of ours its first one."""
    frame = sys._getframe(1)
    while _module(frame).partition(".")[0] in _NOT_OF_USERS and frame.f_back is not None:
        frame = frame.f_back
    return frame


def _module(frame: FrameType) -> str:
    """The module that a frame runs code of; a text that is executed may be of none."""
    return str(frame.f_globals.get("__name__", frame.f_code.co_filename))
