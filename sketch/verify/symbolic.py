"""Proof that two programs compute the same: as polynomials of their inputs, for all values at once.

Every element of an input is a symbol, every element of an output a polynomial of them with rational
coefficients.  Programs that only add, subtract, multiply and choose by index have such outputs:
products, convolutions, and other algorithms for them.  It is exact arithmetic that is compared, so
rounding does not count: a literal stands for the simplest rational that it may be the rounding of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import isfinite, prod
from typing import Any, Final

import numpy as np

from sketch.dag.dag import ComputeDAG
from sketch.errors import ExpressionError
from sketch.lang.dtypes import is_float
from sketch.lang.expr import Axis, Binary, Cast, Const, Expr, Load, Reduce, Select, Unary
from sketch.lang.prepared import CombinedParts, LinearMap
from sketch.lang.reducers import is_sum
from sketch.lang.scalar_functions import Array
from sketch.lang.tensor import Compute, Placeholder, Tensor
from sketch.oracle.evaluate import Evaluator
from sketch.oracle.interpret import Values, loader, whole_outputs

# Elements of all inputs: every term of a polynomial has an exponent for each.
_MOST_SYMBOLS: Final = 2048
# A literal is taken for a rational of at most such a denominator that is closer than this.
_MOST_DENOMINATOR: Final = 1 << 24
_CLOSE: Final = Fraction(1, 1 << 50)
_SHOWN: Final = 300
_OPERATORS: Final = {"add": np.add, "sub": np.subtract, "mul": np.multiply}


@dataclass(frozen=True, slots=True)
class Difference:
    """The first element in which two programs are not the same function.

    Attributes:
        output: name of the array.
        index: of the element.
        expression: of the first program less that of the second; it is not zero for all inputs.
    """

    output: str
    index: tuple[int, ...]
    expression: str

    def __str__(self) -> str:
        shown = (
            f"{self.expression[:_SHOWN]} ..." if len(self.expression) > _SHOWN else self.expression
        )
        return f"{self.output}{list(self.index)} differs by {shown}"


def first_difference(dag: ComputeDAG, other: ComputeDAG) -> Difference | None:
    """None: both programs are the same function of their inputs, but for rounding.

    Args:
        dag: a program of few elements; every element costs time.
        other: has inputs of the same names and shapes, and as many outputs in the same order.

    Raises:
        ExpressionError: an input or an output differs in shape, there are too many elements, or a
            program is not polynomial.
    """
    symbols = _symbols(dag, other)
    results = [_outputs(program, symbols) for program in (dag, other)]
    if [array.shape for array in results[0].values()] != [a.shape for a in results[1].values()]:
        raise ExpressionError("the two programs have outputs of different shapes")
    for (name, array), second in zip(results[0].items(), results[1].values(), strict=True):
        for index, value in np.ndenumerate(array):
            if value != second[index]:
                return Difference(name, index, str(value - second[index]))
    return None


def _symbols(*programs: ComputeDAG) -> dict[str, Array]:
    """An array of symbols for each input, of the shape that the caller gives it."""
    from sympy import QQ
    from sympy.polys.rings import ring

    shapes: dict[str, tuple[int, ...]] = {}
    for tensor in (tensor for program in programs for tensor in program.inputs):
        if not is_float(tensor.dtype):
            raise _no_polynomial(tensor.op, f"it has dtype {tensor.dtype}, which wraps around")
        if shapes.setdefault(tensor.name, tensor.given_shape) != tensor.given_shape:
            raise ExpressionError(f"the two programs have inputs {tensor.name!r} of two shapes")
    names = [f"{name}{list(n)}" for name, shape in shapes.items() for n in np.ndindex(shape)]
    if len(names) > _MOST_SYMBOLS:
        raise ExpressionError(
            f"the inputs have {len(names)} elements, at most {_MOST_SYMBOLS} can be symbols",
            hint="make both programs with small extents: few channels, one or two tiles",
        )
    _, *symbols = ring(names, QQ)
    found = iter(symbols)
    arrays = {name: np.empty(shape, object) for name, shape in shapes.items()}
    for array in arrays.values():
        array.reshape(-1)[:] = [next(found) for _ in range(array.size)]
    return arrays


def _outputs(dag: ComputeDAG, symbols: Mapping[str, Array]) -> dict[str, Array]:
    """The output arrays, of polynomials."""
    values: Values = {}
    for tensor in dag.inputs:
        values[id(tensor.op)] = (_given(tensor.op, symbols[tensor.name]),)
    for op in dag.stages:
        sums = () if op.reduce is None else op.reduce.sources
        values[id(op)] = tuple(_stage(op, body, values) for body in sums or op.bodies)
    return whole_outputs(dag, values)


def _given(op: Any, array: Array) -> Array:
    """What a program reads for the caller's ``array``."""
    assert isinstance(op, Placeholder)
    if not isinstance(op.prepared, LinearMap | CombinedParts):
        return array if op.prepared is None else op.prepared.apply(array)
    matrix = np.array([[_rational(c) for c in row] for row in op.prepared.matrix], object)
    made: Array = matrix @ op.prepared.columns(array)
    return made.reshape(op.shape)


def _stage(op: Compute, body: Expr, values: Values) -> Array:
    """All elements of a stage; ``body`` is summed over the reduce axes, if it has some."""
    if op.reduce is not None:
        _check_sum(op, op.reduce)
    shape = tuple(axis.extent for axis in op.all_axes)
    points = np.indices(shape).reshape(len(shape), prod(shape))
    axes = dict(zip(op.all_axes, points, strict=True))
    found: Array = _Polynomials(op, axes, values)(body).reshape(*op.shape, -1)
    return np.add.reduce(found, axis=-1)


def _check_sum(op: Compute, reduce: Reduce) -> None:
    if not is_sum(reduce.reducer):
        raise _no_polynomial(op, f"{reduce.reducer.name} is no sum")


class _Polynomials:
    """Evaluates expressions of a stage at some of its points: ``axes`` holds [points] each."""

    def __init__(self, op: Compute, axes: Mapping[Axis, Array], values: Values) -> None:
        self._op, self._axes, self._values = op, axes, values
        self._count = len(next(iter(axes.values()))) if axes else 1
        self._indices = Evaluator(axes, self._no_load)
        self._known: dict[int, Array] = {}

    def __call__(self, node: Expr) -> Array:
        """[points], of polynomials or rationals."""
        known = self._known.get(id(node))
        if known is None:
            known = self._known[id(node)] = self._evaluate(node)
        return known

    def _evaluate(self, node: Expr) -> Array:
        match node:
            case Const(value, _):
                return self._full(self._rational(float(value)))
            case Load(tensor, indices) if is_float(tensor.dtype):
                source = loader(self._values)(tensor)
                return self._full(self._indices.element(source, indices))
            case Cast(operand, dtype) if is_float(dtype):
                return self(operand) if is_float(operand.dtype) else self._whole(operand)
            case Unary("neg", operand, _):
                return np.negative(self(operand))
            case Binary(op, lhs, rhs, dtype) if op in _OPERATORS and is_float(dtype):
                made: Array = _OPERATORS[op](self(lhs), self(rhs))
                return made
            case Binary("div", lhs, Const(value, _), _) if value:
                return self(lhs) * (1 / self._rational(float(value)))
            case Select() if is_float(node.dtype):
                return self._select(node)
        raise _no_polynomial(self._op, f"it has {_what(node)}")

    def _full(self, value: Any) -> Array:
        found = np.empty(self._count, object)
        found[:] = value
        return found

    def _whole(self, node: Expr) -> Array:
        """A number that only depends on the point."""
        numbers = np.broadcast_to(self._indices(node), self._count)
        return self._full([self._rational(float(number)) for number in numbers])

    def _select(self, node: Select) -> Array:
        """Each branch at the points where it is taken."""
        taken = np.broadcast_to(self._indices(node.condition), self._count)
        found = np.empty(self._count, object)
        for branch, rows in ((node.then, taken), (node.otherwise, ~taken)):
            if rows.any():
                axes = {axis: points[rows] for axis, points in self._axes.items()}
                found[rows] = _Polynomials(self._op, axes, self._values)(branch)
        return found

    def _rational(self, value: float) -> Any:
        if not isfinite(value):
            raise _no_polynomial(self._op, f"it has the literal {value}")
        return _rational(value)

    def _no_load(self, tensor: Tensor) -> Array:
        raise _no_polynomial(self._op, f"a condition or an index depends on {tensor.name}")


@cache
def _rational(value: float) -> Any:
    """The simplest rational that ``value`` may be the rounding of, for sympy."""
    from sympy import QQ

    exact = Fraction(value)
    for bits in range(_MOST_DENOMINATOR.bit_length()):
        near = exact.limit_denominator(1 << bits)
        if abs(near - exact) <= _CLOSE * abs(exact):
            return QQ(near.numerator, near.denominator)
    return QQ(exact.numerator, exact.denominator)


def _what(node: Expr) -> str:
    return f"{node.op!r}" if isinstance(node, (Binary, Unary)) else f"a {type(node).__name__}"


def _no_polynomial(op: Any, why: str) -> ExpressionError:
    return ExpressionError(
        f"{op.name} is no polynomial of the inputs: {why}",
        hint="what is proven may add, subtract, multiply, sum, and choose by index; leave out the "
        "rest, such as an activation, in both programs",
    )
