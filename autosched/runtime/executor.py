"""Runs a program: one native call for each run of kernels, host evaluations between them."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from autosched.host_engines import fastest_engine
from autosched.host_evaluation import HostEvaluator
from autosched.memory_room import room_for
from autosched.runtime.counters.reader import Reader
from autosched.runtime.memory import allocate, view
from autosched.runtime.program import HostStep, Place, Program, Step, TensorSpec

_RUN_PLAN: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
_RUN_PLAN_TIMED: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)

_PLAN_ROW_BYTES: Final = 16


class NativeLibrary(Protocol):
    """Loaded machine code: all kernels of a program, ``run_plan`` and ``run_plan_timed``."""

    def address(self, symbol: str) -> int:
        """Address of a function."""
        ...


@dataclass(frozen=True, slots=True)
class _Kernels:
    """Consecutive kernels: ``count`` rows of the plan from ``row`` on, steps from ``step`` on."""

    row: int
    count: int
    step: int


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """A host step, ready to be evaluated."""

    step: HostStep
    number: int
    evaluator: HostEvaluator


class Executor:
    """The memory of a program and its plan.

    The native plan is an array of ``{function, table of arguments}``, uint64 ``[kernels, 2]``;
    nothing of Python runs between two consecutive kernels and nothing is allocated.
    """

    def __init__(
        self,
        program: Program,
        constants: NDArray[np.uint8],
        library: NativeLibrary,
        payloads: Mapping[str, bytes],
    ) -> None:
        """``constants``: the constants' segment, from ``memory.allocate``; ``payloads``: the
        serialized ONNX models of the host steps, by name.
        """
        self._memory = {"arena": allocate(program.arena_bytes), "constants": constants}
        self._library = library  # owns the machine code that the plan points to
        kernels = program.kernel_steps
        self._tables = [self._addresses(step.arguments) for step in kernels]
        self._plan = np.array(
            [
                (library.address(step.symbol), table.ctypes.data)
                for step, table in zip(kernels, self._tables, strict=True)
            ],
            dtype=np.uint64,
        ).reshape(len(kernels), 2)
        self._segments = _segments(program.steps, payloads)
        self._nanoseconds = np.zeros(len(program.steps), dtype=np.int64)
        self._plan_address = self._plan.ctypes.data
        self._times_address = self._nanoseconds.ctypes.data
        self._run_plan: Callable[..., Any] = _RUN_PLAN(library.address("run_plan"))
        self._run_timed: Callable[..., Any] = _RUN_PLAN_TIMED(library.address("run_plan_timed"))
        self._inputs: tuple[NDArray[Any], ...] = ()
        self._host: dict[int, NDArray[Any]] = {}
        self._readers = [
            (table, index, place.offset)
            for step, table in zip(kernels, self._tables, strict=True)
            for index, place in enumerate(step.arguments)
            if place.segment == "input"
        ]
        self._specs = program.inputs
        self._outputs = program.outputs

    @property
    def constants(self) -> NDArray[np.uint8]:
        """The bytes of the constants' segment."""
        return self._memory["constants"]

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
        found = {}
        for spec, place in self._outputs:
            with room_for(f"output {spec}", spec.size_bytes):
                found[spec.name] = self._array(spec, place).copy()
        self._inputs = ()
        self._host.clear()
        return found

    def run(self) -> None:
        """Execute all steps on the inputs that were bound before.

        Raises:
            HostError: a host step failed.
        """
        for segment in self._segments:
            if isinstance(segment, _Kernels):
                plan = self._plan_address + segment.row * _PLAN_ROW_BYTES
                self._run_plan(plan, segment.count)
            else:
                self._evaluate(segment)

    def run_timed(self) -> NDArray[np.int64]:
        """Execute all steps; nanoseconds of each, int64 ``[steps]``, overwritten by the next."""
        for segment in self._segments:
            if isinstance(segment, _Kernels):
                plan = self._plan_address + segment.row * _PLAN_ROW_BYTES
                times = self._times_address + segment.step * self._nanoseconds.itemsize
                self._run_timed(plan, segment.count, times)
            else:
                start = time.perf_counter_ns()
                self._evaluate(segment)
                self._nanoseconds[segment.number] = time.perf_counter_ns() - start
        return self._nanoseconds

    def run_counted(self, reader: Reader) -> NDArray[np.int64]:
        """Execute all steps; by how much each changed the counters, int64 ``[steps, files, 3]``."""
        differences = []
        for segment in self._segments:
            if isinstance(segment, _Kernels):
                plan = self._plan_address + segment.row * _PLAN_ROW_BYTES
                differences.append(np.diff(reader.run_plan(plan, segment.count), axis=0))
            else:
                before = reader.read()
                self._evaluate(segment)
                differences.append((reader.read() - before)[np.newaxis])
        return np.concatenate(differences) if differences else np.zeros((0, 0, 3), np.int64)

    def _evaluate(self, segment: _Evaluation) -> None:
        step, evaluator = segment.step, segment.evaluator
        values = evaluator.run([self._array(spec, place) for spec, place in step.inputs])
        for index, spec, place in step.outputs:
            value = evaluator.typed(values[index], spec.shape, spec.dtype)
            if place.segment == "host":
                # A copy: the evaluation may have returned its own input, which lies in the arena.
                self._host[place.offset] = value.copy()
            else:
                self._array(spec, place)[...] = value

    def _addresses(self, places: tuple[Place, ...]) -> NDArray[np.uint64]:
        """A table of arguments; entries that are inputs are filled in by ``bind``."""
        bases = {name: memory.ctypes.data for name, memory in self._memory.items()}
        addresses = [bases[p.segment] + p.offset if p.segment in bases else 0 for p in places]
        return np.array(addresses, dtype=np.uint64)

    def _array(self, spec: TensorSpec, place: Place) -> NDArray[Any]:
        if place.segment == "input":
            return self._inputs[place.offset].reshape(spec.shape)
        if place.segment == "host":
            return self._host[place.offset].reshape(spec.shape)
        return view(self._memory[place.segment], place.offset, spec.dtype, spec.shape)


def _segments(
    steps: Sequence[Step | HostStep], payloads: Mapping[str, bytes]
) -> tuple[_Kernels | _Evaluation, ...]:
    """The steps, consecutive kernels taken together."""
    segments: list[_Kernels | _Evaluation] = []
    evaluators: dict[str, HostEvaluator] = {}
    row = 0
    for native, members in groupby(enumerate(steps), key=lambda pair: isinstance(pair[1], Step)):
        group = list(members)
        if native:
            segments.append(_Kernels(row, len(group), group[0][0]))
            row += len(group)
            continue
        for number, step in group:
            assert isinstance(step, HostStep)
            if step.payload not in evaluators:
                evaluators[step.payload] = HostEvaluator(
                    step.info.op, payloads[step.payload], fastest_engine
                )
            segments.append(_Evaluation(step, number, evaluators[step.payload]))
    return tuple(segments)
