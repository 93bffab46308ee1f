"""The arrays of a run's outputs: kernels write into them, native code copies the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.errors import InputError
from autosched.runtime.program import ExecutionPlan, Place, TensorSpec
from autosched.system.element_types import element_type
from autosched.system.memory_limit import room_for
from codegen.kernel import BUFFER_ALIGNMENT

_COLUMNS: Final = 3  # of a copy: to, from, bytes
# To place an array takes longer than a kernel loses whose rows of so few bytes cross cache lines.
_SMALL_BYTES: Final = 1 << 12


class BoundArrays(NamedTuple):
    """The arrays of one run.

    Attributes:
        arrays: of the outputs that lie in memory, by number.
        inputs: addresses of the inputs, in order.
        outputs: addresses of ``arrays``, by number.
    """

    arrays: dict[int, NDArray[Any]]
    inputs: list[int]
    outputs: dict[int, int]


@dataclass(frozen=True, slots=True)
class _Output:
    """An output that lies in memory: what every run needs of its spec."""

    number: int
    name: str
    text: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    size_bytes: int


class Outputs:
    """Makes the arrays, and the list of copies into those that no step writes.

    The copies are made in the native call that executes the last kernels: Python's lock is then
    taken once more in a run, not once for each array.
    """

    def __init__(self, program: ExecutionPlan, bases: Mapping[str, int]) -> None:
        """``bases``: addresses of the arena and of the constants."""
        in_memory = [
            (_output(number, spec), place)
            for number, (spec, place) in enumerate(program.outputs)
            if place.segment != "host"
        ]
        self._outputs = [output for output, _ in in_memory]
        copied = [(o, place) for o, place in in_memory if place != Place("output", o.number)]
        self._targets = [output.number for output, _ in copied]
        self._copies = np.zeros((len(copied), _COLUMNS), np.uint64)
        self._copies[:, 1] = [bases.get(place.segment, 0) + place.offset for _, place in copied]
        self._copies[:, 2] = [output.size_bytes for output, _ in copied]
        self._passed_on = [
            (row, place)
            for row, (_, place) in enumerate(copied)
            if place.segment in ("input", "output")
        ]
        self.address = self._copies.ctypes.data
        self.count = len(copied)

    def prepare(
        self, inputs: Sequence[NDArray[Any]], given: Mapping[str, NDArray[Any]]
    ) -> BoundArrays:
        """Arrays for the outputs that lie in memory; those that host steps make are not among them.

        Args:
            inputs: dense arrays, in order.
            given: arrays that outputs are wanted in, by name.  One that is not dense, or shares
                memory with another array of the run, is not used: a new array stands for it.

        Raises:
            OutOfMemoryError: an output does not fit the memory of this machine.
        """
        arrays: dict[int, NDArray[Any]] = {}
        targets: dict[int, int] = {}
        for output in self._outputs:
            wanted = given.get(output.name)
            if wanted is None or not _writable_in_place(wanted, (*inputs, *arrays.values())):
                wanted, targets[output.number] = _new_array(output)
            else:
                targets[output.number] = wanted.ctypes.data
            arrays[output.number] = wanted
        sources = [array.ctypes.data for array in inputs]
        for row, number in enumerate(self._targets):
            self._copies[row, 0] = targets[number]
        for row, place in self._passed_on:
            addresses = sources if place.segment == "input" else targets
            self._copies[row, 1] = addresses[place.offset]
        return BoundArrays(arrays, sources, targets)


def check_outputs(
    specs: Sequence[TensorSpec], given: Mapping[str, Any] | None
) -> dict[str, NDArray[Any]]:
    """The arrays that a caller wants outputs in, by name.

    Raises:
        InputError: no output has that name, or what was given is no array that can be written, of
            its shape and dtype.
    """
    if not given:
        return {}
    known = {spec.name: spec for spec in specs}
    for name, array in given.items():
        where, spec = f"out {name!r}", known.get(name)
        if spec is None:
            raise InputError("no output has that name", where, f"outputs: {', '.join(known)}")
        if not isinstance(array, np.ndarray):
            raise InputError(f"{type(array).__name__} is no NumPy array", where)
        if (array.shape, array.dtype) != (spec.shape, element_type(spec.dtype)):
            found = f"{array.dtype}{list(array.shape)}"
            raise InputError(f"{found}, expected {spec.dtype}{list(spec.shape)}", where)
        if not array.flags.writeable:
            raise InputError("the array cannot be written", where)
    return dict(given)


def delivered(
    found: dict[str, NDArray[Any]], given: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """``found`` in the arrays that were given; those that were not written in place are copied."""
    for name, array in given.items():
        if found[name] is not array:
            array[...] = found[name]
            found[name] = array
    return found


def _writable_in_place(array: NDArray[Any], others: Sequence[NDArray[Any]]) -> bool:
    """Whether kernels can write it while they read and write the others."""
    dense = array.flags.c_contiguous and array.flags.aligned
    return dense and not any(np.may_share_memory(array, other) for other in others)


def _output(number: int, spec: TensorSpec) -> _Output:
    kind = element_type(spec.dtype)
    return _Output(number, spec.name, str(spec), spec.shape, kind, spec.size_bytes)


def _new_array(output: _Output) -> tuple[NDArray[Any], int]:
    """One that begins where a cache line does, as values in the arena do; and its address."""
    if output.size_bytes < _SMALL_BYTES:
        array = np.empty(output.shape, output.dtype)
        return array, array.ctypes.data
    with room_for(output.text, output.size_bytes):
        memory = np.empty(output.size_bytes + BUFFER_ALIGNMENT, np.uint8)
    address = memory.ctypes.data
    start = -address % BUFFER_ALIGNMENT
    return np.ndarray(output.shape, output.dtype, memory, start), address + start
