"""The arrays of one task in the timing child, shared by all of its candidates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from autosched.measure.errors import MeasureError
from autosched.measure.execution import Array, aligned_copy, aligned_empty
from autosched.measure.result import Failure
from codegen.kernel import Argument
from sketch.dag import ComputeDAG, output_name, output_shape
from sketch.packing import Packing
from sketch.reference import Reference

# Bytes of packed constants that are kept for the next candidate that packs the same way.
_PACKED_BYTES: Final = 256 << 20


@dataclass(slots=True)
class TaskMemory:
    """Inputs, packed constants, outputs and the oracle's result.

    Attributes:
        reference: the oracle's result, or why there is none.
        inputs: one array per placeholder, by name, in the placeholder's shape.
        packed: packed constants by (name, packing), oldest first.
        outputs: by (name, dtype, shape).
    """

    dag: ComputeDAG
    inputs: dict[str, Array]
    reference: Reference | Failure
    packed: dict[tuple[str, str], Array] = field(default_factory=dict)
    outputs: dict[tuple[str, str, tuple[int, ...]], Array] = field(default_factory=dict)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the results by name."""
        return {output_name(tensor): output_shape(tensor) for tensor in self.dag.outputs}

    def input(self, argument: Argument, packing: Packing | None) -> Array:
        """The array for an input or a constant; packed constants are kept."""
        if argument.name not in self.inputs:
            raise MeasureError(
                f"the kernel wants {argument.name!r}, which is no input of the task",
                hint=f"inputs: {', '.join(self.inputs)}",
            )
        plain = self.inputs[argument.name]
        if packing is None:
            return _of_size(plain, argument)
        key = (argument.name, packing.key)
        if key not in self.packed:
            self._make_room(plain.nbytes)
            self.packed[key] = aligned_copy(packing.apply(plain))
        return _of_size(self.packed[key], argument)

    def _make_room(self, size: int) -> None:
        while self.packed and size + sum(a.nbytes for a in self.packed.values()) > _PACKED_BYTES:
            self.packed.pop(next(iter(self.packed)))

    def output(self, argument: Argument) -> Array:
        """The array for an output, filled with what no kernel writes: NaN, or the least integer."""
        key = (argument.name, argument.dtype, argument.shape)
        if key not in self.outputs:
            self.outputs[key] = aligned_empty(argument.shape, argument.dtype)
        array = self.outputs[key]
        if array.dtype.kind == "f":
            array.fill(np.nan)
        elif array.dtype.kind == "i":
            array.fill(np.iinfo(array.dtype).min)
        return array


def _of_size(array: Array, argument: Argument) -> Array:
    if array.size != np.prod(argument.shape, dtype=np.int64) or array.dtype != argument.dtype:
        raise MeasureError(
            f"argument {argument.name} is {array.dtype} {array.shape}, "
            f"the kernel expects {argument.dtype} {argument.shape}"
        )
    return array
