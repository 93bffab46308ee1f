"""The back ends: from a loop nest to a kernel, chosen once by the target."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from codegen import build as cpu
from codegen.gpu.alignment import DEVICE_ALIGNMENT, WIDEST
from codegen.kernel import BUFFER_ALIGNMENT, SYMBOL, CompiledKernel
from codegen.passes.restride import loosen, restride
from sketch.errors import TargetError
from sketch.nest.loopnest import LoopNest
from sketch.rules.backend import CPU_SKETCHES, GPU_SKETCHES, SketchBackend, sketch_backend
from sketch.target.target import Target


@dataclass(frozen=True, slots=True)
class Backend:
    """Everything that depends on the kind of machine.

    Attributes:
        name: for messages.
        sketches: rules, algorithms and feasibility.
        alignment: bytes; arenas and constants start at a multiple of it, and so do values in them.
        argument_alignment: bytes; kernels count on it for arguments that are not loose; 1: they do
            not.
        writes_outputs: whether kernels write into arrays of whoever runs a program; else outputs
            lie in the arena.
        own_caches: whether each thread of the target has caches of its own.
        uneven: whether others may share its cores unseen: its speed changes from moment to moment.
        build: (nest, target, symbol) to a kernel; raises LoweringError, CodegenError, TargetError.
        check: raises InfeasibleError on a kernel that is not worth timing.
        worker: the role of the process that times kernels, see ``autosched.measure.zygote_main``.
        missing: what is missing before kernels of a target are timed and networks run here, as a
            sentence; None: nothing is.
        remedy: what to do then.
    """

    name: str
    sketches: SketchBackend
    alignment: int
    argument_alignment: int
    writes_outputs: bool
    own_caches: bool
    uneven: bool
    build: Callable[[LoopNest, Target, str], CompiledKernel]
    check: Callable[[Any], None]
    worker: str
    missing: Callable[[Target], str | None]
    remedy: str


def _nothing(_: Any) -> None:
    """Nothing to check."""


# Only who makes code for a GPU loads what makes it: processes that measure on a CPU start sooner.
def _build_cuda(nest: LoopNest, target: Target, symbol: str) -> CompiledKernel:
    from codegen.cuda.build import build

    return build(nest, target, symbol)


def _check_cuda(kernel: Any) -> None:
    from codegen.cuda.resources import check_resources

    check_resources(kernel)


def _missing_cpu(target: Target) -> str | None:
    from codegen.llvm.jit import missing_instructions

    return missing_instructions(target)


def _missing_gpu(target: Target) -> str | None:
    from codegen.gpu.missing import missing_device

    return missing_device(target)


CPU: Final = Backend(
    "cpu",
    CPU_SKETCHES,
    BUFFER_ALIGNMENT,
    1,
    True,
    True,
    True,
    cpu.build,
    _nothing,
    "time-cpu",
    _missing_cpu,
    "take a target of this machine; `autosched compile` writes code for others",
)
CUDA: Final = Backend(
    "cuda",
    GPU_SKETCHES,
    DEVICE_ALIGNMENT,
    WIDEST,
    False,
    False,
    False,
    _build_cuda,
    _check_cuda,
    "time-gpu",
    _missing_gpu,
    "use a machine with an NVIDIA GPU, or the emulated device: --device emulated, "
    'Target(..., device="emulated")',
)
BACKENDS: Final = (CPU, CUDA)


def backend_of(target: Target) -> Backend:
    """The back end of a target."""
    sketches = sketch_backend(target)
    return next(backend for backend in BACKENDS if backend.sketches is sketches)


def build_kernel(
    nest: LoopNest,
    target: Target,
    symbol: str = SYMBOL,
    strides: Mapping[str, tuple[int, ...]] | None = None,
    loose: Collection[str] = (),
) -> CompiledKernel:
    """Compile an int nest for any target; nothing is run.

    Args:
        nest: what to compute.
        target: for which machine.
        symbol: what the kernel is called where others are linked with it.
        strides: of arguments that are not dense, in elements.
        loose: arguments that start at any element, not at a multiple of ``argument_alignment``.

    Raises:
        LoweringError: the nest is unsound.
        CodegenError: the nest has no machine code on this target.
        TargetError: the target's compiler is not installed, or does not know the target.
    """
    for argument, steps in (strides or {}).items():
        nest = restride(nest, argument, steps)
    return backend_of(target).build(loosen(nest, loose), target, symbol)


def check_runs(target: Target, what: str) -> None:
    """Raise TargetError, saying ``what`` cannot be done, unless kernels can be timed and run."""
    backend = backend_of(target)
    missing = backend.missing(target)
    if missing is not None:
        raise TargetError(
            f"cannot {what} for the {backend.name} target {target.arch}: {missing}",
            hint="" if target.card.emulated else backend.remedy,
        )
