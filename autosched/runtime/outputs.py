"""New arrays for the outputs of a run, which native code fills after the last step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.program import ExecutionPlan
from autosched.system.element_types import element_type
from autosched.system.memory_limit import room_for

_COLUMNS: Final = 3  # of a copy: to, from, bytes


class Outputs:
    """Makes the arrays, and the list of copies into them.

    The copies are made in the native call that executes the last kernels: Python's lock is then
    taken once more in a run, not once for each array.
    """

    def __init__(self, program: ExecutionPlan, bases: Mapping[str, int]) -> None:
        """``bases``: addresses of the arena and of the constants."""
        self._specs = [
            (str(spec), spec.name, spec.shape, element_type(spec.dtype), spec.size_bytes)
            for spec, place in program.outputs
            if place.segment != "host"
        ]
        places = [place for _, place in program.outputs if place.segment != "host"]
        self._copies = np.zeros((len(places), _COLUMNS), np.uint64)
        self._copies[:, 1] = [bases.get(place.segment, 0) + place.offset for place in places]
        self._copies[:, 2] = [size for *_, size in self._specs]
        self._passed_on = [
            (row, place.offset) for row, place in enumerate(places) if place.segment == "input"
        ]
        self.address = self._copies.ctypes.data
        self.count = len(places)

    def prepare(self, inputs: Sequence[NDArray[Any]]) -> dict[str, NDArray[Any]]:
        """Arrays by name for the outputs that lie in memory; those that host steps make are not
        among them.

        Raises:
            OutOfMemoryError: an output does not fit the memory of this machine.
        """
        arrays = {}
        for row, (text, name, shape, dtype, size_bytes) in enumerate(self._specs):
            with room_for(text, size_bytes):
                array = arrays[name] = np.empty(shape, dtype)
            self._copies[row, 0] = array.ctypes.data
        for row, number in self._passed_on:
            self._copies[row, 1] = inputs[number].ctypes.data
        return arrays
