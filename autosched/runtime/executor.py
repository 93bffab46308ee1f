"""Runs a program: binds its steps to memory once, then one native call executes them all."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.memory import allocate, view
from autosched.runtime.program import Place, Program, TensorSpec

_RUN_PLAN: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
_RUN_PLAN_TIMED: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)


class NativeLibrary(Protocol):
    """Loaded machine code: all kernels of a program, ``run_plan`` and ``run_plan_timed``."""

    def address(self, symbol: str) -> int:
        """Address of a function."""
        ...


class Executor:
    """The memory of a program and its native plan.

    The plan is an array of ``{function, table of arguments}``, uint64 ``[steps, 2]``; nothing of
    Python runs between two steps and nothing is allocated.
    """

    def __init__(
        self, program: Program, constants: NDArray[np.uint8], library: NativeLibrary
    ) -> None:
        """``constants``: the bytes of the constants' segment, from ``memory.allocate``."""
        self._segments = {"arena": allocate(program.arena_bytes), "constants": constants}
        self._library = library  # owns the machine code that the plan points to
        self._tables = [self._addresses(step.arguments) for step in program.steps]
        self._plan = np.array(
            [
                (library.address(step.symbol), table.ctypes.data)
                for step, table in zip(program.steps, self._tables, strict=True)
            ],
            dtype=np.uint64,
        ).reshape(len(program.steps), 2)
        self._nanoseconds = np.zeros(len(program.steps), dtype=np.int64)
        self._run_plan: Callable[..., Any] = _RUN_PLAN(library.address("run_plan"))
        self._run_timed: Callable[..., Any] = _RUN_PLAN_TIMED(library.address("run_plan_timed"))
        self._inputs: tuple[NDArray[Any], ...] = ()
        self._readers = [
            (table, index, place.offset)
            for step, table in zip(program.steps, self._tables, strict=True)
            for index, place in enumerate(step.arguments)
            if place.segment == "input"
        ]
        self._specs = program.inputs
        self._outputs = program.outputs

    @property
    def constants(self) -> NDArray[np.uint8]:
        """The bytes of the constants' segment."""
        return self._segments["constants"]

    def bind(self, inputs: Mapping[str, NDArray[Any]]) -> None:
        """Let the steps read these arrays where they are; what is not dense is copied first."""
        self._inputs = tuple(
            np.require(inputs[s.name], requirements=("C", "A")) for s in self._specs
        )
        addresses = [array.ctypes.data for array in self._inputs]
        for table, index, number in self._readers:
            table[index] = addresses[number]

    def results(self) -> dict[str, NDArray[Any]]:
        """New arrays with the outputs of the last run, by name; lets go of its inputs."""
        found = {spec.name: self._array(spec, place).copy() for spec, place in self._outputs}
        self._inputs = ()
        return found

    def run(self) -> None:
        """Execute all steps on the inputs that were bound before."""
        self._run_plan(self._plan.ctypes.data, len(self._plan))

    def run_timed(self) -> NDArray[np.int64]:
        """Execute all steps; nanoseconds of each, int64 ``[steps]``, overwritten by the next."""
        self._run_timed(self._plan.ctypes.data, len(self._plan), self._nanoseconds.ctypes.data)
        return self._nanoseconds

    def _addresses(self, places: tuple[Place, ...]) -> NDArray[np.uint64]:
        """A table of arguments; entries that are inputs are filled in by ``bind``."""
        bases = {name: memory.ctypes.data for name, memory in self._segments.items()}
        addresses = [bases[p.segment] + p.offset if p.segment in bases else 0 for p in places]
        return np.array(addresses, dtype=np.uint64)

    def _array(self, spec: TensorSpec, place: Place) -> NDArray[Any]:
        if place.segment == "input":
            return self._inputs[place.offset].reshape(spec.shape)
        return view(self._segments[place.segment], place.offset, spec.dtype, spec.shape)
