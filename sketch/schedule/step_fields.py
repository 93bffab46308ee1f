"""What the fields of a step may hold, for steps that come from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final

from sketch.errors import ScheduleError, quoted

# No loop has more trips; what is computed with numbers up to here stays within 64 bits.
_MOST: Final = 1 << 40
Rule = tuple[Callable[[object], bool], str]
"""Whether it is what it must be, and what that is."""


def rules_of(kind: type[Any]) -> Mapping[str, Rule]:
    """What the fields of a class of steps may hold, by their declared types."""
    return {item.name: _RULES[str(item.type)] for item in fields(kind)}


def check_fields(kind: str, rules: Mapping[str, Rule], values: Mapping[str, Any]) -> None:
    """Check the JSON values of a step of a kind.

    Raises:
        ScheduleError: a value of another type, an empty name, or a number that is out of range.
    """
    for name, value in values.items():
        holds, wanted = rules[name]
        if not holds(value):
            text = f"step {kind!r} has {name} {quoted(value)}"
            raise ScheduleError(text, hint=f"give {wanted}")


def is_text(value: object) -> bool:
    """Whether it is text that can be a name: not empty, and without half characters."""
    return isinstance(value, str) and bool(value) and is_writable(value)


def is_writable(text: str) -> bool:
    """Whether text can be written to a file: JSON can spell halves of characters."""
    return text.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in text)


def is_count(value: object, least: int = 1) -> bool:
    """Whether it is a whole number, no bool, from ``least`` to 2**40."""
    return type(value) is int and least <= value <= _MOST


def _is_factor(value: object) -> bool:
    return is_text(value) if isinstance(value, str) else is_count(value, 0)


def _all(holds: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(holds(item) for item in value)


_NAME: Final = (is_text, "a name")
_NAMES: Final = (_all(is_text), "a list of names")
_RULES: Final[Mapping[str, Rule]] = {
    "StageId": _NAME,
    "OperationId": _NAME,
    "TensorId": _NAME,
    "AxisIndex": _NAME,
    "LoopId": _NAME,
    "tuple[LoopId, ...]": _NAMES,
    "str": _NAME,
    "int": (lambda value: is_count(value, 0), "a whole number"),
    "bool": (lambda value: isinstance(value, bool), "true or false"),
    "Factor": (_is_factor, "a whole number or a name"),
    "tuple[Factor, ...]": (_all(_is_factor), "a list of numbers and names"),
}
