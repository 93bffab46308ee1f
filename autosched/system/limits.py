"""Checks of options that a user gives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import Field, fields, is_dataclass
from numbers import Integral, Real
from typing import Any, Final

from autosched.system.errors import OptionError
from sketch.errors import AutoschedError, quoted

# By annotation: the type of a value, and what it is called.  Others have checks of their own.
_KINDS: Final[Mapping[str, tuple[type, str]]] = {
    "int": (Integral, "an integer"),
    "float": (Real, "a number"),
    "bool": (bool, "True or False"),
}


def check_number(name: str, value: float, low: float, high: float) -> None:
    """Raise OptionError unless ``value`` is a number and ``low <= value <= high``.

    Args:
        name: of the option, for the error.
        value: what was given.
        low: least value.
        high: largest value.
    """
    number = isinstance(value, Real) and not isinstance(value, bool)
    if not number or not low <= value <= high:
        limit = f"at least {low}" if high == math.inf else f"between {low} and {high}"
        raise OptionError(f"{name} is {value!r}", hint=f"give a number that is {limit}")


def check_whole(
    name: str, value: object, low: int, error: type[AutoschedError] = OptionError
) -> None:
    """Raise an error unless ``value`` is a whole number that is at least ``low``.

    Args:
        name: of the argument, for the error.
        value: what was given.
        low: least value.
        error: its class.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < low:
        hint = f"give a whole number that is at least {low}"
        raise error(f"{name} is {quoted(value)}", hint=hint)


def check_choice(name: str, value: object, known: Sequence[str]) -> None:
    """Raise OptionError, naming the option, unless ``value`` is one of ``known``."""
    if value not in known:
        raise OptionError(f"{name} {value!r} is unknown", hint=f"one of {', '.join(known)}")


def check_kinds(options: Any) -> None:
    """Raise OptionError unless fields of a dataclass hold what they are annotated with.

    That is integers, numbers, truth values, each or None where that is allowed, and other options.
    """
    for item in fields(options):
        _check_kind(item, getattr(options, item.name))


def _check_kind(item: Field[Any], value: object) -> None:
    names = [name.strip() for name in str(item.type).split("|")]
    if value is None and "None" in names:
        return
    kind = next((_KINDS[name] for name in names if name in _KINDS), None) or _options_kind(item)
    if kind is None:
        return
    confused = isinstance(value, bool) and kind[0] is not bool
    if confused or not isinstance(value, kind[0]):
        hint = f"give {kind[1]}{' or None' if 'None' in names else ''}"
        raise OptionError(f"{item.name} is {value!r}", hint=hint)


def _options_kind(item: Field[Any]) -> tuple[type, str] | None:
    """Of a field that holds options: their class, which its default has."""
    factory = item.default_factory
    found = factory if isinstance(factory, type) else type(item.default)
    return (found, f"{found.__name__}(...)") if is_dataclass(found) else None


def check_tuple(name: str, value: object) -> None:
    """Raise OptionError unless ``value`` is a tuple or a list."""
    if not isinstance(value, tuple | list):
        raise OptionError(f"{name} is {value!r}", hint="give a tuple")
