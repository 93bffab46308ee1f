"""The arrays of a run's outputs: kernels write into them, native code copies the rest."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from sys import getrefcount
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.typing import NDArray

from autosched.runtime.errors import InputError
from autosched.runtime.memory import address_of
from autosched.runtime.program import ExecutionPlan, Place, TensorSpec, is_memory
from autosched.system.element_types import element_type
from autosched.system.memory_limit import room_for
from codegen.kernel import BUFFER_ALIGNMENT

_COLUMNS: Final = 3  # of a copy: to, from, bytes
# In a loop, the outputs of one run are held until those of the next are there.
_KEPT: Final = 2


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


class _Memory(NamedTuple):
    """Of an output: ``start`` bytes into ``block``, at ``address``."""

    block: NDArray[np.uint8]
    start: int
    address: int


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
            if is_memory(spec, place)
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
        self._kept = {o.number: deque[_Memory](maxlen=_KEPT) for o in self._outputs}
        self.address = self._copies.ctypes.data
        self.count = len(copied)

    def prepare(
        self, inputs: Sequence[NDArray[Any]], given: Mapping[str, NDArray[Any]]
    ) -> BoundArrays:
        """Arrays for the outputs that lie in memory; those that host steps make are not among them.

        Args:
            inputs: dense arrays, in order.
            given: arrays that outputs are wanted in, by name, apart from each other.  One that is
                not dense, or shares memory with an input, is not used: a new array stands for it.

        Raises:
            OutOfMemoryError: an output does not fit the memory of this machine.
        """
        arrays: dict[int, NDArray[Any]] = {}
        targets: dict[int, int] = {}
        sources = list(map(address_of, inputs))
        for output in self._outputs:
            number = output.number
            wanted = given.get(output.name) if given else None
            if wanted is not None and wanted.flags.carray:
                at = address_of(wanted)
                end, alone = at + output.size_bytes, True
                for start, array in zip(sources, inputs, strict=True):
                    alone = alone and (end <= start or start + array.nbytes <= at)
                if alone:
                    arrays[number], targets[number] = wanted, at
                    continue
            memory = self._memory_of(output)
            arrays[number] = np.ndarray(output.shape, output.dtype, memory.block, memory.start)
            targets[number] = memory.address
        for row, number in enumerate(self._targets):
            self._copies[row, 0] = targets[number]
        for row, place in self._passed_on:
            addresses = sources if place.segment == "input" else targets
            self._copies[row, 1] = addresses[place.offset]
        return BoundArrays(arrays, sources, targets)

    def _memory_of(self, output: _Output) -> _Memory:
        """That of one of the last two runs, or other memory where both are still held."""
        kept = self._kept[output.number]
        for memory in kept:
            # As in ``_references``: one function less.
            if getrefcount(memory.block) == _UNSHARED:
                return memory
        memory = _new_memory(output)
        kept.append(memory)
        return memory


def check_outputs(
    specs: Sequence[TensorSpec], given: Mapping[str, Any] | None
) -> dict[str, NDArray[Any]]:
    """The arrays that a caller wants outputs in, by name.

    Raises:
        InputError: they are in no dict, no output has that name, one is no array that can be
            written, of its shape and dtype, or two share memory.
    """
    if given is None:
        return {}
    if type(given) is dict and _are_as_expected(specs, given):
        _check_apart(given)
        return given
    if not isinstance(given, Mapping):
        raise InputError(f"out must be a dict from name to array, got {type(given).__name__}")
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
    _check_apart(given)
    return dict(given)


def _check_apart(given: Mapping[str, NDArray[Any]]) -> None:
    """Raise InputError where one output would be written over another."""
    if len(given) < 2:
        return
    spans = sorted((*_span(array), name) for name, array in given.items())
    for n, (_, stop, name) in enumerate(spans):
        for start, _, other in spans[n + 1 :]:
            if start >= stop:
                break
            if np.shares_memory(given[name], given[other]):
                raise InputError(
                    f"it shares memory with out {other!r}", f"out {name!r}", "give each its own"
                )


def _span(array: NDArray[Any]) -> tuple[int, int]:
    """Addresses of the first byte, and of the one after the last."""
    if array.flags.carray:
        start = address_of(array)
        return start, start + array.nbytes
    return byte_bounds(array)


def _are_as_expected(specs: Sequence[TensorSpec], given: dict[str, Any]) -> bool:
    """The usual case, as for inputs: arrays for all outputs that can be written."""
    for spec in specs:
        value = given.get(spec.name)
        if type(value) is not np.ndarray or value.shape != spec.shape:
            return False
        if value.dtype != element_type(spec.dtype) or not value.flags.writeable:
            return False
    return len(given) == len(specs)


def new_output(spec: TensorSpec) -> NDArray[Any]:
    """An array for an output; raises OutOfMemoryError where there is no room for it."""
    if spec.dtype == "object":
        return np.empty(spec.shape, object)
    output = _output(0, spec)
    memory = _new_memory(output)
    return np.ndarray(output.shape, output.dtype, memory.block, memory.start)


def delivered(
    found: dict[str, NDArray[Any]], given: Mapping[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """``found`` in the arrays that were given; those that were not written in place are copied."""
    for name, array in given.items():
        if found[name] is not array:
            array[...] = found[name]
            found[name] = array
    return found


def _output(number: int, spec: TensorSpec) -> _Output:
    kind = element_type(spec.dtype)
    return _Output(number, spec.name, str(spec), spec.shape, kind, spec.size_bytes)


def _new_memory(output: _Output) -> _Memory:
    """That begins where a cache line does, as values in the arena do."""
    with room_for(output.text, output.size_bytes):
        block = np.empty(output.size_bytes + BUFFER_ALIGNMENT, np.uint8)
    address = block.ctypes.data
    start = -address % BUFFER_ALIGNMENT
    return _Memory(block, start, address + start)


def _references(memory: _Memory) -> int:
    """How many hold the block; every array in it does, and so does every view of such an array."""
    return getrefcount(memory.block)


_UNSHARED: Final = _references(_Memory(np.empty(1, np.uint8), 0, 0))
