"""Sums of products with a factor for each row of results, which is multiplied after the sum.

    weights[i, k] = powers[i, k] * s[i]
    y[i, j] = sum over k of weights[i, k] * v[k, j]

    sums[i, j] = sum over k of powers[i, k] * v[k, j]
    y[i, j] = sums[i, j] * s[i]

Where rows of results are no longer than those of the weights, no more is multiplied, and weights
are neither written nor read again.  What is left of them has to be known to lie between -1 and 1,
such as a softmax before it is divided by its sum: then the sums are no larger than n terms can be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce as accumulate
from math import prod
from typing import Final

from sketch.dag.dag import ComputeDAG
from sketch.lang.dtypes import is_float
from sketch.lang.expr import Axis, Binary, Const, Expr, Load, Reduce, Unary, binary
from sketch.lang.reducers import is_sum
from sketch.lang.rewrite import rewrite, substitute_axes, walk
from sketch.lang.tensor import Compute, Tensor, compute
from sketch.variants.rebuild import rebuild

_WITHIN_ONE: Final = ("sigmoid", "tanh", "erf", "sin", "cos")


def late_factors(dag: ComputeDAG) -> ComputeDAG | None:
    """The same program; None where it has no such sum."""
    found = {id(op): match for op in dag.stages if (match := _matched(dag, op)) is not None}

    def replacement(op: Compute, current: Callable[[Tensor], Tensor]) -> Tensor | None:
        match = found.get(id(op))
        return None if match is None else match.rebuilt(current)

    return rebuild(dag, replacement) if found else None


@dataclass(frozen=True, slots=True, eq=False)
class _Match:
    """A sum that multiplies elements of ``weights``.

    Attributes:
        op: the sum.
        load: the element.
        weights: the stage, element by element a product.
        rest: its factors that lie between -1 and 1, as one.
        factor: the others, which do not depend on what is summed over.
    """

    op: Compute
    load: Load
    weights: Compute
    rest: Expr
    factor: Expr

    def rebuilt(self, current: Callable[[Tensor], Tensor]) -> Tensor:
        """The sum without the factor, and what multiplies it."""
        op, reduce = self.op, self.op.reduce
        assert reduce is not None
        rest = self._kept(current)

        def leaf(node: Expr) -> Expr | None:
            if node is self.load:
                return Load(rest, self.load.indices)
            return Load(current(node.tensor), node.indices) if isinstance(node, Load) else None

        source = rewrite(reduce.sources[0], leaf)
        body = Reduce(reduce.reducer, (source,), reduce.axes)
        sums = Tensor(replace(op, name=f"{op.name}.sums", bodies=(body,), store=None))

        def scaled(*axes: Axis) -> Expr:
            places: dict[Axis, Expr] = dict(zip(op.axes, axes, strict=True))
            indices = tuple(substitute_axes(index, places) for index in self.load.indices)
            return sums[axes] * _moved(self.factor, self.weights, indices, current)

        names = [axis.name for axis in op.axes]
        result: Tensor = compute(op.shape, scaled, op.name, op.store, names)
        return result

    def _kept(self, current: Callable[[Tensor], Tensor]) -> Tensor:
        """The weights without the factor."""
        op, rest = self.weights, self.rest
        if isinstance(rest, Load) and rest.indices == op.axes:
            return current(rest.tensor)
        return Tensor(replace(op, bodies=(_moved(rest, op, op.axes, current),)))


def _moved(
    part: Expr, op: Compute, indices: tuple[Expr, ...], current: Callable[[Tensor], Tensor]
) -> Expr:
    """A part of the body of a stage at another place."""
    places = dict(zip(op.axes, indices, strict=True))

    def leaf(node: Expr) -> Expr | None:
        if isinstance(node, Load):
            return Load(current(node.tensor), tuple(rewrite(i, leaf) for i in node.indices))
        return places.get(node) if isinstance(node, Axis) else None

    return rewrite(part, leaf)


def _matched(dag: ComputeDAG, op: Compute) -> _Match | None:
    reduce = op.reduce
    if reduce is None or not is_sum(reduce.reducer) or not is_float(reduce.sources[0].dtype):
        return None
    for load in _factors(reduce.sources[0]):
        weights = load.tensor.op if isinstance(load, Load) else None
        if not isinstance(load, Load) or not isinstance(weights, Compute):
            continue
        alone = len(dag.consumers(weights)) == 1 and _reads(op, weights) == 1
        given = any(tensor.op is weights for tensor in dag.outputs)
        if not alone or given or len(weights.bodies) != 1 or weights.reduce is not None:
            continue
        match = _split(op, load, weights)
        if match is not None and prod(op.shape) <= prod(weights.shape):
            return match
    return None


def _split(op: Compute, load: Load, weights: Compute) -> _Match | None:
    """The factors of the weights by whether what is summed over selects them."""
    moving = [any(x in walk(i) for x in op.reduce_axes) for i in load.indices]
    summed = {axis for axis, moves in zip(weights.axes, moving, strict=True) if moves}
    inside: list[Expr] = []
    outside: list[Expr] = []
    for factor in _factors(weights.bodies[0]):
        depends = any(node in summed for node in walk(factor) if isinstance(node, Axis))
        (inside if depends else outside).append(factor)
    if not inside or not outside or not all(_is_within_one(x) for x in inside):
        return None
    rest, factor = (accumulate(lambda a, b: binary("mul", a, b), x) for x in (inside, outside))
    return _Match(op, load, weights, rest, factor)


def _reads(op: Compute, read: Compute) -> int:
    """How many elements of ``read`` a stage has in its bodies."""
    nodes = (node for body in op.bodies for node in walk(body))
    return sum(isinstance(node, Load) and node.tensor.op is read for node in nodes)


def _factors(expr: Expr) -> Iterator[Expr]:
    """The factors of a product; a divisor is one as a reciprocal."""
    match expr:
        case Binary("mul", lhs, rhs):
            yield from _factors(lhs)
            yield from _factors(rhs)
        case Binary("div", lhs, rhs) if not (isinstance(lhs, Const) and lhs.value == 1):
            yield from _factors(lhs)
            yield 1 / rhs
        case _:
            yield expr


def _is_within_one(expr: Expr, known: dict[tuple[int, int], bool] | None = None) -> bool:
    """Whether a value is known to lie between -1 and 1.

    ``known``: of the results of stages, by their ids and numbers, for several may read one.
    """
    found = {} if known is None else known
    match expr:
        case Const(value):
            return abs(float(value)) <= 1
        case Unary("neg" | "abs", operand):
            return _is_within_one(operand, found)
        case Unary("exp", Binary("sub", Load() as element, Load() as largest)):
            return _is_maximum(largest, element)
        case Unary(name):
            return name in _WITHIN_ONE
        case Binary("mul", lhs, rhs):
            return _is_within_one(lhs, found) and _is_within_one(rhs, found)
        case Load(tensor) if isinstance(op := tensor.op, Compute) and op.reduce is None:
            place = id(op), tensor.output
            if place not in found:
                found[place] = _is_within_one(op.bodies[tensor.output], found)
            return found[place]
    return False


def _is_maximum(largest: Load, element: Load) -> bool:
    """Whether one element is the largest of several of a tensor, and the other is among these."""
    op = largest.tensor.op
    reduce = op.reduce if isinstance(op, Compute) else None
    if not isinstance(op, Compute) or reduce is None or len(reduce.sources) != 1:
        return False
    source, (result,) = reduce.sources[0], reduce.reducer.result
    if not isinstance(source, Load) or not isinstance(result, Binary) or result.op != "max":
        return False
    if source.tensor.op is not element.tensor.op or source.tensor.output != element.tensor.output:
        return False
    own = dict(zip(op.axes, largest.indices, strict=True))
    places = zip(source.indices, element.indices, element.tensor.shape, strict=True)
    return all(
        isinstance(axis, Axis)
        and ((axis in op.reduce_axes and axis.extent == extent) or _same(own.get(axis), index))
        for axis, index, extent in places
    )


def _same(lhs: Expr | None, rhs: Expr) -> bool:
    if isinstance(lhs, Const) and isinstance(rhs, Const):
        return lhs.value == rhs.value
    return lhs is rhs
