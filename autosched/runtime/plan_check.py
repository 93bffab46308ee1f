"""Whether a program that was read from a file can be run: everything it names is there, and every
byte that a step takes lies in the memory it is said to lie in.

The machine code itself is believed: it may do anything (see ``archive``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from autosched.runtime.errors import ModuleFileError
from autosched.runtime.program import (
    Argument,
    ExecutionPlan,
    HostStep,
    Moving,
    Place,
    RepeatedSteps,
    Step,
    TensorSpec,
)
from autosched.system.element_types import element_type
from codegen.backend import backend_of

_MOST_DIMENSIONS: Final = 32
_MOST_BYTES: Final = 1 << 48
_MOST_ROWS: Final = 1 << 24  # executions of kernels in one run
_MOST_RESULTS: Final = 1 << 16  # of one evaluation on the host


@dataclass(frozen=True, slots=True)
class Signature:
    """How a kernel is called.

    Attributes:
        workspaces: how many of its last arguments are workspaces.
        sizes: bytes of each argument; None: the plan is believed.
    """

    workspaces: int
    sizes: tuple[int, ...] | None = None


def check_program(
    program: ExecutionPlan, kernels: Mapping[str, Signature], payloads: Collection[str]
) -> None:
    """Check a program against itself, its kernels by symbol, and the names of its host payloads.

    Raises:
        ModuleFileError: it cannot be run; says what does not fit.
    """
    _Check(program, kernels, payloads).run()


class _Check:
    """The checks of one program; ``known`` are the host arrays that were written so far."""

    def __init__(
        self, program: ExecutionPlan, kernels: Mapping[str, Signature], payloads: Collection[str]
    ) -> None:
        self._program, self._kernels, self._payloads = program, kernels, payloads
        backend = backend_of(program.target)
        self._alignment, self._writes_outputs = backend.alignment, backend.writes_outputs
        self._sizes = {"arena": program.arena_bytes, "constants": program.constants_bytes}
        self._known: set[int] = set()

    def run(self) -> None:
        """All of them."""
        program = self._program
        for specs, what in ((program.inputs, "inputs"), (self._outputs(), "outputs")):
            _check_names(specs, what)
            for spec in specs:
                _check_spec(spec)
        trips = self._trips(program.loops)
        for number, step in enumerate(program.steps):
            where = f"step {number} ({step.info.name})"
            if isinstance(step, Step):
                self._check_kernel(step, trips.get(number, 1), where)
            else:
                self._check_host(step, where)
        for spec, place in program.outputs:
            self._check_value(spec, place, f"output {spec.name!r}")

    def _outputs(self) -> tuple[TensorSpec, ...]:
        return tuple(spec for spec, _ in self._program.outputs)

    def _trips(self, loops: tuple[RepeatedSteps, ...]) -> dict[int, int]:
        """How often each step in a loop is executed."""
        found: dict[int, int] = {}
        after, steps = 0, self._program.steps
        rows = len(steps)
        for loop in loops:
            where = f"loop {loop}"
            if loop.first < after or loop.count < 1 or loop.trips < 1:
                raise _damaged("loops overlap or are empty", where)
            after = loop.first + loop.count
            if after > len(steps):
                raise _damaged(f"there are {len(steps)} steps", where)
            rows += loop.trips * loop.count
            if rows > _MOST_ROWS:
                raise _damaged(f"more than {_MOST_ROWS} kernels in one run", where)
            for number in range(loop.first, after):
                if not isinstance(steps[number], Step):
                    raise _damaged("a host step in a loop", where)
                found[number] = loop.trips
        return found

    def _check_kernel(self, step: Step, trips: int, where: str) -> None:
        kernel = self._kernels.get(step.symbol)
        if kernel is None:
            raise _damaged(f"there is no code {step.symbol!r}", where)
        if len(step.sizes) != len(step.arguments) or not step.arguments:
            raise _damaged(f"{len(step.arguments)} arguments with {len(step.sizes)} sizes", where)
        if len(step.arguments) < kernel.workspaces or kernel.sizes not in (None, step.sizes):
            raise _damaged("its code takes other arguments", where)
        for argument, size in zip(step.arguments, step.sizes, strict=True):
            for place, low, high in _extremes(argument, trips):
                self._check_bytes(place, low, high + size, where)
        for workspace in step.arguments[len(step.arguments) - kernel.workspaces :]:
            if not isinstance(workspace, Place) or workspace.segment != "arena":
                raise _damaged("its workspace is not in the arena", where)
            if workspace.offset % self._alignment:
                raise _damaged(f"its workspace is not aligned to {self._alignment} bytes", where)

    def _check_bytes(self, place: Place, low: int, high: int, where: str) -> None:
        """That ``low`` to ``high`` bytes after a place are the program's own."""
        if place.segment == "host":
            raise _damaged("a kernel reads an array of the host", where)
        if place.segment == "input":
            first, size = 0, self._input(place, where).size_bytes
        elif place.segment == "output":
            first, size = 0, self._output(place, where).size_bytes
        else:
            first, size = place.offset, self._sizes[place.segment]
        if first + low < 0 or first + high > size:
            raise _damaged(
                f"bytes {first + low} to {first + high} of {size} in segment {place.segment!r}",
                where,
            )

    def _check_host(self, step: HostStep, where: str) -> None:
        if step.payload not in self._payloads:
            raise _damaged(f"there is no payload {step.payload!r}", where)
        for spec, place in step.inputs:
            _check_spec(spec)
            self._check_value(spec, place, where)
        for number, spec, place in step.outputs:
            _check_spec(spec)
            if number >= _MOST_RESULTS:
                raise _damaged(f"result {number} of an evaluation", where)
            if place.segment not in ("arena", "output", "host"):
                raise _damaged(f"it writes to segment {place.segment!r}", where)
            if place.segment == "host":
                self._known.add(place.offset)
            self._check_value(spec, place, where)

    def _check_value(self, spec: TensorSpec, place: Place, where: str) -> None:
        """That an array can be seen at a place."""
        if place.segment == "host":
            if place.offset not in self._known:
                raise _damaged(f"host array {place.offset} is read before it is written", where)
            return
        if spec.dtype == "object" and place.segment != "input":
            raise _damaged(f"{spec} in segment {place.segment!r}", where)
        if place.segment in ("input", "output"):
            whole = self._input if place.segment == "input" else self._output
            given = whole(place, where)
            if (given.size, given.dtype) != (spec.size, spec.dtype):
                raise _damaged(f"{spec} lies in {place.segment} {given}", where)
            return
        self._check_bytes(place, 0, spec.size_bytes, where)

    def _output(self, place: Place, where: str) -> TensorSpec:
        """The output whose array a place is; others have no array while the steps run."""
        outputs = self._program.outputs
        own = place.offset < len(outputs) and outputs[place.offset][1] == place
        if not own or not self._writes_outputs:
            raise _damaged(f"output {place.offset} lies elsewhere", where)
        return outputs[place.offset][0]

    def _input(self, place: Place, where: str) -> TensorSpec:
        inputs = self._program.inputs
        if place.offset >= len(inputs):
            raise _damaged(f"input {place.offset} of {len(inputs)}", where)
        return inputs[place.offset]


def _extremes(argument: Argument, trips: int) -> Iterator[tuple[Place, int, int]]:
    """Places with the least and the largest number of bytes after them where a value begins."""
    if not isinstance(argument, Moving):
        yield argument, 0, 0
        return
    if argument.first is not None:
        yield argument.first, 0, 0
    count = trips - (argument.first is not None)
    if count > 0:
        steps = min(count, argument.period or count) - 1
        ends = (argument.start, argument.start + argument.stride * steps)
        yield argument.place, min(ends), max(ends)


def _check_names(specs: tuple[TensorSpec, ...], what: str) -> None:
    names = [spec.name for spec in specs]
    if len(set(names)) < len(names):
        raise _damaged(f"two of one name: {', '.join(names)[:200]}", what)


def _check_spec(spec: TensorSpec) -> None:
    where = f"value {spec.name!r}"
    try:
        kind = element_type(spec.dtype)
    except (TypeError, ValueError) as error:
        raise _damaged(f"no element type {spec.dtype!r}", where) from error
    if str(kind) != spec.dtype or kind.itemsize == 0 or kind.fields or kind.subdtype:
        raise _damaged(f"no element type {spec.dtype!r}", where)
    if len(spec.shape) > _MOST_DIMENSIONS or spec.size_bytes > _MOST_BYTES:
        raise _damaged(f"a shape of {spec.shape}", where)


def _damaged(what: str, where: str) -> ModuleFileError:
    return ModuleFileError(f"the module's plan is damaged: {what}", where)
