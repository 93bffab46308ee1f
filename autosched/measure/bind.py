"""A kernel with the arrays of its task, and how far its results are off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from numpy.lib.stride_tricks import as_strided

from autosched.measure.errors import MeasureError
from autosched.measure.execution import Array, LoadedKernel
from autosched.measure.result import Failure
from autosched.measure.task_memory import TaskMemory
from codegen.kernel import CompiledKernel, Kernel
from sketch.lower.packing import preparations
from sketch.schedule.decision import DecisionId
from sketch.schedule.sketch import Sketch

Strides = Mapping[str, tuple[int, ...]]


def bind(
    kernel: Kernel,
    memory: TaskMemory,
    sketch: Sketch,
    values: Mapping[DecisionId, int],
    workspace: Array | None = None,
    strides: Strides | None = None,
    in_network: bool = False,
) -> LoadedKernel:
    """Load a kernel with the arrays of its task; constants are packed as the candidate wants them.

    Args:
        kernel: machine code of the candidate.
        memory: the task's arrays.
        sketch: of the candidate.
        values: of the candidate.
        workspace: uint8, at least the kernel's ``workspace_bytes``; None: memory of its own.
        strides: of the arguments that do not lie in one piece, in elements.
        in_network: whether it will be timed as in a network, among the values of other kernels.

    Raises:
        MeasureError: the kernel wants an array that the task does not have.
        TargetError: this machine cannot run it.
    """
    layouts = preparations(sketch, dict(values))
    arrays: list[Array] = []
    constants: dict[int, tuple[Array, ...]] = {}
    for position, argument in enumerate(kernel.arguments):
        if argument.scope == "output":
            arrays.append(memory.output(argument))
            continue
        if strides and argument.name in strides:
            arrays.append(memory.strided(argument, strides[argument.name]))
            continue
        copies = memory.input(argument, layouts.get(argument.name))
        arrays.append(copies[0])
        if argument.scope == "constant":
            constants[position] = copies
    if workspace is None:
        workspace = memory.empty((kernel.workspace_bytes,), "uint8")
    others = _others(kernel, memory, arrays) if in_network else None
    return LoadedKernel(kernel, [*arrays, workspace], constants, others)


def _others(kernel: Kernel, memory: TaskMemory, arrays: Sequence[Array]) -> Array:
    """What a network touches between two uses of the memory of a kernel's outputs: layers next to
    each other are about as large, so as much as the kernel itself; no more than caches hold.
    """
    bound = zip(arrays, kernel.arguments, strict=True)
    size = sum(array.nbytes for array, argument in bound if argument.scope != "constant")
    return memory.others(min(size, kernel.target.l2_bytes * kernel.target.threads))


def copy_again(loaded: LoadedKernel, kernel: Kernel, memory: TaskMemory, strides: Strides) -> None:
    """Copy the inputs that do not lie in one piece again, whose elements are others now.

    Args:
        loaded: what ``bind`` made of ``kernel``.
        kernel: machine code of a candidate.
        memory: the task's arrays.
        strides: as for ``bind``.
    """
    for argument, array in zip(kernel.arguments, loaded.arrays, strict=False):
        if argument.scope != "output" and argument.name in strides:
            memory.copy_apart(argument.name, strides[argument.name], array)


def named_arrays(
    kernel: CompiledKernel,
    memory: TaskMemory,
    sketch: Sketch,
    values: Mapping[DecisionId, int],
    strides: Strides | None = None,
) -> dict[str, Array]:
    """The arrays of a kernel by argument, to be copied to a device; outputs hold what none writes.

    Args:
        kernel: of a candidate.
        memory: the task's arrays.
        sketch: of the candidate.
        values: of the candidate.
        strides: of the arguments that do not lie in one piece, in elements.

    Raises:
        MeasureError: the kernel wants an array that the task does not have.
    """
    layouts = preparations(sketch, dict(values))
    found = {}
    for argument in kernel.arguments:
        name = argument.name
        if argument.scope == "output":
            found[name] = memory.output(argument)
        elif strides and name in strides:
            found[name] = memory.strided(argument, strides[name])
        else:
            found[name] = memory.input(argument, layouts.get(name))[0]
    return found


def result_error(memory: TaskMemory, loaded: LoadedKernel, strides: Strides | None = None) -> float:
    """The relative error of the results in ``loaded``; see ``Reference.check``.

    Args:
        memory: the task's arrays, with the oracle's results.
        loaded: a kernel that has run.
        strides: of the arguments that do not lie in one piece, in elements.

    Raises:
        MeasureError: there is no result of the oracle.
        ExpressionError: the outputs do not fit the oracle's.
    """
    outputs = loaded.arrays[len(loaded.arrays) - 1 - loaded.outputs : -1]
    return named_error(memory, outputs, strides)


def named_error(
    memory: TaskMemory, outputs: Sequence[Array], strides: Strides | None = None
) -> float:
    """The relative error of results in the order of the task's outputs; see ``result_error``.

    Raises:
        MeasureError: the task has no reference to compare with.
    """
    if isinstance(memory.reference, Failure):
        raise MeasureError(f"nothing to compare with: {memory.reference.message}")
    named = dict(zip(memory.dag.output_names, outputs, strict=True))
    steps = strides or {}
    shaped = {n: _shaped(array, memory.shapes[n], steps.get(n)) for n, array in named.items()}
    return float(memory.reference.check(shaped))


def _shaped(array: Array, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> Array:
    if strides is None:
        return array.reshape(shape)
    return as_strided(array, shape, [step * array.itemsize for step in strides])
