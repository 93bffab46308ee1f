"""Addresses of a step's arguments in device memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from autosched.runtime.native_plan import kernel_loops
from autosched.runtime.program import Argument, ExecutionPlan, HostStep, Moving, Place, Step


@dataclass(frozen=True, slots=True)
class Bases:
    """Where the segments of a program begin.

    Attributes:
        segments: addresses of the arena and of the constants.
        inputs: address of each input.
    """

    segments: Mapping[str, int]
    inputs: tuple[int, ...]

    def of(self, place: Place) -> int:
        """The address of a place that is on the device."""
        if place.segment == "input":
            return self.inputs[place.offset]
        return self.segments[place.segment] + place.offset

    def at(self, argument: Argument, iteration: int) -> int:
        """The address of an argument in one iteration of its loop; 0 outside of loops."""
        if not isinstance(argument, Moving):
            return self.of(argument)
        if argument.first is not None:
            if iteration == 0:
                return self.of(argument.first)
            iteration -= 1
        number = iteration % argument.period if argument.period else iteration
        return self.of(argument.place) + argument.start + argument.stride * number


@dataclass(frozen=True, slots=True)
class KernelRun:
    """One execution of a kernel: the number of its step, and which iteration."""

    number: int
    step: Step
    iteration: int


def executions(program: ExecutionPlan, first: int, stop: int) -> Iterator[KernelRun]:
    """The executions of the steps from ``first`` to before ``stop``, loops written out."""
    for loop in kernel_loops(program):
        if first <= loop.first < stop:
            for iteration in range(loop.trips):
                for number in range(loop.first, loop.first + loop.count):
                    step = program.steps[number]
                    assert isinstance(step, Step)
                    yield KernelRun(number, step, iteration)


def inputs_on_device(program: ExecutionPlan) -> tuple[int, ...]:
    """Numbers of the inputs that kernels read."""
    found: set[int] = set()
    for step in program.steps:
        if isinstance(step, HostStep):
            continue
        for argument in step.arguments:
            still = (argument,) if isinstance(argument, Place) else (argument.place, argument.first)
            found |= {p.offset for p in still if p is not None and p.segment == "input"}
    return tuple(sorted(found))
