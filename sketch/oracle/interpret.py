"""The oracle: runs a program in NumPy, in float64, straight from its definition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sketch.analysis.access import index_interval, reads
from sketch.dag.dag import ComputeDAG, output_name, output_shape
from sketch.errors import ExpressionError
from sketch.lang.affine import Interval
from sketch.lang.scalar_functions import Array, oracle_dtype
from sketch.lang.store_cover import store_view
from sketch.lang.tensor import Compute, Operation, Placeholder, Tensor
from sketch.oracle.stage_values import empty_outputs, evaluate_box

Region = tuple[Interval, ...]
Values = dict[int, tuple[Array, ...]]


def interpret(
    dag: ComputeDAG,
    inputs: Mapping[str, Array],
    region: Mapping[str, tuple[slice, ...]] | None = None,
    fast: bool = True,
) -> dict[str, Array]:
    """The outputs of ``dag``, by name, in float64 (integers and booleans in their own dtype).

    Args:
        dag: the program.
        inputs: an array for each placeholder, constants too, by name.
        region: for an output (by the name of its tensor) the part that is wanted, slices of step
            1; only what it needs is computed, and the result has the shape of the region.
        fast: use matrix products where the body allows; False is for testing that path.

    Returns:
        One array for each output tensor, or for each buffer that several stages share.

    Raises:
        ExpressionError: an input is missing, has another shape, or a region does not fit.
    """
    values = load_inputs(dag, inputs)
    wanted = {id(t.op): _full(t.op.shape) for t in dag.outputs}
    if region is not None:
        wanted = {id(t.op): _region_of(t, region) for t in dag.outputs if t.name in region}
        _check_region_names(dag, region)
    compute_regions(dag, values, wanted, fast)
    if region is None:
        return whole_outputs(dag, values)
    return {
        tensor.name: values[id(tensor.op)][tensor.output][_slices(wanted[id(tensor.op)])]
        for tensor in dag.outputs
        if tensor.name in region
    }


def load_inputs(dag: ComputeDAG, inputs: Mapping[str, Array], at_points: bool = False) -> Values:
    """The placeholders' arrays in the oracle's dtypes.

    ``at_points``: few elements are read; those of float32 arrays are converted then.

    Raises:
        ExpressionError: an input is missing, or has another shape.
    """
    values: Values = {}
    for tensor in dag.inputs:
        if tensor.name not in inputs:
            raise ExpressionError(
                f"input {tensor.name!r} is missing", hint=f"given: {', '.join(sorted(inputs))}"
            )
        array, op = np.asarray(inputs[tensor.name]), tensor.op
        if array.shape != tensor.given_shape:
            raise ExpressionError(
                f"input {tensor.name!r} has shape {array.shape}, expected {tensor.given_shape}"
            )
        if isinstance(op, Placeholder) and op.prepared is not None:
            array = op.prepared.apply(array)
        if not (at_points and tensor.dtype == "float32" == array.dtype):
            array = array.astype(oracle_dtype(tensor.dtype), copy=False)
        values[id(tensor.op)] = (array,)
    return values


def compute_regions(
    dag: ComputeDAG, values: Values, wanted: Mapping[int, Region], fast: bool = True
) -> None:
    """Compute the wanted region of each stage and everything it needs, into ``values``.

    Args:
        dag: the program.
        values: arrays of full shape by tensor; results are added.
        wanted: by the id of a stage, its inclusive bounds.
        fast: sums of products go through NumPy's matrix product.
    """
    needed = dict(wanted)
    for op in reversed(dag.stages):
        if id(op) in needed:
            for tensor, region in _needs(op, needed[id(op)]):
                old = needed.get(id(tensor.op))
                needed[id(tensor.op)] = region if old is None else _hull(old, region)
    for op in dag.stages:
        if id(op) in needed:
            out = values.setdefault(id(op), empty_outputs(op))
            evaluate_box(op, needed[id(op)], loader(values), out, fast)


def loader(values: Values) -> _Loader:
    """Look tensors up in ``values``."""
    return _Loader(values)


class _Loader:
    def __init__(self, values: Values) -> None:
        self._values = values

    def __call__(self, tensor: Tensor) -> Array:
        return self._values[id(tensor.op)][tensor.output]


def _needs(op: Compute, region: Region) -> list[tuple[Tensor, Region]]:
    """The box that ``op`` on ``region`` reads of each stage before it."""
    box = dict(zip(op.axes, region, strict=True))
    found: list[tuple[Tensor, Region]] = []
    for tensor, accesses in reads(op).items():
        if isinstance(tensor.op, Placeholder):
            continue
        for indices in accesses:
            bounds = [index_interval(index, box) for index in indices]
            found.append((tensor, _clamped(bounds, tensor.shape)))
    return found


def _clamped(bounds: Sequence[Interval | None], shape: tuple[int, ...]) -> Region:
    """Bounds inside the tensor; a guarded read may be clamped to any element, so keep one."""
    region: list[Interval] = []
    for bound, extent in zip(bounds, shape, strict=True):
        low, high = (0, extent - 1) if bound is None else bound
        region.append((min(max(low, 0), extent - 1), max(min(high, extent - 1), 0)))
    return tuple(region)


def _hull(a: Region, b: Region) -> Region:
    pairs = zip(a, b, strict=True)
    return tuple((min(x[0], y[0]), max(x[1], y[1])) for x, y in pairs)


def _full(shape: Sequence[int]) -> Region:
    return tuple((0, extent - 1) for extent in shape)


def full_region(op: Operation) -> Region:
    """All of an operation's points."""
    return _full(op.shape)


def _slices(region: Region) -> tuple[slice, ...]:
    return tuple(slice(low, high + 1) for low, high in region)


def _check_region_names(dag: ComputeDAG, region: Mapping[str, tuple[slice, ...]]) -> None:
    names = [tensor.name for tensor in dag.outputs]
    unknown = sorted(set(region) - set(names))
    if unknown:
        raise ExpressionError(f"{unknown[0]!r} is no output", hint=f"outputs: {', '.join(names)}")


def _region_of(tensor: Tensor, region: Mapping[str, tuple[slice, ...]]) -> Region:
    parts = region[tensor.name]
    if len(parts) != tensor.ndim:
        raise ExpressionError(
            f"region {parts} has {len(parts)} slices for {tensor.ndim} dimensions", tensor.name
        )
    bounds: list[Interval] = []
    for part, extent in zip(parts, tensor.shape, strict=True):
        start, stop, step = part.indices(extent)
        if step != 1 or start >= stop:
            raise ExpressionError(f"slice {part} of {extent} is empty or has a step", tensor.name)
        bounds.append((start, stop - 1))
    return tuple(bounds)


def whole_outputs(dag: ComputeDAG, values: Values) -> dict[str, Array]:
    """The output arrays by name, from the values of all stages that make them."""
    results: dict[str, Array] = {}
    for tensor in dag.outputs:
        value = values[id(tensor.op)][tensor.output]
        op = tensor.op
        if isinstance(op, Compute) and op.store is not None:
            name = output_name(tensor)
            buffer = results.setdefault(name, np.empty(output_shape(tensor), value.dtype))
            store_view(buffer.reshape(-1), op)[...] = value
        else:
            results[tensor.name] = value
    return results
