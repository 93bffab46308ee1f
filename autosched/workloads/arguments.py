"""Arguments of a workload as text, ``n=1,h=56,w=56``, the way a command line gives them."""

from __future__ import annotations

import inspect
import re
from ast import literal_eval
from collections.abc import Mapping
from typing import Any, Final

from autosched.system.errors import WorkloadError
from autosched.workloads.definition import Sizes, Workload
from sketch.errors import suggestion

# A comma that the name of the next argument follows; others are part of a value.
_BETWEEN: Final = re.compile(r",(?=\s*[^\W\d]\w*\s*=)")
_WORDS: Final = {"true": True, "false": False}
_TYPES: Final[Mapping[Any, type]] = {kind.__name__: kind for kind in (int, float, bool, str)} | {
    kind: kind for kind in (int, float, bool, str)
}


def bind_text(
    workload: Workload[...], text: str = "", configuration: int | None = None
) -> inspect.BoundArguments:
    """The arguments for ``workload`` that a text and one of its configurations give.

    Args:
        workload: what is called.
        text: ``name=value`` pairs with commas between them; they replace those of the
            configuration.  Values are written as in Python, ``true``, ``false`` and bare words too.
        configuration: number of one of ``workload.shapes``, from 1 on; None: the first, where
            there is any.

    Raises:
        WorkloadError: no such configuration, a malformed pair, an unknown name, a value of another
            type than the configuration, the default or the annotation has, or no value at all.
    """
    signature = workload.signature
    arguments = _configured(workload, configuration)
    for name, value in _pairs(text, workload).items():
        if name not in signature.parameters:
            raise WorkloadError(
                f"there is no argument {name!r}",
                f"workload {workload.name}",
                suggestion(name, signature.parameters),
            )
        expected = _expected(workload, name, arguments)
        arguments[name] = _typed(value, expected, f"argument {name} of workload {workload.name}")
    missing = [
        name
        for name, parameter in signature.parameters.items()
        if name not in arguments and _is_needed(parameter)
    ]
    if missing:
        raise WorkloadError(
            f"no value for {', '.join(missing)}",
            f"workload {workload.name}",
            f"give {','.join(f'{name}=...' for name in missing)}",
        )
    bound = signature.bind_partial()
    bound.arguments.update({n: arguments[n] for n in signature.parameters if n in arguments})
    return bound


def text_of(workload: Workload[...], shape: Sizes) -> str:
    """A configuration the way ``bind_text`` reads it: ``n=1,h=56``."""
    return ",".join(f"{name}={value}" for name, value in named_shape(workload, shape).items())


def named_shape(workload: Workload[...], shape: Sizes) -> dict[str, Any]:
    """A configuration as values by the names of the arguments."""
    return dict(workload.signature.bind(*shape).arguments)


def _configured(workload: Workload[...], configuration: int | None) -> dict[str, Any]:
    count = len(workload.shapes)
    if configuration is None and not count:
        return {}
    number = configuration or 1
    if not 1 <= number <= count:
        raise WorkloadError(
            f"there is no configuration {number}",
            f"workload {workload.name}",
            f"it has {count}" + (f": 1 to {count}" if count else ", give all arguments"),
        )
    return named_shape(workload, workload.shapes[number - 1])


def _pairs(text: str, workload: Workload[...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in _BETWEEN.split(text) if text.strip() else []:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not (name and equals and value) or name in found:
            said = "is there twice" if name in found else "is not of the form NAME=VALUE"
            raise WorkloadError(
                f"{pair.strip()!r} {said}",
                f"arguments of workload {workload.name}",
                f"write them like {example(workload)}",
            )
        found[name] = value
    return found


def example(workload: Workload[...]) -> str:
    """Arguments that could be given."""
    if workload.shapes:
        return text_of(workload, workload.shapes[0])
    return ",".join(f"{name}=..." for name in workload.signature.parameters)


def _is_needed(parameter: inspect.Parameter) -> bool:
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and parameter.kind not in several


def _expected(workload: Workload[...], name: str, configured: Mapping[str, Any]) -> type | None:
    """The type that a value must have; None: any."""
    parameter = inspect.signature(workload.define).parameters[name]
    if name in configured:
        return type(configured[name])
    if parameter.default not in (parameter.empty, None):
        return type(parameter.default)
    return _TYPES.get(parameter.annotation)


def _typed(text: str, expected: type | None, where: str) -> Any:
    value = _value(text)
    if expected is float and type(value) is int:
        return float(value)
    if expected is None or type(value) is expected:
        return value
    raise WorkloadError(f"{text!r} is of type {type(value).__name__}", where,
                        f"give a value of type {expected.__name__}")  # fmt: skip


def _value(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return literal_eval(text)
    except (ValueError, SyntaxError):
        return text
