"""Whether a kernel that nobody measured computes what its program says.

A measured candidate was compared with the oracle when it was measured.  What the draft model chose
never ran before: it runs here once, on random inputs, and a few hundred of its results are compared
with the oracle's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import numpy as np

from autosched.measure.bind import bind, copy_again, named_arrays, named_error, result_error
from autosched.measure.execution import LoadedKernel, aligned_empty
from autosched.measure.inputs import random_inputs
from autosched.measure.options import MeasureOptions
from autosched.measure.task_memory import TaskMemory
from autosched.measure.variant_errors import as_a_whole, memories_of_means, of_variant
from autosched.runtime.backend import runtime_of
from autosched.runtime.team_pool import shared_teams
from autosched.tasks.candidate import Candidate
from autosched.tasks.compulsory_traffic import compulsory_bytes
from autosched.tasks.spec import TaskSpec
from codegen.backend import backend_of
from codegen.cuda.kernel import CudaKernel
from codegen.gpu.device_kernel import DeviceKernel
from codegen.gpu.errors import DeviceError, DeviceMemoryError
from codegen.kernel import CompiledKernel, Kernel
from sketch.errors import AutoschedError
from sketch.oracle.sampled import Sampling, sample_reference
from sketch.target.target import Target

if TYPE_CHECKING:
    from codegen.gpu.protocol import Device
    from sketch.lang.prepared import Allocator

# Cheap beside compiling: corners, and a few points of each face and tile boundary.  A
# stage that is computed whole needs all of what it reads: none is.
_SAMPLING: Final = Sampling(8, per_face=1, per_tile=2, tiles=(8, 32), whole_below_flops=-1.0)
_SEED: Final = 0
# Random numbers of an input.  A prime: no extent or tile is a multiple of it, so an element of a
# wrong row is another number.
_DISTINCT: Final = 8191
# Drawing larger inputs would take longer than compiling.
_MOST_BYTES: Final = 1 << 28


class WrongResultError(AutoschedError):
    """A compiled kernel computes something else than its program says."""


def runs_here(target: Target) -> bool:
    """Whether code for ``target`` can run in this process, or on a device of this machine."""
    return backend_of(target).missing(target) is None


def checkable(task: TaskSpec) -> bool:
    """Whether kernels of a task can run here, on arrays of 256 MB at most."""
    return runs_here(task.target) and compulsory_bytes(task.dag) <= _MOST_BYTES


@contextmanager
def device_of(target: Target) -> Iterator[Device | None]:
    """The device that kernels of ``target`` are checked on; None: there is none, or no need."""
    device = None if runtime_of(target).in_process else _device(target)
    try:
        yield device
    finally:
        if device is not None:
            device.close()


def _device(target: Target) -> Device | None:
    from codegen.gpu.open import open_device

    if not runs_here(target):
        return None
    try:
        return open_device(target)
    except DeviceError:  # of another architecture, or full: compiling does not need it
        return None


def check_kernel(
    task: TaskSpec,
    candidate: Candidate,
    kernel: CompiledKernel,
    strides: Mapping[str, tuple[int, ...]] | None = None,
    memory: TaskMemory | None = None,
    device: Device | None = None,
) -> None:
    """Run ``kernel`` once on random inputs, and compare a sample of its results with the oracle.

    Does nothing for a target whose code cannot run on this machine, and for arrays of more than
    256 MB.

    Args:
        task: whose reference program says what is right.
        candidate: what the kernel was made from.
        kernel: of ``task.target``.
        strides: of the arguments that do not lie in one piece, in elements.
        memory: what ``expected`` gave for the task; None: it is asked here.
        device: that of ``device_of``, where the kernel is for a GPU; without one it is not run.

    Raises:
        WrongResultError: a result is off by more than measuring allows.
    """
    if not checkable(task):
        return
    if device is None and not runtime_of(task.target).in_process:
        return
    memory = of_variant(expected(task) if memory is None else memory, candidate.sketch)
    if isinstance(kernel, Kernel):
        loaded = bind(kernel, memory, candidate.sketch, candidate.values, strides=strides)
        _run(loaded, task.target.threads)
        error = result_error(memory, loaded, strides)
    else:
        assert device is not None and isinstance(kernel, CudaKernel)
        arrays = named_arrays(kernel, memory, candidate.sketch, candidate.values, strides)
        try:
            with DeviceKernel(device, kernel, arrays) as on_device:
                outputs = list(on_device.run().values())
        except DeviceMemoryError:  # others have it now
            return
        error = named_error(memory, outputs, strides)
    _refuse_above_tolerance(error, task, candidate)


def kernel_errors(
    task: TaskSpec,
    candidate: Candidate,
    kernel: Kernel,
    strides: Mapping[str, tuple[int, ...]] | None = None,
    memories: Iterable[TaskMemory] | None = None,
) -> tuple[float, ...]:
    """Check a kernel of this CPU on the data of ``measure.variant_errors``: its errors.

    The constants are the same for all means: they are packed once, and the kernel is loaded once.

    Args:
        task: whose reference program says what is right.
        candidate: what the kernel was made from.
        kernel: of ``task.target``.
        strides: of the arguments that do not lie in one piece, in elements.
        memories: what ``of_means`` gave for the task; None: it is asked here.

    Raises:
        WrongResultError: a result is off by more than measuring allows, with the mean 0.
    """
    found: list[float] = []
    loaded: LoadedKernel | None = None
    for memory in of_means(task) if memories is None else memories:
        if loaded is None:
            loaded = bind(kernel, memory, candidate.sketch, candidate.values, strides=strides)
        elif strides:
            copy_again(loaded, kernel, memory, strides)
        _run(loaded, task.target.threads)
        found.append(min(1.0, result_error(as_a_whole(memory), loaded, strides)))
    assert loaded is not None
    error = result_error(of_variant(memory, candidate.sketch), loaded, strides)
    _refuse_above_tolerance(error, task, candidate)
    return tuple(reversed(found))


def _refuse_above_tolerance(error: float, task: TaskSpec, candidate: Candidate) -> None:
    """Raises WrongResultError where results are off by more than measuring allows."""
    if not error <= MeasureOptions().tolerance:
        schedule = f"sketch {candidate.sketch.key}, {dict(candidate.values)}"
        raise WrongResultError(
            f"the code of an unmeasured schedule is wrong: relative error {error:.3g}",
            f"task {task.name} ({task.key}), {schedule}",
            "please report it; tuning takes only right schedules, check=False does not look",
        )


def expected(task: TaskSpec, empty: Allocator = aligned_empty) -> TaskMemory:
    """Random inputs of a task, and a sample of the oracle's results; ``empty`` makes the arrays."""
    dag = task.dag
    inputs = random_inputs(dag, _SEED, _DISTINCT, empty)
    oracle = sample_reference(dag, inputs, np.random.default_rng(_SEED), _SAMPLING)
    return TaskMemory(dag, inputs, oracle, empty=empty)


def of_means(task: TaskSpec, empty: Allocator = aligned_empty) -> Iterator[TaskMemory]:
    """``expected`` for each mean that errors are measured with; the last one is that of checks."""
    return memories_of_means(task.dag, _SEED, empty)


def _run(loaded: LoadedKernel, threads: int) -> None:
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(loaded.address)
    with shared_teams(threads).team() as team:
        call(ctypes.addressof(loaded.blocks[0]), None if team is None else team.address)
