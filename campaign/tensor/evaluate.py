"""What a program means: an evaluator over whole grids of points, in NumPy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from campaign.tensor import integers
from campaign.tensor.numbers import (
    COMPARE,
    SMOOTH,
    WHOLE,
    Array,
    Number,
    add,
    certain,
    choose,
    compare,
    divide,
    extreme,
    is_float,
    multiply,
    power,
    remainder,
    rounded,
    sign_of,
    smooth,
    store,
    whole,
)
from campaign.tensor.reduction import reduce_numbers, widened
from campaign.verdict import Json

_FLOAT_BINARY: Final[dict[str, Any]] = {
    "add": lambda a, b: add(a, b, 1),
    "sub": lambda a, b: add(a, b, -1),
    "mul": multiply,
    "div": divide,
    "pow": power,
    "min": lambda a, b: extreme(a, b, np.minimum),
    "max": lambda a, b: extreme(a, b, np.maximum),
    "mod": lambda a, b: remainder(a, b, np.mod),
    "floordiv": lambda a, b: remainder(a, b, np.floor_divide),
    "trunc_mod": lambda a, b: remainder(a, b, np.fmod),
}


class ProgramError(Exception):
    """The program means nothing: it reads outside a tensor."""


def evaluate(
    program: Json, inputs: Mapping[str, Array], growth: float | None = None
) -> dict[str, Number]:
    """The outputs of ``program`` by name, in the shapes that a caller sees.

    ``growth`` is that of the errors of another algorithm, which computes sums of floats.
    """
    wide: Any = np.longdouble if "float64" in _dtypes(program) else np.float64
    tensors = {
        entry["name"]: _input(inputs[entry["name"]], entry["dtype"], wide)
        for entry in program["inputs"]
    }
    buffers: dict[str, Number] = {}
    with np.errstate(all="ignore"):
        for stage in program["stages"]:
            results = _Stage(stage, tensors, wide).results(growth)
            tensors |= results
            if stage["store"] is not None:
                (number,) = results.values()
                _into_buffer(buffers, stage["store"], number)
    named = {n: buffers[n] if n in buffers else tensors[n] for n in program["outputs"]}
    return named


def evaluate_index(expression: Any, axes: Sequence[Sequence[Any]]) -> Array:
    """The values of an index expression over all points of ``axes``, which loads nothing."""
    stage: Json = {"name": "", "axes": axes, "reduce": None, "bodies": [], "store": None}
    return _Stage(stage, {}, np.float64).visit(expression).value


def _dtypes(program: Json) -> str:
    return repr([program["inputs"], program["stages"]])


def _input(array: Array, dtype: str, wide: Any) -> Number:
    value = array.astype(np.float32) if dtype == "bfloat16" else array
    value = value.astype(wide) if is_float(dtype) else value
    return Number(value, np.zeros(array.shape), dtype)


def _into_buffer(buffers: dict[str, Number], place: Json, number: Number) -> None:
    """Scatter a stage into the buffer that it shares with others."""
    name, shape = place["buffer"], tuple(place["shape"])
    if name not in buffers:
        blank = np.zeros(shape, number.value.dtype)
        buffers[name] = Number(blank, np.zeros(shape), number.dtype)
    grids = np.indices(number.value.shape)
    flat = place["offset"] + sum(
        stride * grid for stride, grid in zip(place["strides"], grids, strict=True)
    )
    buffers[name].value.reshape(-1)[flat] = number.value
    buffers[name].error.reshape(-1)[flat] = number.error


class _Stage:
    """One stage: the grid of its axes, and the tensors that it may read."""

    def __init__(self, stage: Json, tensors: Mapping[str, Number], wide: Any) -> None:
        self._stage = stage
        self._tensors = tensors
        self._wide = wide
        reduce = stage["reduce"]
        axes = [*stage["axes"], *(reduce["axes"] if reduce else [])]
        self._shape = tuple(extent for _, extent in axes)
        self._live: Array = np.ones((), bool)  # the points whose values are asked for
        self._axes = {
            name: np.arange(extent, dtype=np.int64).reshape(
                [-1 if d == place else 1 for d in range(len(axes))]
            )
            for place, (name, extent) in enumerate(axes)
        }

    def results(self, growth: float | None = None) -> dict[str, Number]:
        """The stage's outputs by tensor name; ``growth`` as `evaluate` takes it."""
        numbers = [self._full(self.visit(body)) for body in self._stage["bodies"]]
        if self._stage["reduce"] is not None:
            kind, depth = self._stage["reduce"]["kind"], len(self._stage["reduce"]["axes"])
            numbers = reduce_numbers(kind, numbers, depth)
            if growth is not None and kind == "sum" and is_float(numbers[0].dtype):
                count = math.prod(self._shape[len(self._shape) - depth :])
                numbers = [widened(numbers[0], growth, count)]
        numbers = [store(number) for number in numbers]
        name = self._stage["name"]
        if len(numbers) == 1:
            return {name: numbers[0]}
        return {f"{name}.v{place}": number for place, number in enumerate(numbers)}

    def _full(self, number: Number) -> Number:
        shape = self._shape
        return Number(
            np.broadcast_to(number.value, shape), np.broadcast_to(number.error, shape), number.dtype
        )

    def visit(self, node: Any) -> Number:
        """The values of an expression, in a shape that broadcasts to the grid."""
        match node:
            case ["axis", name]:
                return _exact(self._axes[name], "int64")
            case ["const", value, dtype]:
                kind = self._wide if is_float(dtype) else np.dtype(dtype)
                return _exact(np.array(float(value) if is_float(dtype) else value, kind), dtype)
            case ["load", tensor, *indices]:
                return self._load(tensor, indices)
            case ["cast", dtype, operand]:
                return self._cast(self.visit(operand), dtype)
            case ["select", condition, then, otherwise]:
                return self._select(self.visit(condition), then, otherwise)
            case [op, operand]:
                return self._unary(op, self.visit(operand))
            case [op, lhs, rhs]:
                return self._binary(op, self.visit(lhs), self.visit(rhs))
        raise AssertionError(node)

    def _select(self, condition: Number, then: Any, otherwise: Any) -> Number:
        outer = self._live
        self._live = outer & (condition.value | (condition.error > 0))
        yes = self.visit(then)
        self._live = outer & (~condition.value | (condition.error > 0))
        no = self.visit(otherwise)
        self._live = outer
        return choose(condition, yes, no)

    def _load(self, tensor: str, indices: Sequence[Any]) -> Number:
        source = self._tensors[tensor]
        where, error = [], np.zeros(())
        for extent, index in zip(source.value.shape, indices, strict=True):
            number = self.visit(index)
            error = error + number.error
            wanted = number.value.astype(np.int64)
            where.append(np.clip(wanted, 0, extent - 1))
            if (self._live & (where[-1] != wanted)).any():
                raise ProgramError(f"a read of {tensor} leaves its extent {extent}")
        place = tuple(where)
        return Number(source.value[place], source.error[place] + error, source.dtype)

    def _cast(self, number: Number, dtype: str) -> Number:
        if dtype == number.dtype:
            return number
        if (number.error > 0).any():  # 16-bit floats may be rounded before they are converted
            number = number._replace(error=np.where(number.error > 0, store(number).error, 0.0))
        if dtype == "bool":
            unclear = (number.error > 0) & (np.abs(number.value) <= number.error)
            return Number(number.value != 0, np.where(unclear, np.inf, 0.0), "bool")
        if is_float(dtype):
            value = number.value.astype(self._wide)
            if is_float(number.dtype):
                return store(Number(value, number.error, dtype))
            return rounded(value, certain(number), dtype, 1)
        if is_float(number.dtype):
            cut = whole(number, np.trunc)
            return Number(integers.from_floats(number.value, dtype), cut.error, dtype)
        return Number(number.value.astype(dtype), number.error, dtype)

    def _unary(self, op: str, a: Number) -> Number:
        if op == "not":
            return Number(~a.value, a.error, "bool")
        if op in ("is_nan", "is_inf"):
            test = np.isnan if op == "is_nan" else np.isinf
            return Number(test(a.value), np.where(np.isinf(a.error), np.inf, 0.0), "bool")
        if not is_float(a.dtype):
            return Number(integers.UNARY[op](a.value), a.error, a.dtype)
        if op in ("neg", "abs"):
            return Number(integers.UNARY[op](a.value), a.error, a.dtype)
        if op == "sign":
            return sign_of(a)
        return whole(a, WHOLE[op]) if op in WHOLE else smooth(a, SMOOTH[op])

    def _binary(self, op: str, a: Number, b: Number) -> Number:
        if op in COMPARE:
            return compare(a, b, COMPARE[op])
        if op in ("and", "or"):
            function = np.logical_and if op == "and" else np.logical_or
            return Number(function(a.value, b.value), certain(a, b), "bool")
        assert a.dtype == b.dtype, (op, a.dtype, b.dtype)
        if is_float(a.dtype):
            found: Number = _FLOAT_BINARY[op](a, b)
            return found
        return Number(integers.BINARY[op](a.value, b.value), certain(a, b), a.dtype)


def _exact(value: Array, dtype: str) -> Number:
    return Number(value, np.zeros(value.shape), dtype)
