"""What users should know though it is no error: Python warnings of a category of our own."""

from __future__ import annotations

import warnings
from collections.abc import Iterable


class AutoschedWarning(UserWarning):
    """Something is not as the user may think: records that are not used, tasks without one."""


def notify(lines: Iterable[str]) -> None:
    """Warn once for each line; the command line prints them as they are."""
    for line in lines:
        warnings.warn(line, AutoschedWarning, stacklevel=4)
