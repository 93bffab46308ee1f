"""Fields of the frozen options by name: ``--set search.population=8192``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields, replace
from typing import Any, Final

from autosched.cli.command import UsageError
from autosched.measure.options import MeasureOptions
from autosched.search.options import SearchOptions
from autosched.tuning.options import TuneOptions

# What has a flag of its own, or is no single value.
_ELSEWHERE: Final = frozenset({"trials", "budget_s", "seed", "search", "rules", "variants"})
_GROUPS: Final = {"": TuneOptions, "search": SearchOptions, "measure": MeasureOptions}
_PARSERS: Final[Mapping[str, Callable[[str], int | float]]] = {"int": int, "float": float}


def with_fields(
    options: TuneOptions, settings: Sequence[str]
) -> tuple[TuneOptions, MeasureOptions]:
    """Options and how to measure, with the fields that ``settings`` name.

    Args:
        options: what is not named stays.
        settings: each ``NAME=VALUE``; a name is a field of ``TuneOptions``, ``search.`` and one of
            ``SearchOptions``, or ``measure.`` and one of ``MeasureOptions``.

    Raises:
        UsageError: an unknown name, or a value of another type.
        OptionError: a value that makes no sense.
    """
    changes: dict[str, dict[str, Any]] = {group: {} for group in _GROUPS}
    known = field_names()
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or name not in known:
            problem = f"there is no option {name!r}" if equals else f"{setting!r} has no value"
            raise UsageError(problem, "--set", f"write NAME=VALUE, NAME one of {', '.join(known)}")
        group, _, own = name.rpartition(".")
        changes[group][own] = _value(name, text, known[name])
    search = replace(options.search, **changes["search"])
    return replace(options, search=search, **changes[""]), MeasureOptions(**changes["measure"])


def field_names() -> dict[str, Field[Any]]:
    """Every name that ``with_fields`` knows, and its field."""
    return {
        f"{group}.{item.name}".lstrip("."): item
        for group, kind in _GROUPS.items()
        for item in fields(kind)
        if group == "measure" or item.name not in _ELSEWHERE
    }


def _value(name: str, text: str, item: Field[Any]) -> int | float | str | None:
    """``text`` as the field's annotation says: a number, a word, or none."""
    kinds = [kind.strip() for kind in str(item.type).split("|")]
    if text == "none" and "None" in kinds:
        return None
    parser = next((_PARSERS[kind] for kind in kinds if kind in _PARSERS), None)
    if parser is None:
        return text
    try:
        return parser(text)
    except ValueError:
        raise UsageError(f"{name} is {text!r}", "--set", f"give {' or '.join(kinds)}") from None
