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
