"""Values of JSON files, which may be damaged: of the type that they must have, or ValueError.

And what JSON has no value for, before it is written.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any, Final

from sketch.errors import quoted

_LARGEST: Final = sys.float_info.max


def json_object(value: Any) -> Mapping[str, Any]:
    """An object: values by name."""
    if not isinstance(value, dict):
        raise ValueError(f"{quoted(value)} is no object")
    return value


def json_list(value: Any, count: int | None = None) -> list[Any]:
    """A list, of ``count`` values unless that is None."""
    if not isinstance(value, list):
        raise ValueError(f"{quoted(value)} is no list")
    if count is not None and len(value) != count:
        raise ValueError(f"{len(value)} values instead of {count}")
    return value


def json_text(value: Any) -> str:
    """Text."""
    if not isinstance(value, str):
        raise ValueError(f"{quoted(value)} is no text")
    return value


def json_number(value: Any) -> float:
    """A number that fits a float, as it is: int or float."""
    if type(value) not in (int, float) or not -_LARGEST <= value <= _LARGEST:
        raise ValueError(f"{quoted(value)} is no finite number")
    return value  # type: ignore[no-any-return]


def json_whole(value: Any, most: int) -> int:
    """A whole number from ``-most`` to ``most``."""
    if type(value) is not int or not -most <= value <= most:
        raise ValueError(f"{quoted(value)} is no whole number of a size that can be")
    return value


def finite_values(value: Any) -> Any:
    """The same with None for infinities and NaN, which JSON does not have."""
    if isinstance(value, dict):
        return {name: finite_values(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite_values(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
