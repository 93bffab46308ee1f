"""Inputs for measuring and checking a task: seeded, the same in every process."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.measure.execution import aligned_empty
from sketch.analysis.access import reads
from sketch.analysis.scattering import scattered_axes
from sketch.dag.dag import ComputeDAG
from sketch.lang.dtypes import BOOL, integer_limits, is_float, is_unsigned
from sketch.lang.expr import Axis, Expr, Load
from sketch.lang.prepared import Allocator
from sketch.lang.rewrite import children, walk
from sketch.lang.tensor import Compute, Placeholder, Tensor

Array = NDArray[Any]

# Integers that index nothing stay small: sums of products are exact and do not overflow.
_INTEGER_LIMIT: Final = 5


def random_inputs(
    dag: ComputeDAG,
    seed: int,
    distinct: int | None = None,
    empty: Allocator = aligned_empty,
) -> dict[str, Array]:
    """An array for every placeholder, by name, in the shape and dtype that a caller gives; aligned
    as kernels want it.

    Floats are uniform in [-1, 1], and in [0, 1] for half of the results: sums of those do not
    cancel.  A constant of one number is at least half as large.  One operand of each sum of
    products is scaled down so that results stay O(1).  Integers that are used as an index, or as
    the place of a term, stay inside what they index.

    Args:
        dag: the program.
        seed: of the numbers.
        distinct: draw so many numbers for a larger array, and repeat them; None: draw all.
        empty: makes the arrays.
    """
    scales, limits = _scales(dag), _index_limits(dag)
    halves = _halves(dag)
    arrays: dict[str, Array] = {}
    for number, tensor in enumerate(dag.inputs):
        rng = np.random.default_rng([seed, number])
        size = math.prod(tensor.given_shape)
        count = size if distinct is None else min(size, distinct)
        drawn = _draw(tensor, count, rng, scales, limits)
        array = arrays[tensor.name] = empty(tensor.given_shape, tensor.dtype)
        _repeat(drawn, array.reshape(-1))
        if is_float(tensor.dtype):
            part: tuple[Any, ...] = (*_half(tensor, halves.get(tensor.name)), ...)
            half = array[part]
            np.abs(half, out=half)
            half *= scales.get(tensor.name, 1.0)
    return arrays


def _repeat(values: Array, out: Array) -> None:
    """Fill ``out``, [n], with values, [period], again and again."""
    whole = len(out) // max(1, len(values)) * len(values)
    out[:whole].reshape(-1, len(values))[...] = values
    out[whole:] = values[: len(out) - whole]


@dataclass(frozen=True, slots=True, eq=False)
class NormalInput:
    """An array of normal numbers whose mean may be chosen, or of numbers that are what they are.

    Attributes:
        array: aligned as kernels want it.
        numbers: that it repeats, in the same dtype.
        deviation: their standard deviation; 0: they stay what they are.
    """

    array: Array
    numbers: Array
    deviation: float

    def move(self, mean: float) -> None:
        """Fill the array with numbers of a mean, in standard deviations."""
        if self.deviation:
            moved = self.numbers + np.asarray(mean * self.deviation, self.numbers.dtype)
            _repeat(moved, self.array.reshape(-1))


def normal_inputs(
    dag: ComputeDAG, seed: int, distinct: int, empty: Allocator = aligned_empty
) -> dict[str, NormalInput]:
    """As ``random_inputs`` with normal floats; the mean of floats that are not constant may be
    another than 0, and is to be chosen.

    Args:
        dag: the program.
        seed: of the numbers.
        distinct: so many numbers are drawn for a larger array, and repeated.
        empty: makes the arrays.
    """
    scales, limits = _scales(dag), _index_limits(dag)
    inputs: dict[str, NormalInput] = {}
    for number, tensor in enumerate(dag.inputs):
        rng = np.random.default_rng([seed, number])
        count = min(math.prod(tensor.given_shape), distinct)
        array = empty(tensor.given_shape, tensor.dtype)
        deviation = scales.get(tensor.name, 1.0) if is_float(tensor.dtype) else 0.0
        drawn = (
            (rng.standard_normal(count, np.float32) * deviation).astype(tensor.dtype)
            if deviation and not _is_number(tensor)
            else _draw(tensor, count, rng, scales, limits)
        )
        fixed = not deviation or is_constant(tensor)
        if fixed:
            _repeat(drawn, array.reshape(-1))
        inputs[tensor.name] = NormalInput(array, drawn, 0.0 if fixed else deviation)
    return inputs


def _is_number(tensor: Tensor) -> bool:
    """Whether an input is one number of the model, such as a divisor: it is not next to 0."""
    return is_constant(tensor) and math.prod(tensor.given_shape) == 1


def _draw(
    tensor: Tensor,
    count: int,
    rng: np.random.Generator,
    scales: dict[str, float],
    limits: dict[str, int],
) -> Array:
    name, dtype = tensor.name, tensor.dtype
    if is_float(dtype):
        drawn = rng.uniform(-1.0, 1.0, count)
        if _is_number(tensor):
            drawn = np.copysign(0.5 + 0.5 * np.abs(drawn), drawn)
        return (drawn * scales.get(name, 1.0)).astype(dtype)
    if dtype == BOOL:
        return rng.integers(0, 2, count).astype(dtype)
    low, high = -_INTEGER_LIMIT, _INTEGER_LIMIT + 1
    if name in limits:
        low, high = 0, min(limits[name], integer_limits(dtype)[1])
    elif is_unsigned(dtype):
        low = 0
    return rng.integers(low, high, count).astype(dtype)


def _scales(dag: ComputeDAG) -> dict[str, float]:
    """Scale per placeholder: a product of two uniform numbers has variance 1/9."""
    scales: dict[str, float] = {}
    for op in dag.stages:
        terms = math.prod(axis.extent for axis in op.reduce_axes)
        factors = [t for t in reads(op) if isinstance(t.op, Placeholder) and is_float(t.dtype)]
        if terms > 9 and len(factors) > 1:
            scaled = next((t for t in factors if is_constant(t)), factors[-1])
            scale = 3.0 / math.sqrt(terms)
            scales[scaled.name] = min(scale, scales.get(scaled.name, 1.0))
    return scales


def _halves(dag: ComputeDAG) -> dict[str, int | None]:
    """For each placeholder the first dimension along which it belongs to different results; None
    where every result needs all of it.
    """
    found: dict[str, int | None] = {}
    for op in dag.stages:
        for load in _loads(op):
            shape = load.tensor.shape
            for dimension, index in enumerate(load.indices):
                spatial = any(isinstance(n, Axis) and n.kind == "spatial" for n in walk(index))
                if spatial and shape[dimension] > 1:
                    found.setdefault(load.tensor.name, dimension)
                    break
    return found


def _half(tensor: Tensor, dimension: int | None) -> tuple[slice, ...]:
    """The part of a placeholder that is not negative."""
    if dimension is None or len(tensor.given_shape) != len(tensor.shape):
        return ()
    before = (slice(None),) * dimension
    return (*before, slice(-(-tensor.given_shape[dimension] // 2), None))


def is_constant(tensor: Tensor) -> bool:
    """Whether a tensor is a placeholder whose array never changes."""
    return isinstance(tensor.op, Placeholder) and tensor.op.constant


def _index_limits(dag: ComputeDAG) -> dict[str, int]:
    """For placeholders whose elements are used as an index, or say where a term goes: the smallest
    extent of it.
    """
    limits: dict[str, int] = {}
    for op in dag.stages:
        found = [
            (name, extent)
            for load in _loads(op)
            for index, extent in zip(load.indices, load.tensor.shape, strict=True)
            for name in _placeholders(index)
        ]
        for position, place in scattered_axes(op).items():
            found += ((name, op.shape[position]) for name in _mapped_placeholders(place))
        for name, extent in found:
            limits[name] = min(extent, limits.get(name, extent))
    return limits


def _mapped_placeholders(expr: Expr) -> set[str]:
    """What an expression reads, and what stages read that it reads element by element."""
    found = set(_placeholders(expr))
    for node in walk(expr):
        if isinstance(node, Load) and isinstance(node.tensor.op, Compute):
            bodies = () if node.tensor.op.reduce is not None else node.tensor.op.bodies
            found.update(name for body in bodies for name in _mapped_placeholders(body))
    return found


def _loads(op: Compute) -> list[Load]:
    found: list[Load] = []
    pending: list[Expr] = list(op.bodies)
    while pending:
        node = pending.pop()
        if isinstance(node, Load):
            found.append(node)
        pending.extend(children(node))
    return found


def _placeholders(expr: Expr) -> list[str]:
    own = [expr.tensor.name] if isinstance(expr, Load) else []
    return own + [name for child in children(expr) for name in _placeholders(child)]
