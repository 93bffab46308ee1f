"""How programs of each kind of machine are kept, checked and loaded: chosen once by the target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.measure.result import CacheState, ConstantState, network_state
from autosched.runtime.errors import ModuleFileError
from autosched.runtime.object_check import check_objects, check_resolved
from autosched.runtime.peaks import Peaks
from autosched.runtime.plan_check import Signature
from autosched.runtime.program import ExecutionPlan
from codegen.backend import CPU, CUDA, Backend, backend_of
from codegen.cuda.compile import recompiled
from codegen.cuda.kernel_files import StoredKernel, kernel_files, stored_kernels
from codegen.errors import ObjectFileError
from codegen.kernel import CompiledKernel

if TYPE_CHECKING:
    from pathlib import Path

    from autosched.runtime.export import ExportedLibrary
    from autosched.runtime.gpu.export import ExportedSource
    from autosched.runtime.loaded import LoadedProgram
    from sketch.target.target import Target

Files = Mapping[str, bytes]
Constants = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class RuntimeBackend:
    """Everything about compiled programs that depends on the kind of machine.

    Attributes:
        code: what makes the kernels.
        suffix: of the name of an object when it is a file.
        in_process: whether kernels are functions of this process.
        workers: what the number of threads of a target counts, for people.
        files: (kernel, seconds that it is thought to take) to its objects by name.
        common: objects that all programs of a target need.
        signatures: how the kernels in objects are called; raises ModuleFileError where one is
            damaged.
        check_here: raises an error unless this machine can run a program with these objects.
        load: (program, constants, objects, ONNX models by name) to what runs.
        peaks: operations a second of a target: measured, or nominal for a GPU; raises TargetError
            where the target is a CPU that this machine is not.
        cache_state: what caches still hold of so many bytes that are read once a run, in turn.
        export: (program, constants, objects, path, prefix of the functions) writes files that run
            without Python.
    """

    code: Backend
    suffix: str
    in_process: bool
    workers: str
    files: Callable[[Any, Callable[[], float]], dict[str, bytes]]
    common: Callable[[Target], dict[str, bytes]]
    signatures: Callable[[Files, Target], Mapping[str, Signature]]
    check_here: Callable[[Files, Target], None]
    load: Callable[[ExecutionPlan, Constants, Files, Files], LoadedProgram]
    peaks: Callable[[Target], Peaks]
    cache_state: Callable[[int, Target], CacheState]
    export: Callable[
        [ExecutionPlan, Constants, Files, Path, str | None], ExportedLibrary | ExportedSource
    ]


def _cpu_files(kernel: CompiledKernel, _: Callable[[], float]) -> dict[str, bytes]:
    return {kernel.symbol: kernel.object_code}


def _cpu_common(target: Target) -> dict[str, bytes]:
    from codegen.driver import build_driver

    driver = build_driver(target)
    return {driver.symbol: driver.object_code}


def _cpu_signatures(objects: Files, target: Target) -> dict[str, Signature]:
    check_objects(objects, target)
    return {symbol: Signature(workspaces=1) for symbol in objects}


def _load_on_cpu(
    program: ExecutionPlan, constants: Constants, objects: Files, payloads: Files
) -> LoadedProgram:
    from autosched.runtime.cpu_program import CpuProgram
    from codegen.kernel import Kernel
    from codegen.llvm.jit import load

    kernels = [
        Kernel(symbol, symbol, code, (), workspace_bytes=0, target=program.target, instructions=0)
        for symbol, code in objects.items()
    ]
    return CpuProgram(program, constants, load(kernels), payloads)


def _cpu_peaks(target: Target) -> Peaks:
    from autosched.runtime.probes.peak import measured_peaks

    return measured_peaks(target)


def _cpu_caches(size: int, target: Target) -> CacheState:
    state: ConstantState = "dram_cold"
    if size <= target.l3_bytes:
        state = "l2_cold" if size > target.l2_bytes * target.threads else "warm"
    return network_state(state) if target.threads > 1 else state


def _export_library(
    program: ExecutionPlan, constants: Constants, objects: Files, path: Path, name: str | None
) -> ExportedLibrary:
    from autosched.runtime.export import export_program

    return export_program(program, constants, objects, path, name)


def _device_files(kernel: Any, expected_s: Callable[[], float]) -> dict[str, bytes]:
    return kernel_files(kernel, expected_s())


def _stored(objects: Files, target: Target) -> dict[str, StoredKernel]:
    try:
        return stored_kernels(objects, target)
    except ObjectFileError as error:
        raise ModuleFileError(error.what, error.where, error.hint) from error


def _device_signatures(objects: Files, target: Target) -> dict[str, Signature]:
    kernels = {symbol: stored.kernel for symbol, stored in _stored(objects, target).items()}
    return {
        symbol: Signature(len(kernel.workspaces), kernel.buffer_bytes)
        for symbol, kernel in kernels.items()
    }


def _load_on_device(
    program: ExecutionPlan, constants: Constants, objects: Files, payloads: Files
) -> LoadedProgram:
    from autosched.runtime.gpu.program import DeviceProgram
    from autosched.runtime.gpu.resident import Resident
    from codegen.gpu.open import device_arch, open_device

    kernels, target = _stored(objects, program.target), program.target
    arch = device_arch(target)
    if arch != target.arch:  # the module is from a machine with another GPU
        target = replace(target, arch=arch)
        kernels = {
            symbol: replace(stored, kernel=recompiled(stored.kernel, arch))
            for symbol, stored in kernels.items()
        }
    device = open_device(target)
    return DeviceProgram(Resident(device, program, constants, kernels), payloads)


def _device_peaks(target: Target) -> Peaks:
    from autosched.runtime.gpu.machine import nominal_machine

    machine = nominal_machine(target, 0)
    return Peaks(machine.flops, machine.units)


def _device_caches(size: int, target: Target) -> CacheState:
    """All processors share the L2, and there is no L3.

    It is taken for full when half of it is: large ones are of two halves, each of which keeps what
    the processors next to it read.
    """
    return "l2_cold" if 2 * size > target.l2_bytes else "warm"


def _export_source(
    program: ExecutionPlan, constants: Constants, objects: Files, path: Path, name: str | None
) -> ExportedSource:
    from autosched.runtime.gpu.export import export_source

    return export_source(program, constants, objects, path, name)


def _nothing(_: Target) -> dict[str, bytes]:
    return {}


def _anywhere(_: Files, __: Target) -> None:
    """Opening the device says whether it is there."""


ON_CPU: Final = RuntimeBackend(
    code=CPU,
    suffix=".o",
    in_process=True,
    workers="threads",
    files=_cpu_files,
    common=_cpu_common,
    signatures=_cpu_signatures,
    check_here=check_resolved,
    load=_load_on_cpu,
    peaks=_cpu_peaks,
    cache_state=_cpu_caches,
    export=_export_library,
)
ON_DEVICE: Final = RuntimeBackend(
    code=CUDA,
    suffix="",
    in_process=False,
    workers="processors",
    files=_device_files,
    common=_nothing,
    signatures=_device_signatures,
    check_here=_anywhere,
    load=_load_on_device,
    peaks=_device_peaks,
    cache_state=_device_caches,
    export=_export_source,
)
_RUNTIMES: Final = (ON_CPU, ON_DEVICE)


def runtime_of(target: Target) -> RuntimeBackend:
    """The back end of a target."""
    code = backend_of(target)
    return next(runtime for runtime in _RUNTIMES if runtime.code is code)
