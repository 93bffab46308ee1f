"""Fields of the frozen options by name: ``--set search.evolution.quota=3``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import Field, dataclass, fields, is_dataclass, replace
from typing import Any, Final, TypeVar

from autosched.cli.command import UsageError
from autosched.measure.options import MeasureOptions
from autosched.tuning.options import TuneOptions
from sketch.errors import suggestion

_Options = TypeVar("_Options")

# What has a flag of its own, or is no single value.
_ELSEWHERE: Final = frozenset(
    {"trials", "budget_s", "seed", "rules", "accuracy", "search.gbdt.seed", "search.extra_features"}
)
_TRUTH: Final = {"true": True, "false": False}
_PARSERS: Final[Mapping[str, Callable[[str], int | float]]] = {
    "int": int,
    "float": float,
    "bool": lambda text: _TRUTH[text.lower()],
}
_WORDS: Final[Mapping[str, str]] = {
    "int": "a whole number", "float": "a number", "bool": "true or false", "None": "none"
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _All:
    tune: TuneOptions
    measure: MeasureOptions


def with_fields(
    options: TuneOptions, settings: Sequence[str]
) -> tuple[TuneOptions, MeasureOptions]:
    """Options and how to measure, with the fields that ``settings`` name.

    Args:
        options: what is not named stays.
        settings: each ``NAME=VALUE``; a name is a field of ``TuneOptions``, or a group and one of
            its fields: ``measure.``, ``search.``, ``search.evolution.`` ...

    Raises:
        UsageError: an unknown name, or a value of another type.
        OptionError, CostModelError: a value that makes no sense.
    """
    changed = _All(options, MeasureOptions())
    known = field_names(options)
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals or name not in known:
            problem = f"there is no option {name!r}" if equals else f"{setting!r} has no value"
            hint = f"{name}=VALUE" if name in known else f"NAME=VALUE; {suggestion(name, known)}"
            raise UsageError(problem, "--set", f"write {hint}")
        path = name.split(".") if name.startswith("measure.") else ["tune", *name.split(".")]
        changed = _with(changed, path, _value(name, text, known[name]))
    return changed.tune, changed.measure


def field_names(options: TuneOptions) -> dict[str, Field[Any]]:
    """Every name that ``with_fields`` knows, and its field."""
    tuning = {name: item for name, item in _leaves(options, "") if name not in _ELSEWHERE}
    return tuning | dict(_leaves(MeasureOptions(), "measure."))


def _leaves(options: object, prefix: str) -> Iterator[tuple[str, Field[Any]]]:
    """Fields of options and of the options in them."""
    assert is_dataclass(options)
    for item in fields(options):
        value = getattr(options, item.name)
        if is_dataclass(value):
            yield from _leaves(value, f"{prefix}{item.name}.")
        else:
            yield prefix + item.name, item


def _with(options: _Options, path: Sequence[str], value: object) -> _Options:
    """``options`` with another value of the field at the end of ``path``."""
    head, *rest = path
    inner = _with(getattr(options, head), rest, value) if rest else value
    return replace(options, **{head: inner})  # type: ignore[type-var]  # it is a dataclass


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
    except (ValueError, KeyError):
        words = " or ".join(_WORDS.get(kind, kind) for kind in kinds)
        raise UsageError(f"{name} is {text!r}", "--set", f"give {words}") from None
