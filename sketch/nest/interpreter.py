"""Runs an int loop nest one element at a time: slow, and obviously right."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
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


_Function = Callable[[Any, Any], Any]
_Value = Callable[[], Any]
_Run = Callable[[], None]


def _nan_or(pick: _Function) -> _Function:
    def apply(lhs: Any, rhs: Any) -> Any:
        return math.nan if lhs != lhs or rhs != rhs else pick(lhs, rhs)

    return apply


# Plain Python for the operators of most nests; every other one as NumPy defines it.
_FLOAT_BINARY: Final[dict[str, _Function]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "min": _nan_or(min),
    "max": _nan_or(max),
}
_INTEGER_BINARY: Final[dict[str, _Function]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "min": min,
    "max": max,
}
_TRUTH: Final[dict[str, _Function]] = {
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "eq": operator.eq,
    "ne": operator.ne,
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
}


def _binary(op: str, dtype: str) -> _Function:
    """``op`` on operands of ``dtype``."""
    if op in _TRUTH:
        return _TRUTH[op]
    if is_float(dtype) and op in _FLOAT_BINARY:
        return _FLOAT_BINARY[op]
    if is_integer(dtype) and op in _INTEGER_BINARY:
        exact = _INTEGER_BINARY[op]
        return lambda lhs, rhs: wrap_integer(exact(lhs, rhs), dtype)
    kind, function = oracle_dtype(dtype), binary_function(op, dtype)
    return lambda lhs, rhs: function(np.asarray(lhs, kind), np.asarray(rhs, kind)).item()


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
            machine.block((root,))()
    return outputs


def _blank(buffer: Buffer) -> Array:
    flat = np.zeros(int(buffer.size), numpy_dtype(buffer.dtype))
    if is_float(buffer.dtype):
        flat[:] = np.nan
    elif is_integer(buffer.dtype):
        flat[:] = integer_limits(buffer.dtype)[0]
    return flat


class _Machine:
    """Values of loop variables, contents of buffers, operands of reducers.

    A statement runs thousands of times: what it consists of is looked at once, and becomes a
    function without arguments that reads the machine's state.  Those are plain loops: a generator
    for every access would take as long as all the rest.
    """

    def __init__(self) -> None:
        self.values: dict[Var, Any] = {}
        self.memory: dict[Buffer, Array] = {}

    def block(self, nodes: Sequence[Node]) -> _Run:
        """What runs the nodes, one after another."""
        runs = [self._node(node) for node in nodes]

        def run() -> None:
            for each in runs:
                each()

        return runs[0] if len(runs) == 1 else run

    def _node(self, node: Node) -> _Run:
        match node:
            case Store():
                return self._store(node)
            case Loop():
                return self._loop(node)
            case Allocate():
                return self._allocate(node)
            case Branch():
                return self._branch(node)

    def _loop(self, loop: Loop) -> _Run:
        values, var, body = self.values, loop.var, self.block(loop.body)
        trips = [trip * int(loop.stride) for trip in range(int(loop.extent))]
        holds = self._hold(loop.clip)

        def run() -> None:
            for value in trips:
                values[var] = value
                if holds():
                    body()

        return run

    def _allocate(self, node: Allocate) -> _Run:
        body = self.block(node.body)

        def run() -> None:
            self.memory[node.buffer] = _blank(node.buffer)
            body()

        return run

    def _branch(self, node: Branch) -> _Run:
        index = self._affine(node.index)
        bodies = [(case.low, case.high, self.block(case.body)) for case in node.cases]

        def run() -> None:
            value = index()
            chosen = [body for low, high, body in bodies if low <= value <= high]
            if len(chosen) != 1:
                raise LoweringError(f"{len(chosen)} cases for {print_affine(node.index)} = {value}")
            chosen[0]()

        return run

    def _hold(self, predicates: Sequence[Predicate]) -> Callable[[], bool]:
        bounds = [(p.low, self._affine(p.index), p.high) for p in predicates]

        def hold() -> bool:
            for low, index, high in bounds:
                value = index()
                if value < low or value >= high:
                    return False
            return True

        return hold

    def _affine(self, form: Affine) -> Callable[[], int]:
        values, const, terms = self.values, form.const, form.terms

        def affine() -> int:
            value = const
            for var, coefficient in terms:
                value += values[var] * coefficient
            return value

        return affine

    def _index(self, index: Index) -> Callable[[], int]:
        if isinstance(index, Affine):
            return self._affine(index)
        expr, low, high = self._evaluate(index.expr), index.low, index.high

        def quasi() -> int:
            value = int(expr())
            if not low <= value <= high:
                raise LoweringError(f"index {value} is outside its bound {low}..{high}")
            return value

        return quasi

    def _offset(self, buffer: Buffer, indices: Sequence[Index]) -> Callable[[], int]:
        size, strides = int(buffer.size), [int(stride) for stride in buffer.strides]
        parts = list(zip(map(self._index, indices), strides, strict=True))
        # Sums of affine forms are one: there is nothing to check in between.
        form = Affine(())
        for index, stride in zip(indices, strides, strict=True):
            form += index.scale(stride) if isinstance(index, Affine) else Affine(())
        affine = self._affine(form)
        others = [
            part
            for part, index in zip(parts, indices, strict=True)
            if not isinstance(index, Affine)
        ]

        def offset() -> int:
            found = affine()
            for index, stride in others:
                found += index() * stride
            if not 0 <= found < size:
                where = [index() for index, _ in parts]
                raise LoweringError(f"{buffer.name}{where} is element {found} of {size}")
            return found

        return offset

    def _store(self, store: Store) -> _Run:
        values, memory, reducer = self.values, self.memory, store.reducer
        holds = self._hold(store.predicates)
        computed = [self._evaluate(value) for value in store.values]
        places = [(target, self._offset(target, store.indices)) for target in store.targets]
        combined = [self._evaluate(result) for result in reducer.result] if reducer else []

        def run() -> None:
            if not holds():
                return
            found = [value() for value in computed]
            elements = [(memory[target], offset()) for target, offset in places]
            if reducer is not None:
                for var, (array, offset) in zip(reducer.lhs, elements, strict=True):
                    values[var] = array.item(offset)
                values.update(zip(reducer.rhs, found, strict=True))
                found = [result() for result in combined]
            for (array, offset), value in zip(elements, found, strict=True):
                array[offset] = value

        return run

    def _evaluate(self, expr: Expr) -> _Value:
        match expr:
            case Var():
                values = self.values
                return lambda: values[expr]
            case BufferLoad(buffer, indices):
                memory, offset = self.memory, self._offset(buffer, indices)
                return lambda: memory[buffer].item(offset())
            case Binary(op, lhs, rhs, _):
                function = _binary(op, lhs.dtype)
                left, right = self._evaluate(lhs), self._evaluate(rhs)
                return lambda: function(left(), right())
            case Const(value, dtype):
                constant = rounded(value, dtype).item() if is_storage_float(dtype) else value
                return lambda: constant
            case AffineValue(index):
                return self._affine(index)
            case Unary(op, operand, _):
                return self._unary(op, operand)
            case Select(condition, then, otherwise):
                holds = self._evaluate(condition)
                chosen, other = self._evaluate(then), self._evaluate(otherwise)
                return lambda: chosen() if holds() else other()
            case Cast(operand, dtype):
                return self._cast(operand, dtype)
            case _:
                raise LoweringError(f"{type(expr).__name__} cannot appear in a loop nest")

    def _unary(self, op: str, operand: Expr) -> _Value:
        kind, value = oracle_dtype(operand.dtype), self._evaluate(operand)
        function = UNARY_FUNCTIONS[op]
        return lambda: function(np.asarray(value(), kind)).item()

    def _cast(self, operand: Expr, target: str) -> _Value:
        source, value = operand.dtype, self._evaluate(operand)
        kind = oracle_dtype(source)
        return lambda: convert(np.asarray(value(), kind), source, target).item()
