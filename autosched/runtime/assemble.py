"""From compiled kernels and the values that connect them to a program with placed memory."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from autosched.runtime.errors import AssemblyError
from autosched.runtime.memory import allocate, view
from autosched.runtime.memory_plan import Block, align, plan_memory
from autosched.runtime.program import HostStep, Place, Program, Step, StepInfo, TensorSpec
from sketch.dtypes import is_float

if TYPE_CHECKING:
    from codegen.kernel import Kernel
    from sketch.target import Target

Arrays = Mapping[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One execution of a kernel.

    Attributes:
        kernel: the code; one kernel may serve several calls.
        values: for each of the kernel's arguments the name of a value or of a constant.
        info: what it is, for people.
    """

    kernel: Kernel
    values: tuple[str, ...]
    info: StepInfo

    def bound(self, *scopes: str) -> tuple[str, ...]:
        """Names of the values bound to arguments of these scopes ("input", "output", ...)."""
        pairs = zip(self.kernel.arguments, self.values, strict=True)
        return tuple(value for argument, value in pairs if argument.scope in scopes)


@dataclass(frozen=True, slots=True, eq=False)
class HostBinding:
    """One evaluation on the host.

    Attributes:
        payload: name of the serialized ONNX model.
        inputs: types, named after the values or constants that are read.
        outputs: indices among the results, and types named after the values that are written.
        info: what it is, for people.
    """

    payload: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[tuple[int, TensorSpec], ...]
    info: StepInfo


@dataclass(frozen=True, slots=True, eq=False)
class Wiring:
    """A network of kernel calls and evaluations on the host.

    Attributes:
        inputs: specs of the network's inputs; each is a value of that name.
        outputs: spec of each output and the name of the value or constant that it is; the shapes
            may differ (views), the row-major elements are the same.
        calls: in execution order.
        constants: packed arrays by name.
        sizes: bytes of every value in memory that is no constant; a value without a size is an
            array that only host evaluations write and read.
        parts: values that are written inside a larger value, with its name and their offset in
            bytes; only the larger value is ever read.
    """

    name: str
    target: Target
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[tuple[TensorSpec, str], ...]
    calls: tuple[Call | HostBinding, ...]
    constants: Arrays
    sizes: Mapping[str, int]
    parts: Mapping[str, tuple[str, int]] = field(default_factory=dict)


def assemble(wiring: Wiring) -> tuple[Program, NDArray[np.uint8]]:
    """Place every value, and fill the constants' segment.

    Raises:
        AssemblyError: a call reads what nobody wrote, a value is written twice, or a value has
            another size than the kernel's argument.
    """
    for call in wiring.calls:
        if isinstance(call, Call):
            _check_sizes(call, wiring)
    places, constants_bytes = _place_constants(wiring.constants)
    lifetimes = _lifetimes(wiring)
    in_memory = [Block(n, wiring.sizes[n], *lifetimes[n]) for n in lifetimes if n in wiring.sizes]
    plan = plan_memory(in_memory + _workspaces(wiring))
    places |= {name: Place("arena", offset) for name, offset in plan.offsets.items()}
    others = (name for name in lifetimes if name not in wiring.sizes)
    places |= {name: Place("host", number) for number, name in enumerate(others)}
    places |= {spec.name: Place("input", n) for n, spec in enumerate(wiring.inputs)}
    for name, (whole, offset) in wiring.parts.items():
        places[name] = replace(places[whole], offset=places[whole].offset + offset)
    steps = tuple(_step(number, call, places) for number, call in enumerate(wiring.calls))
    program = Program(
        name=wiring.name,
        target=wiring.target,
        inputs=wiring.inputs,
        outputs=tuple((spec, places[value]) for spec, value in wiring.outputs),
        steps=steps,
        arena_bytes=plan.size_bytes,
        constants_bytes=constants_bytes,
    )
    return program, _fill_constants(wiring.constants, places, constants_bytes)


def check_no_nan(constants: Arrays) -> None:
    """Raise AssemblyError when a floating-point constant holds NaN; a single NaN is deliberate."""
    for name, array in constants.items():
        if array.size > 1 and is_float(str(array.dtype)) and np.isnan(array).any():
            count = int(np.isnan(array).sum())
            raise AssemblyError(
                f"{count} of {array.size} elements are NaN",
                f"constant {name!r}",
                "repair the weights: every output that depends on them would be NaN",
            )


def _check_sizes(call: Call, wiring: Wiring) -> None:
    """A kernel bound to a smaller array would write or read what is not its own."""
    for argument, name in zip(call.kernel.arguments, call.values, strict=True):
        wanted = math.prod(argument.shape) * np.dtype(argument.dtype).itemsize
        constant = wiring.constants.get(name)
        found = wiring.sizes.get(name) if constant is None else constant.nbytes
        if name in wiring.parts:
            whole, offset = wiring.parts[name]
            fits = offset + wanted <= wiring.sizes[whole]
        else:
            fits = found is None or found == wanted
        if not fits:
            raise AssemblyError(
                f"{name!r} has {found} bytes, the kernel's argument {argument.name!r} {wanted}",
                call.info.name,
            )


def _place_constants(constants: Arrays) -> tuple[dict[str, Place], int]:
    places: dict[str, Place] = {}
    offset = 0
    for name, array in constants.items():
        places[name] = Place("constants", offset)
        offset += align(array.nbytes)
    return places, offset


def _fill_constants(
    constants: Arrays, places: Mapping[str, Place], size_bytes: int
) -> NDArray[np.uint8]:
    memory = allocate(size_bytes)
    for name, array in constants.items():
        view(memory, places[name].offset, str(array.dtype), array.shape)[...] = array
    return memory


def _lifetimes(wiring: Wiring) -> dict[str, tuple[int, int]]:
    """First and last step of every value; inputs and constants live elsewhere."""
    outside = {spec.name for spec in wiring.inputs} | set(wiring.constants)
    found: dict[str, tuple[int, int]] = {}
    written: set[str] = set()

    def read(name: str, step: int, where: str) -> None:
        if name in outside:
            return
        if name not in found:
            raise AssemblyError(f"value {name!r} is read before it is written", where)
        found[name] = (found[name][0], step)

    for number, call in enumerate(wiring.calls):
        for name in _read(call):
            read(name, number, call.info.name)
        for name in _written(call):
            if name in written or name in outside:
                raise AssemblyError(f"value {name!r} is written twice", call.info.name)
            written.add(name)
            home = wiring.parts[name][0] if name in wiring.parts else name
            found[home] = (found[home][0] if home in found else number, number)
    for spec, name in wiring.outputs:
        read(name, len(wiring.calls), f"output {spec.name!r}")
    return found


def _read(call: Call | HostBinding) -> tuple[str, ...]:
    if isinstance(call, Call):
        return call.bound("input", "constant")
    return tuple(spec.name for spec in call.inputs)


def _written(call: Call | HostBinding) -> tuple[str, ...]:
    if isinstance(call, Call):
        return call.bound("output")
    return tuple(spec.name for _, spec in call.outputs)


def _workspaces(wiring: Wiring) -> list[Block]:
    return [
        Block(_workspace(number), call.kernel.workspace_bytes, number, number)
        for number, call in enumerate(wiring.calls)
        if isinstance(call, Call) and call.kernel.workspace_bytes
    ]


def _workspace(step: int) -> str:
    return f"workspace of step {step}"


def _step(number: int, call: Call | HostBinding, places: Mapping[str, Place]) -> Step | HostStep:
    if isinstance(call, HostBinding):
        return HostStep(
            call.payload,
            tuple((spec, places[spec.name]) for spec in call.inputs),
            tuple((index, spec, places[spec.name]) for index, spec in call.outputs),
            call.info,
        )
    arguments = [places[name] for name in call.values]
    # A kernel without a workspace still takes the pointer; it never follows it.
    arguments.append(places.get(_workspace(number), Place("arena", 0)))
    return Step(call.kernel.symbol, tuple(arguments), call.info)
