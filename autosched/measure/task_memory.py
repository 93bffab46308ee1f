"""The arrays of one task in the timing child, shared by all of its candidates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from autosched.measure.errors import MeasureError
from autosched.measure.execution import Array, aligned_copy, aligned_empty
from autosched.measure.result import CacheState, Failure, constant_state
from codegen.kernel import Argument
from sketch.dag.dag import ComputeDAG, output_name, output_shape
from sketch.lang.dtypes import integer_limits, is_float, is_integer, size_of
from sketch.lang.prepared import Allocator
from sketch.lang.tensor import Placeholder
from sketch.lower.packing import Preparation
from sketch.oracle.expected import Reference
from sketch.target.target import Target

# Bytes of packed constants that are kept for the next candidate that packs the same way.
_PACKED_BYTES: Final = 256 << 20
# Bytes of what constants are made from, once it has been computed.
_COMPUTED_BYTES: Final = 128 << 20
# A few small constants need no more copies: what is left in L2 is a negligible part of the work.
_MOST_COPIES: Final = 64


@dataclass(slots=True)
class TaskMemory:
    """Inputs, packed constants, outputs and the oracle's result.

    Attributes:
        reference: the oracle's result, or why there is none.
        inputs: one array per placeholder, by name, in the placeholder's shape; aligned.
        copies: how many copies of every constant are kept (see ``copies_beyond_l2``).
        packed: copies of constants by (name, preparation), oldest first.
        computed: constants that are more than packed, by (name, what is computed), oldest first.
        outputs: by (name, dtype, shape).
        empty: makes arrays.
        fixed: whether inputs stay what they are, so that a device may keep copies of them.
        period: the numbers of constants repeat after so many; None: they do not.
    """

    dag: ComputeDAG
    inputs: dict[str, Array]
    reference: Reference | Failure
    copies: int = 1
    packed: dict[tuple[str, str], tuple[Array, ...]] = field(default_factory=dict)
    computed: dict[tuple[str, str], Array] = field(default_factory=dict)
    outputs: dict[tuple[str, str, tuple[int, ...]], Array] = field(default_factory=dict)
    empty: Allocator = aligned_empty
    period: int | None = None
    fixed: bool = False
    _others: Array | None = None

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the results by name."""
        return {output_name(tensor): output_shape(tensor) for tensor in self.dag.outputs}

    @property
    def nbytes(self) -> int:
        """Of all arrays."""
        arrays = [*self.inputs.values(), *self.outputs.values()]
        others = 0 if self._others is None else self._others.nbytes
        kept = self._packed_bytes + self._computed_bytes
        return sum(array.nbytes for array in arrays) + kept + others

    @property
    def _computed_bytes(self) -> int:
        return sum(array.nbytes for array in self.computed.values())

    @property
    def _packed_bytes(self) -> int:
        return sum(copy.nbytes for copies in self.packed.values() for copy in copies)

    def input(self, argument: Argument, preparation: Preparation | None) -> tuple[Array, ...]:
        """The array for an input, or the copies of a constant; constants are kept.

        Raises:
            MeasureError: the kernel wants an input that the task does not have.
        """
        if argument.name not in self.inputs:
            raise MeasureError(
                f"the kernel wants {argument.name!r}, which is no input of the task",
                hint=f"inputs: {', '.join(self.inputs)}",
            )
        if argument.scope != "constant" or (preparation is None and self.copies == 1):
            return (_of_size(self.inputs[argument.name], argument),)
        copies = self._constant(argument.name, preparation)
        for copy in copies:
            _of_size(copy, argument)
        return copies

    def make_constants(self, preparations: Mapping[str, Preparation]) -> bool:
        """Make what ``input`` will be asked for, by name; whether there is room for more."""
        for name, preparation in preparations.items():
            if name in self.inputs:
                self._constant(name, preparation)
        return 2 * self._packed_bytes < _PACKED_BYTES

    def _constant(self, name: str, preparation: Preparation | None) -> tuple[Array, ...]:
        key = (name, "plain" if preparation is None else preparation.key)
        if key not in self.packed:
            plain = self.inputs[name]
            self._make_room(plain.nbytes * self.copies)
            first = aligned_copy(self._ordered(name, preparation), self.empty)
            others = (aligned_copy(first, self.empty) for _ in range(self.copies - 1))
            self.packed[key] = (first, *others)
        return self.packed[key]

    def _ordered(self, name: str, preparation: Preparation | None) -> Array:
        """A constant in memory order; what is computed of it is kept for other ways to pack it."""
        plain = self.inputs[name]
        if preparation is None:
            return plain
        computed, packing = preparation.prepared, preparation.packing
        if computed is None or packing is None:
            return preparation.ordered(plain, self.empty, self.period)
        key = (name, computed.key)
        if key not in self.computed:
            whole = replace(preparation, packing=None)
            made = whole.ordered(plain, self.empty, self.period)
            while self.computed and self._computed_bytes + made.nbytes > _COMPUTED_BYTES:
                del self.computed[next(iter(self.computed))]
            self.computed[key] = made
        return packing.ordered(self.computed[key])

    def _make_room(self, size: int) -> None:
        kept = self._packed_bytes
        while self.packed and size + kept > _PACKED_BYTES:
            oldest = self.packed.pop(next(iter(self.packed)))
            kept -= sum(copy.nbytes for copy in oldest)

    def output(self, argument: Argument) -> Array:
        """The array for an output, filled with what no kernel writes: NaN, the least integer (the
        largest where it is 0).
        """
        key = (argument.name, argument.dtype, argument.shape)
        if key not in self.outputs:
            self.outputs[key] = self.empty(argument.shape, argument.dtype)
        array = self.outputs[key]
        _fill(array)
        return array

    def others(self, size_bytes: int) -> Array:
        """Bytes that no kernel of the task reads or writes, uint8 ``[size_bytes]``; the same for
        all of them.
        """
        if self._others is None or self._others.nbytes < size_bytes:
            self._others = self.empty((size_bytes,), "uint8")
        return self._others[:size_bytes]

    def strided(self, argument: Argument, strides: tuple[int, ...]) -> Array:
        """A new array for an input that does not lie in one piece; what lies between its elements
        is what no kernel reads.

        Args:
            argument: the kernel's; its size spans all elements.
            strides: in elements.
        """
        array = self.empty(argument.shape, argument.dtype)
        _fill(array)
        self.copy_apart(argument.name, strides, array)
        return array

    def copy_apart(self, name: str, strides: tuple[int, ...], array: Array) -> None:
        """Copy an input to ``array``, its elements ``strides`` apart."""
        plain = self.inputs[name]
        steps = [stride * array.itemsize for stride in strides]
        as_strided(array, plain.shape, steps)[...] = plain


def _fill(array: Array) -> None:
    """Set all elements to what is no result: NaN, the least integer (the largest if it is 0)."""
    dtype = str(array.dtype)
    if is_float(dtype):
        array.fill(np.nan)
    elif is_integer(dtype):
        low, high = integer_limits(dtype)
        array.fill(low or high)


def copies_beyond_l2(dag: ComputeDAG, target: Target, state: CacheState) -> int:
    """Copies of a task's constants that together overflow every core's L2 twice; 1 unless the
    state asks for constants that are not in L2.
    """
    if constant_state(state) != "l2_cold":
        return 1
    wanted = 2 * target.l2_bytes * target.threads
    return min(_MOST_COPIES, 1 + -(-wanted // max(constant_bytes(dag), 1)))


def constant_bytes(dag: ComputeDAG) -> int:
    """Of all constants of a task."""
    placeholders = [t.op for t in dag.inputs if isinstance(t.op, Placeholder) and t.op.constant]
    return sum(prod(op.shape) * size_of(op.dtype) for op in placeholders)


def _of_size(array: Array, argument: Argument) -> Array:
    if array.size != np.prod(argument.shape, dtype=np.int64) or array.dtype != argument.dtype:
        raise MeasureError(
            f"argument {argument.name} is {array.dtype} {array.shape}, "
            f"the kernel expects {argument.dtype} {argument.shape}"
        )
    return array
