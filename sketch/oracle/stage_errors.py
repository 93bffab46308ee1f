"""Error bounds of a stage's values, on all of its points or at single ones, in bounded memory.

The bound of a sum is that of its terms, and roundings of the sum of their absolute values: a few
times the square root of their number, since roundings do not conspire.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sketch.lang.expr import Axis, Reduce, Reducer
from sketch.lang.reducers import is_sum
from sketch.lang.scalar_functions import Array
from sketch.lang.tensor import Compute, Tensor
from sketch.oracle.boxes import GENERAL_ELEMENTS, Box, box_size, grid, split_box
from sketch.oracle.contraction import Term, all_finite, contract, contraction_cost, sum_of_products
from sketch.oracle.evaluate import Evaluator, Loader, constant, reduce_values
from sketch.oracle.interpret import full_region
from sketch.oracle.known_errors import KnownErrors, growth
from sketch.oracle.point_values import ElementLoader
from sketch.oracle.rounding_errors import ErrorLoader, RoundingErrors, magnitude, unit
from sketch.oracle.scattered import is_sent
from sketch.oracle.sent_errors import sent_errors
from sketch.oracle.stage_values import CONTRACTION_ELEMENTS, point_grid, target_of


def box_errors(op: Compute, load: Loader, errors: KnownErrors) -> tuple[Array, ...]:
    """Bounds of all values of a stage: one array of its shape for each output."""
    out = tuple(np.zeros(op.shape) for _ in op.output_dtypes)
    box: Box = dict(zip(op.axes, full_region(op), strict=True))
    box.update({axis: (0, axis.extent - 1) for axis in op.reduce_axes})
    with np.errstate(all="ignore"):
        terms = sum_of_products(op)
        if op.reduce is None:
            _element_errors(op, box, load, errors, out)
        elif is_sent(op):
            out[0][...] = sent_errors(op, load, errors)
        elif terms is not None and all_finite(terms, load) and unit(op.output_dtypes[0]):
            _contraction_errors(op, terms, box, load, errors, out[0])
        else:
            _reduction_errors(op, op.reduce, box, load, errors, out)
    return tuple(np.where(np.isnan(array), np.inf, array) for array in out)


def _element_errors(
    op: Compute, box: Box, load: Loader, errors: KnownErrors, out: Sequence[Array]
) -> None:
    for part in split_box(box, box_size, GENERAL_ELEMENTS):
        evaluate = RoundingErrors(Evaluator(grid(part), load), errors)
        for array, body in zip(out, op.bodies, strict=True):
            array[target_of(op, part)] = evaluate(body)


def _contraction_errors(
    op: Compute, terms: Sequence[Term], box: Box, load: Loader, errors: KnownErrors, out: Array
) -> None:
    """The same sum of absolute values, with and without the operands' errors."""
    trips = math.prod(axis.extent for axis in op.reduce_axes)
    rounding = growth(trips * len(terms)) * unit(op.output_dtypes[0])
    tensors = {operand.tensor for term in terms for operand in term.operands}
    exact = {t: magnitude(load(t)) for t in tensors}
    moved = {t: exact[t] if (e := errors(t)) is None else exact[t] + e for t in tensors}
    inexact = any(errors(t) is not None for t in tensors)
    absolute = [
        replace(term, coefficient=magnitude(np.asarray(term.coefficient))) for term in terms
    ]

    def cost(part: Box) -> int:
        return contraction_cost(terms, part)

    for part in split_box(box, cost, CONTRACTION_ELEMENTS):
        target = target_of(op, part)
        for term in absolute:
            size = contract(term, op.axes, op.reduce_axes, part, exact.__getitem__)
            out[target] += rounding * size
            if inexact:
                more = contract(term, op.axes, op.reduce_axes, part, moved.__getitem__)
                out[target] += more * (1 + rounding) - size


def _reduction_errors(
    op: Compute, reduce: Reduce, box: Box, load: Loader, errors: KnownErrors, out: Sequence[Array]
) -> None:
    trips = math.prod(axis.extent for axis in reduce.axes)
    reducer = reduce.reducer
    values = [np.empty(op.shape, np.asarray(constant(i)).dtype) for i in reducer.identity]
    for array, identity in zip(values, reducer.identity, strict=True):
        array[...] = constant(identity)
    for part in split_box(box, box_size, GENERAL_ELEMENTS):
        target = target_of(op, part)
        sizes = [high - low + 1 for low, high in part.values()]
        flat = [*sizes[: len(op.axes)], math.prod(sizes[len(op.axes) :])]
        terms = _Terms.at(reduce, grid(part), sizes, flat, load, errors)
        if is_sum(reducer):
            out[0][target] += terms.sum_bound()
            continue
        folded = _fold(reducer, terms.values, terms.bounds(), trips)
        before = [array[target] for array in values], [array[target] for array in out]
        merged = _merge(reducer, before, folded, trips)
        for k in range(len(values)):
            values[k][target], out[k][target] = merged[0][k], merged[1][k]


_Pair = tuple[list[Array], list[Array]]  # values, and the bounds of their errors


@dataclass(frozen=True, slots=True, eq=False)
class _Terms:
    """What a reduction adds up, as ``shape``: the points, then all terms.

    Attributes:
        reduce: the reduction.
        values: of its sources.
        errors: gives the bounds of the sources; they broadcast to ``sizes``.
        sizes: the extents of the mesh of points and terms.
        points_last: the mesh is that of ``point_grid``; else spatial axes come first.
        shape: points (one or more dimensions), and one of all terms.
    """

    reduce: Reduce
    values: list[Array]
    errors: RoundingErrors
    sizes: Sequence[int]
    points_last: bool
    shape: Sequence[int]

    @classmethod
    def at(
        cls,
        reduce: Reduce,
        points: Mapping[Axis, Array],
        sizes: Sequence[int],
        shape: Sequence[int],
        load: ElementLoader,
        errors: ErrorLoader,
        points_last: bool = False,
    ) -> _Terms:
        """The terms at ``points``."""
        evaluate = Evaluator(points, load)
        terms = cls(reduce, [], RoundingErrors(evaluate, errors), sizes, points_last, shape)
        return replace(terms, values=[terms._shaped(evaluate(s)) for s in reduce.sources])

    def _shaped(self, found: Array) -> Array:
        """What broadcasts to ``sizes``, as ``shape``."""
        whole = np.broadcast_to(found, self.sizes)
        ordered = np.moveaxis(whole, -1, 0) if self.points_last else whole
        return ordered.reshape(self.shape)

    def bounds(self) -> list[Array]:
        """Of the errors of the values, in the same shape."""
        return [self._shaped(self.errors(source)) for source in self.reduce.sources]

    def sum_bound(self) -> Array:
        """Of the error of the sum of the values."""
        rounding = growth(self.shape[-1]) * unit(self.reduce.reducer.identity[0].dtype)
        size: Array = magnitude(self.values[0]).sum(axis=-1)
        share = self.errors.share(self.reduce.sources[0])
        own = self.bounds()[0].sum(axis=-1) if share is None else share * size
        total: Array = own * (1 + rounding)
        return total + rounding * size


def _fold(reducer: Reducer, terms: Sequence[Array], bounds: Sequence[Array], trips: int) -> _Pair:
    """Combine neighbours until one is left."""
    values, errors = list(terms), list(bounds)
    while values[0].shape[-1] > 1:
        count = values[0].shape[-1]
        even = count - count % 2
        rest = [v[..., even:] for v in values], [e[..., even:] for e in errors]
        left = [v[..., 0:even:2] for v in values], [e[..., 0:even:2] for e in errors]
        right = [v[..., 1:even:2] for v in values], [e[..., 1:even:2] for e in errors]
        merged = _merge(reducer, left, right, trips)
        values = [np.concatenate(p, axis=-1) for p in zip(merged[0], rest[0], strict=True)]
        errors = [np.concatenate(p, axis=-1) for p in zip(merged[1], rest[1], strict=True)]
    return [v[..., 0] for v in values], [e[..., 0] for e in errors]


def _merge(reducer: Reducer, left: _Pair, right: _Pair, trips: int) -> _Pair:
    """``combine(left, right)`` and the bound of its error."""
    evaluate = Evaluator({}, _no_tensor)
    names = (*reducer.lhs, *reducer.rhs)
    evaluate.bind(dict(zip(names, (*left[0], *right[0]), strict=True)))
    bounds = RoundingErrors(evaluate, lambda _: None, growth(trips))
    bounds.bind(dict(zip(names, (*left[1], *right[1]), strict=True)))
    shape = left[0][0].shape
    return (
        [np.broadcast_to(np.asarray(evaluate(r)), shape) for r in reducer.result],
        [np.broadcast_to(bounds(r), shape) for r in reducer.result],
    )


def _no_tensor(tensor: Tensor) -> Array:
    raise AssertionError(f"a reducer reads tensor {tensor.name}")


def point_values(
    op: Compute, points: Array, load: ElementLoader, errors: ErrorLoader | None
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """A stage's values and the bounds of their rounding errors: one array [P] each an output.

    Args:
        op: the stage.
        points: int64 [P, rank].
        load: elements of a tensor at given indices.
        errors: bounds of the errors of those elements; None: no bounds are wanted, they are 0.
    """
    trips = math.prod(axis.extent for axis in op.reduce_axes)
    step = max(1, GENERAL_ELEMENTS // trips)
    values: list[list[Array]] = [[] for _ in op.output_dtypes]
    bounds: list[list[Array]] = [[] for _ in op.output_dtypes]
    with np.errstate(all="ignore"):
        for start in range(0, len(points), step):
            part = points[start : start + step]
            found = (
                _elements_at(op, part, load, errors)
                if op.reduce is None
                else _reduced_at(op, op.reduce, part, load, errors)
            )
            for n, (value, bound) in enumerate(zip(*found, strict=True)):
                values[n].append(value)
                bounds[n].append(np.where(np.isnan(bound), np.inf, bound))
    return tuple(map(np.concatenate, values)), tuple(map(np.concatenate, bounds))


def _elements_at(
    op: Compute, points: Array, load: ElementLoader, errors: ErrorLoader | None
) -> _Pair:
    evaluate, count = Evaluator(point_grid(op, points), load), len(points)
    values = [np.broadcast_to(evaluate(body), count) for body in op.bodies]
    if errors is None:
        return values, [np.zeros(count) for _ in values]
    bounds = RoundingErrors(evaluate, errors)
    return values, [np.broadcast_to(bounds(body), count) for body in op.bodies]


def _reduced_at(
    op: Compute, reduce: Reduce, points: Array, load: ElementLoader, errors: ErrorLoader | None
) -> _Pair:
    sizes = (*(axis.extent for axis in reduce.axes), len(points))
    trips = math.prod(sizes[:-1])
    shape = (len(points), trips)
    terms = _Terms.at(
        reduce, point_grid(op, points), sizes, shape, load, errors or _exact, points_last=True
    )
    if not is_sum(reduce.reducer):
        return _fold(reduce.reducer, terms.values, terms.bounds(), trips)
    total = list(reduce_values(reduce.reducer, tuple(terms.values), 1))
    return total, [np.zeros(len(points)) if errors is None else terms.sum_bound()]


def _exact(tensor: Tensor) -> None:
    """No element of any tensor is off."""
