"""``IOBinding``: inputs and outputs of an ``InferenceSession``, bound to arrays once."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import index
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.errors import InputError
from sketch.errors import quoted

_CPU: Final = "cpu"


@dataclass(frozen=True, slots=True)
class OutputValue:
    """An output of a run, as ``onnxruntime.OrtValue`` gives it away."""

    array: NDArray[Any]

    def numpy(self) -> NDArray[Any]:
        """The array."""
        return self.array

    def shape(self) -> list[int]:
        """Its extents."""
        return list(self.array.shape)


class IOBinding:
    """Inputs and outputs for ``InferenceSession.run_with_iobinding``, all in this machine's memory.

    Methods and arguments are those of ``onnxruntime.IOBinding``; an array that is bound is read
    when the session runs.

    Args:
        outputs: names of the model's.
    """

    def __init__(self, outputs: Sequence[str]) -> None:
        self._known = list(outputs)
        self._inputs: dict[str, Any] = {}
        self._wanted: dict[str, NDArray[Any] | None] = {}
        self._owners: dict[str, Any] = {}  # what owns the memory of outputs
        self._results: list[NDArray[Any]] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Take an input from an array."""
        self._inputs[name] = arr_on_cpu

    def bind_ortvalue_input(self, name: str, ortvalue: Any) -> None:
        """Take an input from an ``OrtValue``, or from an output of another run."""
        self._inputs[name] = ortvalue.numpy()

    def bind_input(
        self,
        name: str,
        device_type: str,
        device_id: int,
        element_type: Any,
        shape: Sequence[int],
        buffer_ptr: int,
    ) -> None:
        """Take an input from memory that the caller keeps, dense, in the order of rows.

        Args:
            name: of the input.
            device_type: ``"cpu"``.
            device_id: has no meaning here.
            element_type: NumPy's.
            shape: extents.
            buffer_ptr: address of the first element.

        Raises:
            InputError: another device than ``"cpu"``, or no address, element type or shape.
        """
        _check_device(device_type, f"input {name!r}")
        self._inputs[name] = _array_at(buffer_ptr, element_type, shape, f"input {name!r}")

    def bind_output(
        self,
        name: str,
        device_type: str = _CPU,
        device_id: int = 0,
        element_type: Any = None,
        shape: Sequence[int] | None = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Ask for an output: a new array, or memory that the caller keeps.

        Args:
            name: of the output.
            device_type: ``"cpu"``.
            device_id: has no meaning here.
            element_type: NumPy's; of memory.
            shape: extents; of memory.
            buffer_ptr: address of the first element; None: a new array.

        Raises:
            InputError: no output has that name, another device than ``"cpu"``, or memory without
                its element type and shape.
        """
        where = f"output {name!r}"
        _check_device(device_type, where)
        self._check_known(name)
        if buffer_ptr is None:
            self._wanted[name] = None
            return
        if element_type is None or shape is None:
            raise InputError(
                "memory without a shape or an element type", where, "give element_type and shape"
            )
        self._wanted[name] = _array_at(buffer_ptr, element_type, shape, where)

    def bind_ortvalue_output(self, name: str, ortvalue: Any) -> None:
        """Write an output into the memory of an ``OrtValue``, or of an output of another run.

        Raises:
            InputError: no output has that name, or the memory is not this machine's or holds
                strings.
        """
        if isinstance(ortvalue, OutputValue):
            self._check_known(name)
            self._wanted[name] = ortvalue.array
            return
        kind, shape = ortvalue.numpy().dtype, ortvalue.shape()
        self.bind_output(name, ortvalue.device_name(), 0, kind, shape, ortvalue.data_ptr())
        self._owners[name] = ortvalue

    def clear_binding_inputs(self) -> None:
        """Forget all inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forget all outputs."""
        self._wanted.clear()
        self._owners.clear()

    def synchronize_inputs(self) -> None:
        """Nothing: what is bound is in memory."""

    def synchronize_outputs(self) -> None:
        """Nothing: a run is over when it returns."""

    def get_outputs(self) -> list[OutputValue]:
        """The outputs of the last run, in the order in which they were bound."""
        return [OutputValue(array) for array in self._results]

    def copy_outputs_to_cpu(self) -> list[NDArray[Any]]:
        """The same as arrays."""
        return list(self._results)

    def run(self, run: _Run) -> None:
        """Compute what is bound; ``run``: arrays by name for inputs and arrays for outputs.

        Raises:
            InputError: no output is bound, or as ``run`` raises it.
        """
        if not self._wanted:
            raise InputError(
                "no output is bound",
                "run_with_iobinding",
                f"call bind_output for those that you want of {', '.join(self._known)}",
            )
        given = {name: array for name, array in self._wanted.items() if array is not None}
        results = run(self._inputs, given)
        self._results = [results[name] for name in self._wanted]

    def _check_known(self, name: str) -> None:
        if name not in self._known:
            raise InputError(
                f"no output is named {quoted(name)}",
                hint=f"the model has {', '.join(self._known)}",
            )


_Run = Callable[[Mapping[str, Any], Mapping[str, NDArray[Any]]], Mapping[str, NDArray[Any]]]


def _check_device(kind: str, where: str) -> None:
    if kind != _CPU:
        raise InputError(
            f"memory of device {quoted(kind)}",
            where,
            'a session reads and writes memory of "cpu"; see Module.run_on_device for that of GPUs',
        )


def _array_at(address: int, element_type: Any, shape: Sequence[int], where: str) -> NDArray[Any]:
    """The array that lies at an address; the caller keeps its memory.

    Args:
        address: of the first element.
        element_type: NumPy's.
        shape: extents.
        where: for errors.

    Raises:
        InputError: no memory can have that address, element type or shape.
    """
    try:
        kind = np.dtype(element_type)
        extents = tuple(map(index, shape))
        start = index(address)
    except (TypeError, ValueError) as error:
        raise InputError(f"no address, element type or shape: {error}", where) from error
    if start <= 0 or min(extents, default=0) < 0 or kind.hasobject:
        raise InputError(
            f"no {kind} elements of shape {extents} lie at address {start}",
            where,
            "give the address of the first of these elements, such as array.ctypes.data",
        )
    memory = (ctypes.c_char * (kind.itemsize * math.prod(extents))).from_address(start)
    return np.frombuffer(memory, kind).reshape(extents)
