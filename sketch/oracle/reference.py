"""Reference outputs of a task, to check measured kernels against: whole, or sampled if large."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import ml_dtypes
import numpy as np

from sketch.analysis.access import reads
from sketch.analysis.flops import stage_flops
from sketch.dag.dag import ComputeDAG, output_name, output_shape
from sketch.errors import ExpressionError
from sketch.lang.dtypes import numpy_dtype
from sketch.lang.expr import Expr, Load
from sketch.lang.rewrite import walk
from sketch.lang.scalar_functions import Array
from sketch.lang.tensor import Compute, Placeholder, Tensor
from sketch.oracle.evaluate import Evaluator
from sketch.oracle.interpret import (
    Values,
    compute_regions,
    full_region,
    load_inputs,
    loader,
    whole_outputs,
)
from sketch.oracle.stage_errors import box_errors, point_values
from sketch.oracle.stage_values import empty_outputs, evaluate_box, point_grid

SAMPLE_ABOVE_FLOPS: Final = 1e9
# A stage read at sampled points only: enumerate the points it needs up to this many, ...
ENUMERATE_UP_TO: Final = 1 << 24
# A value within twice its bound is right: code may round in another order than the program says.
_SLACK: Final = 2.0
_ROUNDING: Final = {"float16": 2.0**-10, "bfloat16": 2.0**-7}


@dataclass(frozen=True, slots=True)
class Sampling:
    """How many points of an output are looked at.

    Attributes:
        random: anywhere.
        per_face: on either face of each dimension.
        per_tile: on both sides of the tiles' boundaries, for each dimension and size of tile.
        tiles: these sizes.
        whole_below_flops: a stage that costs less is computed whole for the sampled points.
    """

    random: int = 4096
    per_face: int = 32
    per_tile: int = 16
    tiles: tuple[int, ...] = (4, 8, 16, 32, 64)
    whole_below_flops: float = 2e8


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Expected values of one output array.

    Attributes:
        shape: shape of the whole array.
        values: [P] (or ``shape``, if ``positions`` is None), float64, or exact integers / bools.
        positions: int64 [P], flat row-major positions of the values; None means all.
        rounding: relative error that storing the output may add: one unit in the last place of a
            16-bit float, which rounds the other way when arithmetic differs a little; else 0.
        bounds: like ``values``, float64: how far each value may be off by rounding (infinite where
            it is not known); None for integers and booleans, which are exact.
        least: differences of at most that are none: kernels may flush denormal numbers to 0.
    """

    shape: tuple[int, ...]
    values: Array
    positions: Array | None
    rounding: float = 0.0
    bounds: Array | None = None
    least: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Reference:
    """Expected outputs by name."""

    outputs: dict[str, Samples]

    def check(self, outputs: Mapping[str, Array]) -> float:
        """The largest relative error of all outputs, beyond the rounding of 16-bit outputs.

        It is ``max|y - ref| / max|ref|``, or that of a single element, ``|y - ref| / |ref|``, which
        is off by more than rounding explains: elements that are small beside others are looked at
        too.

        A NaN or infinity that the reference lacks (or the other way round), and any difference of
        integers or booleans, is an infinite error.

        Raises:
            ExpressionError: an output is missing or has another shape.
        """
        return max(_error(name, samples, outputs) for name, samples in self.outputs.items())

    def evenly_bounded(self) -> Reference:
        """For an algorithm that adds elements of a whole tile: its roundings are everywhere as
        large as where most is added, even where a window holds nothing but padding.
        """
        return Reference({n: _evenly_bounded(samples) for n, samples in self.outputs.items()})


def _evenly_bounded(samples: Samples) -> Samples:
    if samples.bounds is None:
        return samples
    known = np.isfinite(samples.bounds)
    largest = np.max(samples.bounds, initial=0.0, where=known)
    return replace(samples, bounds=np.where(known, largest, samples.bounds))


def _error(name: str, samples: Samples, outputs: Mapping[str, Array]) -> float:
    if name not in outputs:
        raise ExpressionError(f"output {name!r} is missing", hint=f"given: {sorted(outputs)}")
    array = np.asarray(outputs[name])
    if array.shape != samples.shape:
        raise ExpressionError(f"output {name!r} has shape {array.shape}, expected {samples.shape}")
    got = array if samples.positions is None else array.reshape(-1)[samples.positions]
    whole = relative_error(got, samples.values, samples.least) - samples.rounding
    return max(0.0, whole, _element_error(got, samples))


def _element_error(got: Array, samples: Samples) -> float:
    """The largest relative error of an element that is off by more than its bound."""
    if samples.bounds is None or samples.values.dtype.kind != "f":
        return 0.0
    with np.errstate(all="ignore"):
        size = np.abs(samples.values)
        off = np.abs(got.astype(np.float64) - samples.values)
        wrong = off > samples.bounds + samples.rounding * size
        return float(np.max(off / size, initial=0.0, where=wrong & np.isfinite(samples.values)))


def relative_error(got: Array, expected: Array, least: float = 0.0) -> float:
    """``max|got - expected| / max|expected|`` over finite elements; infinite on any mismatch of
    NaN, infinity, integers or booleans.

    ``least``: differences of at most that are none.
    """
    if expected.dtype.kind != "f":
        return 0.0 if np.array_equal(got, expected) else math.inf
    value = got.astype(np.float64)
    finite = np.isfinite(expected)
    if not np.array_equal(value[~finite], expected[~finite], equal_nan=True):
        return math.inf
    value, wanted = value[finite], expected[finite]
    if not np.isfinite(value).all():
        return math.inf
    if wanted.size == 0:
        return 0.0
    scale = float(np.abs(wanted).max())
    worst = float(np.abs(value - wanted).max())
    if worst <= least:
        return 0.0
    return worst / scale if scale > 0 else worst


def reference(dag: ComputeDAG, inputs: Mapping[str, Array], rng: np.random.Generator) -> Reference:
    """All outputs, or a sample of them above 1 GFLOP."""
    if dag.flops > SAMPLE_ABOVE_FLOPS:
        return sample_reference(dag, inputs, rng)
    values, errors = load_inputs(dag, inputs), Errors()
    compute_regions(dag, values, {id(t.op): full_region(t.op) for t in dag.outputs})
    for op in dag.stages:
        if id(op) in values:
            errors.add(op, box_errors(op, loader(values), errors))
    bounds, dtypes = whole_outputs(dag, errors.values), _output_dtypes(dag)
    return Reference(
        {
            name: _samples(array.shape, array, None, bounds[name], dtypes[name])
            for name, array in whole_outputs(dag, values).items()
        }
    )


class Errors:
    """Error bounds of the stages so far; looked up by tensor, None where all are 0."""

    def __init__(self) -> None:
        self.values: Values = {}
        self._exact: set[tuple[int, int]] = set()

    def add(self, op: Compute, bounds: tuple[Array, ...]) -> None:
        """Keep a stage's bounds."""
        self.values[id(op)] = bounds
        self._exact |= {(id(op), n) for n, array in enumerate(bounds) if not array.any()}

    def __call__(self, tensor: Tensor) -> Array | None:
        known = self.values.get(id(tensor.op))
        exact = known is None or (id(tensor.op), tensor.output) in self._exact
        return None if exact or known is None else known[tensor.output]


def _samples(
    shape: tuple[int, ...], values: Array, positions: Array | None, bounds: Array, dtype: str
) -> Samples:
    rounding = _ROUNDING.get(dtype, 0.0)
    if values.dtype.kind != "f":
        return Samples(shape, values, positions, rounding)
    limits = ml_dtypes.finfo(numpy_dtype(dtype))
    least, most = float(limits.smallest_normal), float(limits.max)
    values = np.where(np.abs(values) > most, np.copysign(np.inf, values), values)
    # 16-bit floats are computed in float32, whose denormal numbers are those that may be flushed.
    flushed = min(least, float(np.finfo(np.float32).smallest_normal))
    return Samples(shape, values, positions, rounding, _SLACK * bounds + least, flushed)


def _output_dtypes(dag: ComputeDAG) -> dict[str, str]:
    return {output_name(tensor): tensor.dtype for tensor in dag.outputs}


def sample_reference(
    dag: ComputeDAG,
    inputs: Mapping[str, Array],
    rng: np.random.Generator,
    sampling: Sampling = Sampling(),
) -> Reference:
    """Outputs at corners, faces, tile boundaries and random points only.

    Args:
        dag: the program.
        inputs: an array for each placeholder, by name.
        rng: draws the points.
        sampling: how many points.
    """
    values = load_inputs(dag, inputs, at_points=True)
    points: dict[int, Array] = {}
    for tensor in dag.outputs:
        if id(tensor.op) not in points:
            points[id(tensor.op)] = sample_points(tensor.shape, rng, sampling)
    wanted = dict(points)
    errors = _compute_at(dag, values, wanted, sampling.whole_below_flops)
    return _collect_samples(dag, values, errors.values, points)


def sample_points(
    shape: tuple[int, ...], rng: np.random.Generator, sampling: Sampling = Sampling()
) -> Array:
    """Distinct points of ``shape`` where mistakes show: int64 [P, rank]."""
    last = np.asarray(shape, dtype=np.int64) - 1
    rank = len(shape)
    if rank == 0:
        return np.zeros((1, 0), dtype=np.int64)
    corners = np.asarray(list(itertools.product(*({0, int(n)} for n in last))), dtype=np.int64)
    parts = [corners, rng.integers(0, last + 1, size=(sampling.random, rank))]
    for dimension in (d for d in range(rank) if last[d]):
        for edge in (0, last[dimension]):
            face = rng.integers(0, last + 1, size=(sampling.per_face, rank))
            face[:, dimension] = edge
            parts.append(face)
        for tile in sampling.tiles:
            within = rng.integers(0, last + 1, size=(sampling.per_tile, rank))
            parts.append(_tile_boundary(within, last, dimension, tile, rng))
    flat = np.unique(np.ravel_multi_index(tuple(np.concatenate(parts).T), shape))
    return np.stack(np.unravel_index(flat, shape), axis=1).astype(np.int64)


def _tile_boundary(
    points: Array, last: Array, dimension: int, tile: int, rng: np.random.Generator
) -> Array:
    """``points`` moved to both sides of multiples of ``tile``, and of the last whole tile's end."""
    tiles = rng.integers(0, last[dimension] // tile + 1, size=len(points)) + 1
    tiles[:2] = max(1, (last[dimension] + 1) // tile)
    sides = np.arange(len(points)) % 2
    points[:, dimension] = np.minimum(tiles * tile - sides, last[dimension])
    return points


def _compute_at(
    dag: ComputeDAG, values: Values, wanted: dict[int, Array], whole_below_flops: float
) -> Errors:
    """Compute every stage at the points it is needed at, cheap or densely needed ones whole; and
    the error bounds of the same points.
    """
    errors = Errors()
    whole = {id(op) for op in dag.stages if id(op) in wanted and not op.shape}
    for op in reversed(dag.stages):
        if id(op) in whole:
            whole.update(id(producer) for producer in dag.producers(op))
        elif id(op) in wanted:
            _add_needs(op, wanted, whole, whole_below_flops)
    for op in dag.stages:
        if id(op) in whole:
            out = values.setdefault(id(op), empty_outputs(op))
            evaluate_box(op, full_region(op), loader(values), out)
            errors.add(op, box_errors(op, loader(values), errors))
        elif id(op) in wanted:
            out = values.setdefault(id(op), empty_outputs(op))
            points = wanted[id(op)]
            bounds = tuple(np.zeros(op.shape) for _ in out)
            columns, found = point_values(op, points, loader(values), errors)
            for array, column in zip((*out, *bounds), (*columns, *found), strict=True):
                array[tuple(points.T)] = column
            errors.add(op, bounds)
    return errors


def _add_needs(
    op: Compute, wanted: dict[int, Array], whole: set[int], whole_below_flops: float
) -> None:
    """Add what ``op`` at its wanted points reads of earlier stages."""
    points = wanted[id(op)]
    trips = math.prod(axis.extent for axis in op.reduce_axes)
    for tensor, accesses in reads(op).items():
        producer = tensor.op
        if isinstance(producer, Placeholder) or id(producer) in whole:
            continue
        cheap = stage_flops(producer) <= whole_below_flops
        loads = any(isinstance(n, Load) for access in accesses for i in access for n in walk(i))
        if (
            not tensor.shape
            or cheap
            or loads
            or trips * len(points) * len(accesses) > ENUMERATE_UP_TO
        ):
            whole.add(id(producer))
            continue
        flat = np.concatenate([_flat_reads(op, points, a, tensor.shape) for a in accesses])
        old = wanted.get(id(producer))
        if old is not None:
            flat = np.concatenate([flat, np.ravel_multi_index(tuple(old.T), tensor.shape)])
        columns = np.unravel_index(np.unique(flat), tensor.shape)
        wanted[id(producer)] = np.stack(columns, axis=1).astype(np.int64)


def _flat_reads(
    op: Compute, points: Array, indices: Sequence[Expr], shape: tuple[int, ...]
) -> Array:
    """Flat positions that one read of ``op`` touches; clamped, as the evaluator clamps."""
    evaluate = Evaluator(point_grid(op, points), loader({}))
    clipped = [np.clip(evaluate(i), 0, n - 1) for i, n in zip(indices, shape, strict=True)]
    flat = np.ravel_multi_index(tuple(np.broadcast_arrays(*clipped)), shape)
    return np.unique(flat)


def _collect_samples(
    dag: ComputeDAG, values: Values, errors: Values, points: dict[int, Array]
) -> Reference:
    found: dict[str, list[tuple[Array, Array, Array]]] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for tensor in dag.outputs:
        name, at = output_name(tensor), points[id(tensor.op)]
        value, bound = (
            known[id(tensor.op)][tensor.output][tuple(at.T)].reshape(-1)
            for known in (values, errors)
        )
        found.setdefault(name, []).append((_output_positions(tensor, at), value, bound))
        shapes[name] = output_shape(tensor)
    dtypes = _output_dtypes(dag)
    outputs: dict[str, Samples] = {}
    for name, shape in shapes.items():
        positions, value, bound = (np.concatenate(c) for c in zip(*found[name], strict=True))
        outputs[name] = _samples(shape, value, positions, bound, dtypes[name])
    return Reference(outputs)


def _output_positions(tensor: Tensor, points: Array) -> Array:
    """Flat positions of a stage's points in the array that holds the output."""
    store = tensor.op.store if isinstance(tensor.op, Compute) else None
    if store is not None:
        flat: Array = points @ np.asarray(store.strides, dtype=np.int64) + store.offset
        return flat
    if not tensor.shape:
        return np.zeros(len(points), dtype=np.int64)
    return np.asarray(np.ravel_multi_index(tuple(points.T), tensor.shape), dtype=np.int64)
