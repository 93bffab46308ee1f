"""From compiled kernels and the values that connect them to a program with placed memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.direct_outputs import direct_outputs
from autosched.runtime.errors import AssemblyError
from autosched.runtime.lifetimes import lifetimes_of
from autosched.runtime.memory import allocate, view
from autosched.runtime.memory_plan import ONE_THREAD, Block, Shares, align, plan_memory
from autosched.runtime.overwritten import overwritten
from autosched.runtime.program import (
    Argument,
    ExecutionPlan,
    HostStep,
    Moving,
    Place,
    Step,
)
from autosched.runtime.wiring import Arrays, Call, HostBinding, Inside, Wiring
from autosched.system.element_types import element_bytes
from autosched.system.stray_nans import stray_nans
from codegen.backend import backend_of

if TYPE_CHECKING:
    from codegen.backend import Backend
    from codegen.kernel import CompiledKernel
    from sketch.target.target import Target


def assemble(wiring: Wiring) -> tuple[ExecutionPlan, NDArray[np.uint8]]:
    """Place every value, and fill the constants' segment.

    Raises:
        AssemblyError: a call reads what nobody wrote, a value is written twice, or a value has
            another size than the kernel's argument.
    """
    for number, call in enumerate(wiring.calls):
        if isinstance(call, Call):
            loop = wiring.loop_of(number)
            _check_sizes(call, wiring, 1 if loop is None else loop.trips)
    backend = backend_of(wiring.target)
    alignment = backend.alignment
    places, constants_bytes = _place_constants(wiring.constants, alignment)
    lifetimes = lifetimes_of(wiring)
    direct = direct_outputs(wiring, lifetimes) if backend.writes_outputs else {}
    in_arena = {n: lifetimes[n] for n in lifetimes if n in wiring.sizes and n not in direct}
    before = overwritten(wiring, lifetimes, in_arena.keys())
    in_memory = [
        Block(name, wiring.sizes[name], *span) for name, span in _joined(in_arena, before).items()
    ]
    plan = plan_memory(in_memory + _workspaces(wiring), _shares(wiring.target, backend), alignment)
    places |= {name: Place("arena", offset) for name, offset in plan.offsets.items()}
    places |= {name: places[first] for name, first in before.items()}
    places |= {name: Place("output", number) for name, number in direct.items()}
    others = (name for name in lifetimes if name not in wiring.sizes)
    places |= {name: Place("host", number) for number, name in enumerate(others)}
    places |= {spec.name: Place("input", n) for n, spec in enumerate(wiring.inputs)}
    arguments = _arguments(wiring.parts, places)
    steps = tuple(_step(number, call, arguments) for number, call in enumerate(wiring.calls))
    program = ExecutionPlan(
        name=wiring.name,
        target=wiring.target,
        inputs=wiring.inputs,
        outputs=tuple((spec, _still(arguments[value])) for spec, value in wiring.outputs),
        steps=steps,
        arena_bytes=plan.size_bytes,
        constants_bytes=constants_bytes,
        loops=wiring.loops,
    )
    return program, _fill_constants(wiring.constants, places, constants_bytes)


def _joined(
    lifetimes: Mapping[str, tuple[int, int]], before: Mapping[str, str]
) -> dict[str, tuple[int, int]]:
    """Lifetimes of places: those of values, and of what lies there ``before`` them, are one."""
    spans: dict[str, tuple[int, int]] = {}
    for name, (first, last) in lifetimes.items():
        place = before.get(name, name)
        known_first, known_last = spans.get(place, (first, last))
        spans[place] = min(first, known_first), max(last, known_last)
    return spans


def check_no_nan(constants: Arrays) -> None:
    """Raise AssemblyError when some of a constant is NaN; all of it is deliberate."""
    for name, array in constants.items():
        if count := stray_nans(array):
            raise AssemblyError(
                f"{count} of {array.size} elements are NaN",
                f"constant {name!r}",
                "repair the weights: every output that depends on them would be NaN",
            )


def _check_sizes(call: Call, wiring: Wiring, trips: int) -> None:
    """A kernel bound to a smaller array would write or read what is not its own."""
    for (argument, wanted), name in zip(_sizes(call.kernel).items(), call.values, strict=True):
        part = wiring.parts.get(name)
        names = (name,) if part is None or part.first is None else (name, part.first)
        for value in names:
            found = wiring.size(wiring.home(value))
            if value in wiring.parts:
                fits = found is not None and _fits(value, wanted, found, wiring.parts, trips)
            else:
                fits = found is None or found == wanted
            if not fits:
                raise AssemblyError(
                    f"{value!r} has {found} bytes, the kernel's argument {argument!r} {wanted}",
                    call.info.name,
                )


def _sizes(kernel: CompiledKernel) -> dict[str, int]:
    """Bytes of a kernel's arguments, by name, in order."""
    return {a.name: math.prod(a.shape) * element_bytes(a.dtype) for a in kernel.arguments}


def _fits(name: str, wanted: int, size_bytes: int, parts: Mapping[str, Inside], trips: int) -> bool:
    """Whether a part lies within its home, of ``size_bytes``, in all iterations."""
    low = high = 0
    while name in parts:
        part = parts[name]
        count = min(trips, part.period or trips)
        ends = part.offset, part.offset + part.stride * (count - 1)
        low, high, name = low + min(ends), high + max(ends), part.whole
    return low >= 0 and high + wanted <= size_bytes


def _shares(target: Target, backend: Backend) -> Shares:
    """Half of the second caches is for what a kernel reads, half for what it writes."""
    if not backend.own_caches:
        return ONE_THREAD
    return Shares(target.threads, target.l2_bytes * target.threads // 2)


def _place_constants(constants: Arrays, alignment: int) -> tuple[dict[str, Place], int]:
    places: dict[str, Place] = {}
    offset = 0
    for name, array in constants.items():
        places[name] = Place("constants", offset)
        offset += align(array.nbytes, alignment)
    return places, offset


def _fill_constants(
    constants: Arrays, places: Mapping[str, Place], size_bytes: int
) -> NDArray[np.uint8]:
    memory = allocate(size_bytes)
    for name, array in constants.items():
        view(memory, places[name].offset, str(array.dtype), array.shape)[...] = array
    return memory


def _workspaces(wiring: Wiring) -> list[Block]:
    return [
        Block(_workspace(number, name), size_bytes, number, number)
        for number, call in enumerate(wiring.calls)
        if isinstance(call, Call)
        for name, size_bytes in call.kernel.workspaces
        if size_bytes
    ]


def _workspace(step: int, name: str) -> str:
    return f"{name} of step {step}"


def _step(
    number: int, call: Call | HostBinding, arguments: Mapping[str, Argument]
) -> Step | HostStep:
    if isinstance(call, HostBinding):
        return HostStep(
            call.payload,
            tuple((spec, _still(arguments[spec.name])) for spec in call.inputs),
            tuple((index, spec, _still(arguments[spec.name])) for index, spec in call.outputs),
            call.info,
        )
    bound = [arguments[name] for name in call.values]
    # A kernel takes the pointer to a workspace of no bytes, too; it never follows it.
    names = [_workspace(number, name) for name, _ in call.kernel.workspaces]
    bound += [arguments.get(name, Place("arena", 0)) for name in names]
    sizes = (*_sizes(call.kernel).values(), *(size for _, size in call.kernel.workspaces))
    return Step(call.kernel.symbol, tuple(bound), call.info, sizes)


def _arguments(parts: Mapping[str, Inside], places: Mapping[str, Place]) -> dict[str, Argument]:
    """Where every value is, parts included; ``places`` has those that are no parts."""
    found: dict[str, Argument] = dict(places)

    def argument(name: str) -> Argument:
        if name not in found:
            found[name] = _part(parts[name], argument)
        return found[name]

    for name in parts:
        argument(name)
    return found


def _part(part: Inside, argument: Callable[[str], Argument]) -> Argument:
    whole, start = _still_whole(argument(part.whole))
    first = None if part.first is None else _still(argument(part.first))
    if part.moves or whole.segment in ("input", "output"):  # whose places have no offset
        return Moving(whole, start + part.offset, part.stride, part.period, first)
    return replace(whole, offset=whole.offset + start + part.offset)


def _still_whole(argument: Argument) -> tuple[Place, int]:
    """A place, and how many bytes after it a value begins that lies still."""
    if isinstance(argument, Place):
        return argument, 0
    assert not argument.stride and argument.first is None
    return argument.place, argument.start


def _still(argument: Argument) -> Place:
    """Loops are not nested, and what is outside of them lies still."""
    assert isinstance(argument, Place)
    return argument
