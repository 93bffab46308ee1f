"""Expected outputs of a task, whole or a sample of them, and how far arrays are from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import ml_dtypes
import numpy as np

from sketch.analysis.jumps import rounded_to
from sketch.dag.dag import ComputeDAG
from sketch.errors import ExpressionError
from sketch.lang.dtypes import numpy_dtype
from sketch.lang.reducers import adds_floats
from sketch.lang.scalar_functions import Array
from sketch.lang.tensor import Tensor

# A value within twice its bound is right: code may round in another order than the program says.
_SLACK: Final = 2.0
_LARGE: Final = 1e-5  # of the largest value: bounds of products of a few factors are below
_ROUNDING: Final = {"float16": 2.0**-10, "bfloat16": 2.0**-7}


@dataclass(frozen=True, slots=True, eq=False)
class Samples:
    """Expected values of one output array.

    Attributes:
        shape: shape of the whole array.
        values: [P] (or ``shape``, if ``positions`` is None), float64, or exact integers / bools.
        positions: int64 [P], flat row-major positions of the values; None means all.
        rounding: relative error that storing the output, or what it is made of, may add: one unit
            in the last place of a 16-bit float, which rounds the other way when arithmetic differs
            a little; else 0.
        bounds: like ``values``, float64: how far each value may be off by rounding (infinite where
            it is not known).  Integers and booleans have them where floats decide: a number that is
            rounded to an integer may be as near to the middle of two as its own roundings.  None:
            they are not known.
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
    """Expected outputs by name.

    Attributes:
        outputs: of a program.
        sums: whether it adds up floats; if not, bounds are as narrow as roundings are.
    """

    outputs: dict[str, Samples]
    sums: bool = True

    def check(self, outputs: Mapping[str, Array]) -> float:
        """The largest relative error of all outputs, beyond the rounding of 16-bit outputs.

        It is ``max|y - ref| / max|ref|``, or that of a single element, ``|y - ref| / |ref|``, which
        is off by more than rounding explains: elements that are small beside others are looked at
        too; one that roundings may move anywhere is not.

        A NaN or infinity that the reference lacks (or the other way round), and any difference of
        integers or booleans that rounding does not explain, is an infinite error.

        Raises:
            ExpressionError: an output is missing or has another shape.
        """
        return max(
            _error(name, samples, outputs, self.sums) for name, samples in self.outputs.items()
        )

    def evenly_bounded(self) -> Reference:
        """For an algorithm that adds elements of a whole tile: its roundings are everywhere as
        large as where most is added, even where a window holds nothing but padding.
        """
        outputs = {n: _evenly_bounded(samples) for n, samples in self.outputs.items()}
        return replace(self, outputs=outputs)


def _evenly_bounded(samples: Samples) -> Samples:
    if samples.bounds is None:
        return samples
    known = np.isfinite(samples.bounds)
    largest = np.max(samples.bounds, initial=0.0, where=known)
    return replace(samples, bounds=np.where(known, largest, samples.bounds))


def _error(name: str, samples: Samples, outputs: Mapping[str, Array], sums: bool) -> float:
    if name not in outputs:
        raise ExpressionError(f"output {name!r} is missing", hint=f"given: {sorted(outputs)}")
    array = np.asarray(outputs[name])
    if array.shape != samples.shape:
        raise ExpressionError(f"output {name!r} has shape {array.shape}, expected {samples.shape}")
    got = array if samples.positions is None else array.reshape(-1)[samples.positions]
    if samples.values.dtype.kind != "f":
        return 0.0 if _explained(got, samples) else math.inf
    whole = relative_error(_decided(got, samples, sums), samples.values, samples.least)
    whole -= samples.rounding
    return max(0.0, whole, _element_error(got, samples))


def _decided(got: Array, samples: Samples, sums: bool) -> Array:
    """``got``, with the expected values where roundings alone may lead to any other: beside the
    jump of a remainder, or where a divisor may be 0.  Without sums, whose bounds are wide, also
    where a value is within its bound that is large.
    """
    if samples.bounds is None:
        return got
    unsure = np.isinf(samples.bounds)
    if not sums:
        with np.errstate(all="ignore"):
            size = np.max(np.abs(samples.values), initial=0.0, where=np.isfinite(samples.values))
            near = np.abs(got.astype(np.float64) - samples.values) <= samples.bounds
        unsure |= near & (samples.bounds > _LARGE * size)
    unsure &= np.isfinite(got) & np.isfinite(samples.values)
    return np.where(unsure, samples.values, got) if unsure.any() else got


def _explained(got: Array, samples: Samples) -> bool:
    """Whether integers or booleans are off by no more than their bounds."""
    off = np.flatnonzero((got != samples.values).reshape(-1))
    if samples.bounds is None or off.size == 0:
        return off.size == 0
    # int64 does not fit into float64, so differences are taken as they are.
    pairs = zip(got.reshape(-1)[off], samples.values.reshape(-1)[off], strict=True)
    distances = np.asarray([abs(int(a) - int(b)) for a, b in pairs], np.float64)
    return bool(np.all(distances <= samples.bounds.reshape(-1)[off]))


def _element_error(got: Array, samples: Samples) -> float:
    """The largest relative error of an element that is off by more than its bound."""
    if samples.bounds is None:
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


def adds_up_floats(dag: ComputeDAG) -> bool:
    """Whether a program has sums of floats over axes."""
    return any(op.reduce is not None and adds_floats(op.reduce.reducer) for op in dag.stages)


def samples_of(
    shape: tuple[int, ...],
    values: Array,
    positions: Array | None,
    bounds: Array,
    stages: Sequence[Tensor],
) -> Samples:
    """Values of an output with what they may be off by.

    Args:
        shape: of the whole array.
        values: [P], or of ``shape``.
        positions: of the values, flat; None: all of them.
        bounds: of their rounding errors, like ``values``; those of integers and booleans hold as
            they are.
        stages: that make the output, all of one type.
    """
    if values.dtype.kind != "f":
        return Samples(shape, values, positions, bounds=bounds)
    rounding = _ROUNDING.get(rounded_to(stages) or "", 0.0)
    dtype = stages[0].dtype
    limits = ml_dtypes.finfo(numpy_dtype(dtype))
    least, most = float(limits.smallest_normal), float(limits.max)
    values = np.where(np.abs(values) > most, np.copysign(np.inf, values), values)
    # 16-bit floats are computed in float32, whose denormal numbers are those that may be flushed.
    flushed = min(least, float(np.finfo(np.float32).smallest_normal))
    return Samples(shape, values, positions, rounding, _SLACK * bounds + least, flushed)
