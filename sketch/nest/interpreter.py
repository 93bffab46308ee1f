"""Runs an int loop nest one element at a time: slow, and obviously right."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sketch.errors import LoweringError
from sketch.lang.dtypes import (
    integer_limits,
    is_float,
    is_integer,
    is_storage_float,
    numpy_dtype,
    wrap_integer,
)
from sketch.lang.expr import Binary, Cast, Const, Expr, Select, Unary, Var
from sketch.lang.scalar_functions import (
    UNARY_FUNCTIONS,
    binary_function,
    convert,
    oracle_dtype,
    rounded,
)
from sketch.nest.loopnest import (
    Affine,
    AffineValue,
    Allocate,
    Branch,
    Buffer,
    BufferLoad,
    Index,
    Loop,
    LoopNest,
    Node,
    Predicate,
    Store,
)
from sketch.nest.printer import print_affine

Array = NDArray[Any]


def _nan_or(pick: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(lhs: Any, rhs: Any) -> Any:
        return math.nan if lhs != lhs or rhs != rhs else pick(lhs, rhs)

    return apply


# Plain Python for the operators of most nests; every other one as NumPy defines it.
_FLOAT_BINARY: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "min": _nan_or(min),
    "max": _nan_or(max),
}
_INTEGER_BINARY: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "min": min,
    "max": max,
}
_TRUTH: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
}


def _binary(op: str, lhs: Any, rhs: Any, dtype: str) -> Any:
    """``op`` on operands of ``dtype``."""
    if op in _TRUTH:
        return _TRUTH[op](lhs, rhs)
    if is_float(dtype) and op in _FLOAT_BINARY:
        return _FLOAT_BINARY[op](lhs, rhs)
    if is_integer(dtype) and op in _INTEGER_BINARY:
        return wrap_integer(_INTEGER_BINARY[op](lhs, rhs), dtype)
    kind = oracle_dtype(dtype)
    return binary_function(op, dtype)(np.asarray(lhs, kind), np.asarray(rhs, kind)).item()


def _unary(op: str, value: Any, dtype: str) -> Any:
    return UNARY_FUNCTIONS[op](np.asarray(value, oracle_dtype(dtype))).item()


def run_nest(nest: LoopNest, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Execute a nest.

    Args:
        nest: all extents are ints.
        arrays: inputs and constants by buffer name, dense as stored (packed constants packed).

    Returns:
        Outputs by name, flat, as many elements as the buffer has; never-written elements are NaN
        (or the smallest integer).

    Raises:
        LoweringError: an argument is missing or has a wrong size, or an access is out of bounds.
    """
    machine = _Machine()
    outputs: dict[str, Array] = {}
    for buffer in nest.arguments:
        if buffer.name in arrays:
            flat = np.ascontiguousarray(arrays[buffer.name]).reshape(-1)
            if flat.size != buffer.size:
                raise LoweringError(
                    f"{buffer.name} has {flat.size} elements, the nest needs {buffer.size}"
                )
            machine.memory[buffer] = flat
        elif buffer.scope.value == "output":
            machine.memory[buffer] = outputs[buffer.name] = _blank(buffer)
        else:
            raise LoweringError(f"argument {buffer.name} is missing")
    for buffer in nest.workspaces:
        machine.memory[buffer] = _blank(buffer)
    with np.errstate(all="ignore"):
        for root in nest.roots:
            machine.run((root,))
    return outputs


def _blank(buffer: Buffer) -> Array:
    flat = np.zeros(int(buffer.size), numpy_dtype(buffer.dtype))
    if is_float(buffer.dtype):
        flat[:] = np.nan
    elif is_integer(buffer.dtype):
        flat[:] = integer_limits(buffer.dtype)[0]
    return flat


class _Machine:
    """Values of loop variables, contents of buffers, operands of reducers."""

    def __init__(self) -> None:
        self.values: dict[Var, Any] = {}
        self.memory: dict[Buffer, Array] = {}

    def run(self, nodes: tuple[Node, ...]) -> None:
        for node in nodes:
            match node:
                case Store():
                    self._store(node)
                case Loop():
                    for value in self._trips(node):
                        self.values[node.var] = value
                        self.run(node.body)
                case Allocate():
                    self.memory[node.buffer] = _blank(node.buffer)
                    self.run(node.body)
                case Branch():
                    self._branch(node)

    def _trips(self, loop: Loop) -> Iterator[int]:
        for trip in range(int(loop.extent)):
            self.values[loop.var] = trip * int(loop.stride)
            if self._hold(loop.clip):
                yield trip * int(loop.stride)

    def _branch(self, node: Branch) -> None:
        value = self._affine(node.index)
        chosen = [case for case in node.cases if case.low <= value <= case.high]
        if len(chosen) != 1:
            raise LoweringError(f"{len(chosen)} cases for {print_affine(node.index)} = {value}")
        self.run(chosen[0].body)

    def _hold(self, predicates: tuple[Predicate, ...]) -> bool:
        for predicate in predicates:
            if not predicate.low <= self._affine(predicate.index) < predicate.high:
                return False
        return True

    # Plain loops from here on: a generator for every access takes as long as all the rest.
    def _affine(self, form: Affine) -> int:
        value = form.const
        for var, coefficient in form.terms:
            value += self.values[var] * coefficient
        return value

    def _index(self, index: Index) -> int:
        if isinstance(index, Affine):
            return self._affine(index)
        value = int(self._evaluate(index.expr))
        if not index.low <= value <= index.high:
            raise LoweringError(f"index {value} is outside its bound {index.low}..{index.high}")
        return value

    def _offset(self, buffer: Buffer, indices: tuple[Index, ...]) -> int:
        offset = 0
        for index, stride in zip(indices, buffer.strides, strict=True):
            offset += self._index(index) * int(stride)
        if not 0 <= offset < int(buffer.size):
            parts = [self._index(index) for index in indices]
            raise LoweringError(f"{buffer.name}{parts} is element {offset} of {buffer.size}")
        return offset

    def _store(self, store: Store) -> None:
        if not self._hold(store.predicates):
            return
        values = [self._evaluate(value) for value in store.values]
        places = [(self.memory[t], self._offset(t, store.indices)) for t in store.targets]
        if store.reducer is not None:
            reducer = store.reducer
            for var, (array, offset) in zip(reducer.lhs, places, strict=True):
                self.values[var] = array.item(offset)
            self.values.update(zip(reducer.rhs, values, strict=True))
            values = [self._evaluate(result) for result in reducer.result]
        for (array, offset), value in zip(places, values, strict=True):
            array[offset] = value

    def _evaluate(self, expr: Expr) -> Any:
        match expr:
            case Var():
                return self.values[expr]
            case BufferLoad(buffer, indices):
                return self.memory[buffer].item(self._offset(buffer, indices))
            case Binary(op, lhs, rhs, _):
                return _binary(op, self._evaluate(lhs), self._evaluate(rhs), lhs.dtype)
            case Const(value, dtype):
                return rounded(value, dtype).item() if is_storage_float(dtype) else value
            case AffineValue(index):
                return self._affine(index)
            case Unary(op, operand, _):
                return _unary(op, self._evaluate(operand), operand.dtype)
            case Select(condition, then, otherwise):
                return self._evaluate(then if self._evaluate(condition) else otherwise)
            case Cast(operand, dtype):
                return _cast(self._evaluate(operand), operand.dtype, dtype)
            case _:
                raise LoweringError(f"{type(expr).__name__} cannot appear in a loop nest")


def _cast(value: Any, source: str, target: str) -> Any:
    return convert(np.asarray(value, oracle_dtype(source)), source, target).item()
