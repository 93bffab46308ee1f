"""The inputs of a call: arrays by name, of the shapes and dtypes that the model takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.errors import InputError
from autosched.runtime.program import TensorSpec
from autosched.system.element_types import element_type

Read = Callable[[Any, str], Any]
# np.float64 is a float, too.
_SCALARS: Final = (np.generic, bool, int, float)


def named_inputs(
    specs: Sequence[TensorSpec], inputs: Any, named: Mapping[str, Any]
) -> Mapping[str, Any]:
    """What a call was given, by name; raises InputError for an array that has none.

    Args:
        specs: of the model's inputs.
        inputs: arrays by name, the array of the only input, or None.
        named: more arrays by name.
    """
    if inputs is None:
        return named
    if isinstance(inputs, Mapping):
        return {**inputs, **named}
    if len(specs) != 1 or named:
        raise InputError("an array without a name", hint=_expected(specs))
    return {specs[0].name: inputs}


def check_inputs(
    specs: Sequence[TensorSpec], inputs: Mapping[str, Any], read: Read
) -> dict[str, Any]:
    """``inputs`` as arrays, in the order of ``specs``; raises InputError on a mismatch.

    ``read``: makes an array of what is no NumPy array, see ``LoadedProgram.read``.
    """
    arrays = {}
    if type(inputs) is dict and len(inputs) == len(specs):
        # One function for the usual case: after a network each one more is not in the caches.
        for spec in specs:
            value = inputs.get(spec.name)
            if type(value) is not np.ndarray or value.shape != spec.shape:
                break
            if value.dtype != element_type(spec.dtype):
                break
            arrays[spec.name] = value
        else:
            return arrays
    check_names([spec.name for spec in specs], inputs, lambda: _expected(specs))
    return {spec.name: _check_input(spec, inputs[spec.name], read) for spec in specs}


def check_names(
    names: Sequence[str], inputs: Mapping[str, Any], expected: Callable[[], str]
) -> None:
    """Raise InputError unless ``inputs`` is a dict with these names; ``expected``: the hint."""
    if not isinstance(inputs, Mapping):
        raise InputError(
            f"inputs must be a dict from name to array, got {type(inputs).__name__}", "", expected()
        )
    if len(inputs) == len(names) and all(map(inputs.__contains__, names)):
        return
    missing = [name for name in names if name not in inputs]
    unknown = [str(name) for name in inputs if name not in names]
    if missing or unknown:
        parts = [f"no array for input {n!r}" for n in missing]
        parts += [f"no input is named {n!r}" for n in unknown]
        raise InputError("; ".join(parts), hint=expected())


def _expected(specs: Sequence[TensorSpec]) -> str:
    return f"the model takes {', '.join(map(str, specs))}"


def _check_input(spec: TensorSpec, value: Any, read: Read) -> Any:
    where = f"input {spec.name!r}"
    if isinstance(value, _SCALARS):
        value = _scalar(spec, value, where)
    if not isinstance(value, np.ndarray):
        if not hasattr(value, "__dlpack__"):
            raise InputError(
                f"{type(value).__name__} is no array", where, "give a NumPy array or DLPack"
            )
        value = read(value, where)
    if value.shape != spec.shape:
        raise InputError(f"shape {value.shape}, expected {spec.shape}", where)
    if spec.dtype == "object" and value.dtype.kind in "US":
        return value.astype(object)
    if value.dtype != element_type(spec.dtype):
        raise InputError(
            f"dtype {value.dtype}, expected {spec.dtype}", where, f"use .astype('{spec.dtype}')"
        )
    return value


def _scalar(spec: TensorSpec, value: Any, where: str) -> NDArray[Any]:
    """A scalar as an array without axes; a number of Python becomes the input's dtype."""
    if isinstance(value, np.generic) or spec.dtype == "object":
        return np.asarray(value)
    kind = element_type(spec.dtype)
    found = np.asarray(value, dtype=kind) if _fits(value, kind) else None
    if found is None:
        raise InputError(f"{value!r} is no {spec.dtype}", where, "give a number of that dtype")
    return found


def _fits(value: bool | int | float, kind: np.dtype[Any]) -> bool:
    """Whether a number of Python keeps its meaning in a dtype."""
    if isinstance(value, bool) or kind.kind == "b":
        return isinstance(value, bool) and kind.kind == "b"
    if kind.kind not in "iu":
        return not isinstance(value, int | float) or _is_finite_as(value, kind)
    limits = np.iinfo(kind)
    return isinstance(value, int) and limits.min <= value <= limits.max


def _is_finite_as(value: int | float, kind: np.dtype[Any]) -> bool:
    """Whether a finite number stays one."""
    try:
        number = float(value)
    except OverflowError:
        return False
    with np.errstate(over="ignore"):
        return not math.isfinite(number) or bool(np.isfinite(np.asarray(number).astype(kind)))
