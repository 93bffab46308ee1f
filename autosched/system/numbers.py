"""Numbers as text."""

from __future__ import annotations

import math
from typing import Final

_DIGITS: Final = 3
# More decimals than usual at most: what is smaller still counts as zero.
_MORE: Final = 4


def significant(value: float, decimals: int) -> str:
    """With so many decimals, and up to four more where less than three digits would be seen.

    >>> from autosched.system.numbers import significant
    >>> significant(7.90712, 3), significant(0.0172345, 3), significant(0.0, 3)
    ('7.907', '0.0172', '0.000')
    """
    if not math.isfinite(value) or value == 0:
        return f"{value:.{decimals}f}"
    needed = _DIGITS - 1 - math.floor(math.log10(abs(value)))
    return f"{value:.{min(max(needed, decimals), decimals + _MORE)}f}"


def counted(count: int, noun: str) -> str:
    """A number and what it counts.

    >>> from autosched.system.numbers import counted
    >>> counted(1, "trial"), counted(2048, "trial")
    ('1 trial', '2048 trials')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def four_digits(value: float) -> str:
    """Four digits, or all of those before the point; no zeros at the end.

    >>> from autosched.system.numbers import four_digits
    >>> four_digits(7.90712), four_digits(12345.6), four_digits(2.0)
    ('7.907', '12346', '2')
    """
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


def milliseconds(seconds: float) -> str:
    """Four digits of milliseconds, without the unit; ``-`` where they are not known."""
    return four_digits(seconds * 1e3) if math.isfinite(seconds) else "-"
