"""Checks of numbers that a user gives."""

from __future__ import annotations

import math

from autosched.system.errors import OptionError


def check_number(name: str, value: float, low: float, high: float) -> None:
    """Raise OptionError unless ``low <= value <= high``."""
    if isinstance(value, bool) or not low <= value <= high:
        limit = f"at least {low}" if high == math.inf else f"between {low} and {high}"
        raise OptionError(f"{name} is {value!r}", hint=f"give a number that is {limit}")
