"""A sample of a task's outputs, of what the oracle computes at these points only."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sketch.analysis.access import reads
from sketch.analysis.flops import stage_flops
from sketch.dag.dag import ComputeDAG, output_name, output_shape
from sketch.lang.expr import Expr, Load
from sketch.lang.rewrite import walk
from sketch.lang.scalar_functions import Array
from sketch.lang.tensor import Compute, Placeholder, Tensor
from sketch.oracle.evaluate import Evaluator
from sketch.oracle.expected import Reference, Samples, adds_up_floats, samples_of
from sketch.oracle.interpret import Values, full_region, load_inputs, loader
from sketch.oracle.known_errors import KnownErrors
from sketch.oracle.point_values import Elements, PointValues, distinct, elements_at
from sketch.oracle.scattered import is_sent
from sketch.oracle.stage_errors import box_errors, point_values
from sketch.oracle.stage_values import empty_outputs, evaluate_box, point_grid

# A stage read at sampled points only: enumerate the points it needs up to this many, ...
ENUMERATE_UP_TO: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class Sampling:
    """How many points of an output are looked at.

    Attributes:
        random: anywhere.
        per_face: on either face of each dimension.
        per_tile: on both sides of the tiles' boundaries, for each dimension and size of tile.
        tiles: these sizes.
        whole_below_flops: a stage that costs less is computed whole for the sampled points.
        bounds: whether it is told how far each value may be off, by which elements that are small
            beside others count, too.
    """

    random: int = 4096
    per_face: int = 32
    per_tile: int = 16
    tiles: tuple[int, ...] = (4, 8, 16, 32, 64)
    whole_below_flops: float = 2e8
    bounds: bool = True


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
    points: dict[int, Array] = {}
    for tensor in dag.outputs:
        if id(tensor.op) not in points:
            points[id(tensor.op)] = sample_points(tensor.shape, rng, sampling)
    known = _Known(load_inputs(dag, inputs, at_points=True), sampling.bounds)
    _compute_at(dag, known, dict(points), sampling.whole_below_flops)
    return _collect_samples(dag, known, points)


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
    flat = distinct(np.ravel_multi_index(tuple(np.concatenate(parts).T), shape))
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


class _Known:
    """Values of placeholders and stages so far, and the error bounds of the stages; whole, or at
    some points.
    """

    def __init__(self, whole: Values, bounded: bool) -> None:
        """``bounded``: whether bounds are wanted; without it they are 0."""
        self.whole, self.bounded = whole, bounded
        self.whole_errors = KnownErrors()
        self._values: dict[int, tuple[PointValues, ...]] = {}
        self._errors: dict[int, tuple[PointValues, ...]] = {}

    def add(self, op: Compute, points: Array) -> None:
        """Compute a stage at ``points``, int64 [P, rank] in row-major order."""
        positions = np.ravel_multi_index(tuple(points.T), op.shape)
        errors = self.error if self.bounded else None
        values, bounds = (
            tuple(PointValues(op.shape, positions, column) for column in columns)
            for columns in point_values(op, points, self.value, errors)
        )
        self._values[id(op)], self._errors[id(op)] = values, bounds

    def add_whole(self, op: Compute) -> None:
        """Compute all of a stage; what it reads is there as a whole."""
        out = self.whole[id(op)] = empty_outputs(op)
        evaluate_box(op, full_region(op), loader(self.whole), out)
        if self.bounded:
            bounds = box_errors(op, loader(self.whole), self.whole_errors)
            self.whole_errors.add(op, bounds)

    def value(self, tensor: Tensor) -> Elements:
        """What is known of a tensor."""
        found = self._values.get(id(tensor.op), self.whole.get(id(tensor.op), ()))
        return found[tensor.output]

    def error(self, tensor: Tensor) -> Elements | None:
        """The bounds of its errors; None: all are 0."""
        found = self._errors.get(id(tensor.op))
        if found is None:
            return self.whole_errors(tensor)
        bounds = found[tensor.output]
        return bounds if bounds.values.any() else None

    def at(self, tensor: Tensor, points: Array) -> tuple[Array, Array]:
        """Values and error bounds at ``points``, [P] each."""
        index, bound = tuple(points.T), self.error(tensor)
        value = elements_at(self.value(tensor), index).reshape(-1)
        errors = np.zeros(()) if bound is None else elements_at(bound, index)
        return value, np.broadcast_to(errors.reshape(-1), len(points))


def _compute_at(
    dag: ComputeDAG, known: _Known, wanted: dict[int, Array], whole_below_flops: float
) -> None:
    """Compute every stage at the points it is needed at, cheap or densely needed ones whole."""
    whole = {id(op) for op in dag.stages if id(op) in wanted and (not op.shape or is_sent(op))}
    for op in reversed(dag.stages):
        if id(op) in whole:
            whole.update(id(producer) for producer in dag.producers(op))
        elif id(op) in wanted:
            _add_needs(op, wanted, whole, whole_below_flops)
    for op in dag.stages:
        if id(op) in whole:
            known.add_whole(op)
        elif id(op) in wanted:
            known.add(op, wanted[id(op)])


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
            or (isinstance(producer, Compute) and is_sent(producer))
            or loads
            or trips * len(points) * len(accesses) > ENUMERATE_UP_TO
        ):
            whole.add(id(producer))
            continue
        flat = np.concatenate([_flat_reads(op, points, a, tensor.shape) for a in accesses])
        old = wanted.get(id(producer))
        if old is not None:
            flat = np.concatenate([flat, np.ravel_multi_index(tuple(old.T), tensor.shape)])
        columns = np.unravel_index(distinct(flat), tensor.shape)
        wanted[id(producer)] = np.stack(columns, axis=1).astype(np.int64)


def _flat_reads(
    op: Compute, points: Array, indices: Sequence[Expr], shape: tuple[int, ...]
) -> Array:
    """Flat positions that one read of ``op`` touches; clamped, as the evaluator clamps."""
    evaluate = Evaluator(point_grid(op, points), loader({}))
    clipped = [np.clip(evaluate(i), 0, n - 1) for i, n in zip(indices, shape, strict=True)]
    flat = np.ravel_multi_index(tuple(np.broadcast_arrays(*clipped)), shape)
    return distinct(flat)


def _collect_samples(dag: ComputeDAG, known: _Known, points: dict[int, Array]) -> Reference:
    found: dict[str, list[tuple[Array, Array, Array]]] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for tensor in dag.outputs:
        name, at = output_name(tensor), points[id(tensor.op)]
        found.setdefault(name, []).append((_output_positions(tensor, at), *known.at(tensor, at)))
        shapes[name] = output_shape(tensor)
    outputs: dict[str, Samples] = {}
    for name, shape in shapes.items():
        positions, value, bound = (np.concatenate(c) for c in zip(*found[name], strict=True))
        samples = samples_of(shape, value, positions, bound, dag.stages_of_outputs[name])
        outputs[name] = samples if known.bounded else replace(samples, bounds=None)
    return Reference(outputs, adds_up_floats(dag))


def _output_positions(tensor: Tensor, points: Array) -> Array:
    """Flat positions of a stage's points in the array that holds the output."""
    store = tensor.op.store if isinstance(tensor.op, Compute) else None
    if store is not None:
        flat: Array = points @ np.asarray(store.strides, dtype=np.int64) + store.offset
        return flat
    if not tensor.shape:
        return np.zeros(len(points), dtype=np.int64)
    return np.asarray(np.ravel_multi_index(tuple(points.T), tensor.shape), dtype=np.int64)
