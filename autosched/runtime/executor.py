"""Runs a program: one native call for each run of kernels, host evaluations between them."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.host.evaluator import HostEvaluator
from autosched.runtime.counters.reader import Reader
from autosched.runtime.host_evaluators import host_evaluators
from autosched.runtime.memory import allocate, view
from autosched.runtime.native_plan import ROW_BYTES, NativeLibrary, NativePlan
from autosched.runtime.outputs import Outputs
from autosched.runtime.program import ExecutionPlan, HostStep, Place, Step, TensorSpec, is_memory
from autosched.system.memory_limit import check_room
from codegen.denormals import flush_flag

_ARGUMENTS: Final = (
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_int,
)
_RUN_PLAN: Final = ctypes.CFUNCTYPE(None, *_ARGUMENTS)
_RUN_PLAN_TIMED: Final = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int
)


@dataclass(frozen=True, slots=True)
class _Kernels:
    """Consecutive kernels: ``count`` rows of the plan from ``row`` on, which is at ``address``."""

    row: int
    count: int
    address: int


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """A host step, ready to be evaluated."""

    step: HostStep
    number: int
    evaluator: HostEvaluator


class Executor:
    """The memory of one call of a program, and its plan.

    Calls at the same time need an executor each; they share the constants.  An executor that an
    exception has left in the middle of a run is as good as any: the next run writes everything that
    it reads.

    Nothing of Python runs between two consecutive kernels and nothing is allocated.

    Attributes:
        target: of the code.
    """

    def __init__(
        self,
        program: ExecutionPlan,
        constants: NDArray[np.uint8],
        library: NativeLibrary,
        payloads: Mapping[str, bytes],
    ) -> None:
        """``constants``: the constants' segment, from ``memory.allocate``; ``payloads``: the
        serialized ONNX models of the host steps, by name.
        """
        outputs = sum(spec.size_bytes for spec, _ in program.outputs)
        check_room("the values and outputs of a module", program.arena_bytes + outputs)
        self._memory = {"arena": allocate(program.arena_bytes), "constants": constants}
        bases = {name: memory.ctypes.data for name, memory in self._memory.items()}
        self._plan = NativePlan(program, bases, library)
        self._segments = _segments(program.steps, self._plan, payloads)
        self._host_times = np.zeros(len(program.steps), dtype=np.int64)
        self._row_times = np.zeros(len(self._plan.steps), dtype=np.int64)
        self._row_times_at = self._row_times.ctypes.data
        self._run_plan: Callable[..., Any] = _RUN_PLAN(library.address("run_plan"))
        self._run_timed: Callable[..., Any] = _RUN_PLAN_TIMED(library.address("run_plan_timed"))
        self._outputs = Outputs(program, bases)
        self._inputs: tuple[NDArray[Any], ...] = ()
        self._results: dict[int, NDArray[Any]] = {}
        self._host: dict[int, NDArray[Any]] = {}
        self._names = tuple(spec.name for spec in program.inputs)
        self.target = program.target
        self._order = program.outputs
        in_memory = all(is_memory(spec, place) for spec, place in program.outputs)
        # The names of outputs, where all of them are in memory.
        self._named = [spec.name for spec, _ in program.outputs] if in_memory else None
        self._flush = flush_flag(program.denormals)
        self._calls: tuple[int, list[tuple[Any, ...]]] = 0, self._calls_of(0)

    def bind(
        self, inputs: Mapping[str, NDArray[Any]], given: Mapping[str, NDArray[Any]] | None = None
    ) -> None:
        """Let the steps read these arrays where they are; what is not dense is copied first.

        Args:
            inputs: arrays by name.
            given: arrays for outputs, by name.  Those that can be are written in place.

        Raises:
            OutOfMemoryError: there is no room for an output.
        """
        arrays = [inputs[name] for name in self._names]
        self._inputs = tuple([a if a.flags.carray else _dense(a) for a in arrays])
        bound = self._outputs.prepare(self._inputs, given or {})
        self._results = bound.arrays
        self._plan.bind(bound.inputs, bound.outputs)

    def results(self) -> dict[str, NDArray[Any]]:
        """The outputs of the last run, by name; lets go of them and its inputs.

        The arrays are new, or those that were given.
        """
        arrays = self._results
        if self._named is not None:
            found = {name: arrays[number] for number, name in enumerate(self._named)}
        else:
            found = {
                spec.name: arrays[number]
                if is_memory(spec, place)
                else self._array(spec, place).copy()
                for number, (spec, place) in enumerate(self._order)
            }
        self._inputs, self._results = (), {}
        self._host.clear()
        return found

    def copied(self, given: Mapping[str, NDArray[Any]]) -> tuple[tuple[int, str], ...]:
        """Numbers and names of those ``given`` arrays that runs do not write in place."""
        return tuple(
            (number, spec.name)
            for number, (spec, _) in enumerate(self._order)
            if self._results.get(number) is not given[spec.name]
        )

    def output(self, number: int) -> NDArray[Any]:
        """What the last run has made of an output; the next one overwrites it."""
        spec, place = self._order[number]
        return self._results[number] if is_memory(spec, place) else self._array(spec, place)

    def run(self, team: int = 0) -> None:
        """Execute all steps on the inputs that were bound before, in the calling thread.

        Args:
            team: address of the threads that help it; 0: none.

        Raises:
            HostError: a host step failed.
        """
        prepared_for, calls = self._calls
        if team != prepared_for:
            calls = self._calls_of(team)
            self._calls = team, calls
        for segment, call in zip(self._segments, calls, strict=True):
            if call:
                self._run_plan(*call)
            else:
                assert isinstance(segment, _Evaluation)
                self._evaluate(segment)
        if not calls or not calls[-1]:
            self._copy_outputs()

    def _calls_of(self, team: int) -> list[tuple[Any, ...]]:
        """The arguments of each segment's call, as ctypes has them, which is a third of a call; of
        one on the host, none.
        """
        copies, last = self._outputs, len(self._segments) - 1
        found: list[tuple[Any, ...]] = []
        for number, segment in enumerate(self._segments):
            if not isinstance(segment, _Kernels):
                found.append(())
                continue
            count = copies.count if number == last else 0
            values = segment.address, segment.count, team, copies.address, count, self._flush
            found.append(tuple(kind(v) for kind, v in zip(_ARGUMENTS, values, strict=True)))
        return found

    @property
    def arena(self) -> NDArray[np.uint8]:
        """The memory that values lie in between their steps."""
        return self._memory["arena"]

    def run_steps(self, first: int, stop: int, team: int = 0) -> None:
        """Execute the steps from ``first`` to ``stop`` alone: kernels outside of loops."""
        row, end = map(int, np.searchsorted(self._plan.steps, (first, stop)))
        address = self._plan.address + row * ROW_BYTES
        self._run_plan(address, end - row, team, None, 0, self._flush)

    def outputs(self) -> tuple[NDArray[Any], ...]:
        """What steps have left in the outputs; overwritten by the next."""
        self._copy_outputs()
        return tuple(self._results[number] for number in range(len(self._order)))

    def run_timed(self, team: int = 0) -> None:
        """Execute all steps; ``step_nanoseconds`` tells what each has taken."""
        for segment in self._segments:
            if isinstance(segment, _Kernels):
                times = self._row_times_at + segment.row * self._row_times.itemsize
                self._run_timed(segment.address, segment.count, times, team, self._flush)
            else:
                start = time.perf_counter_ns()
                self._evaluate(segment)
                self._host_times[segment.number] = time.perf_counter_ns() - start
        self._copy_outputs()

    def step_nanoseconds(self) -> NDArray[np.int64]:
        """What the steps of the last ``run_timed`` have taken, int64 ``[steps]``.

        A step of a loop takes the time of all its iterations.
        """
        found = self._host_times.copy()
        np.add.at(found, self._plan.steps, self._row_times)
        return found

    def run_counted(self, reader: Reader, team: int = 0) -> NDArray[np.int64]:
        """Execute all steps; by how much each changed the counters, int64 ``[steps, files, 3]``."""
        readings: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        for segment in self._segments:
            if isinstance(segment, _Kernels):
                steps = self._plan.steps[segment.row : segment.row + segment.count]
                found = reader.run_plan(segment.address, segment.count, team, self._flush)
                readings.append((steps, np.diff(found, axis=0)))
            else:
                before = reader.read()
                self._evaluate(segment)
                number = np.array([segment.number])
                readings.append((number, (reader.read() - before)[np.newaxis]))
        self._copy_outputs()
        shape = readings[0][1].shape[1:] if readings else (0, 3)
        differences = np.zeros((len(self._host_times), *shape), np.int64)
        for steps, changes in readings:
            np.add.at(differences, steps, changes)
        return differences

    def _copy_outputs(self) -> None:
        if self._outputs.count == 0:
            return
        self._run_plan(None, 0, None, self._outputs.address, self._outputs.count, self._flush)

    def _evaluate(self, segment: _Evaluation) -> None:
        step, evaluator = segment.step, segment.evaluator
        values = evaluator.run([self._array(spec, place) for spec, place in step.inputs])
        for index, spec, place in step.outputs:
            value = evaluator.result(values, index, spec.shape, spec.dtype)
            if place.segment == "host":
                # A copy: the evaluation may have returned its own input, which lies in the arena.
                self._host[place.offset] = value.copy()
            else:
                self._array(spec, place)[...] = value

    def _array(self, spec: TensorSpec, place: Place) -> NDArray[Any]:
        if place.segment == "input":
            return self._inputs[place.offset].reshape(spec.shape)
        if place.segment == "output":
            return self._results[place.offset].reshape(spec.shape)
        if place.segment == "host":
            return self._host[place.offset].reshape(spec.shape)
        return view(self._memory[place.segment], place.offset, spec.dtype, spec.shape)


def _dense(array: NDArray[Any]) -> NDArray[Any]:
    """``array``, or a copy that kernels can read."""
    flags = array.flags
    if flags.c_contiguous and flags.aligned:
        return array
    return np.require(array, requirements=("C", "A"))


def _segments(
    steps: Sequence[Step | HostStep], plan: NativePlan, payloads: Mapping[str, bytes]
) -> tuple[_Kernels | _Evaluation, ...]:
    """The steps, consecutive kernels taken together."""
    segments: list[_Kernels | _Evaluation] = []
    evaluators = host_evaluators(steps, payloads)
    for native, members in groupby(enumerate(steps), key=lambda pair: isinstance(pair[1], Step)):
        group = list(members)
        if native:
            row, stop = map(int, np.searchsorted(plan.steps, (group[0][0], group[-1][0] + 1)))
            segments.append(_Kernels(row, stop - row, plan.address + row * ROW_BYTES))
            continue
        for number, step in group:
            assert isinstance(step, HostStep)
            segments.append(_Evaluation(step, number, evaluators[step.payload]))
    return tuple(segments)
