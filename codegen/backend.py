"""The back ends: from a loop nest to a kernel, chosen once by the target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from codegen import build as cpu
from codegen.cuda import build as cuda
from codegen.gpu.protocol import DEVICE_ALIGNMENT
from codegen.kernel import BUFFER_ALIGNMENT, SYMBOL, CompiledKernel
from codegen.passes.restride import restride
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
        build: (nest, target, symbol) to a kernel; raises LoweringError, CodegenError, TargetError.
        missing: what is missing before kernels are timed and networks run, as a sentence; None:
            nothing is.
    """

    name: str
    sketches: SketchBackend
    alignment: int
    build: Callable[[LoopNest, Target, str], CompiledKernel]
    missing: str | None


CPU: Final = Backend("cpu", CPU_SKETCHES, BUFFER_ALIGNMENT, cpu.build, None)
CUDA: Final = Backend(
    "cuda",
    GPU_SKETCHES,
    DEVICE_ALIGNMENT,
    cuda.build,
    "no runner times CUDA kernels and no executor runs networks of them yet",
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
) -> CompiledKernel:
    """Compile an int nest for any target; nothing is run.

    Args:
        nest: what to compute.
        target: for which machine.
        symbol: what the kernel is called where others are linked with it.
        strides: of arguments that are not dense, in elements.

    Raises:
        LoweringError: the nest is unsound.
        CodegenError: the nest has no machine code on this target.
        TargetError: the target's compiler is not installed, or does not know the target.
    """
    for argument, steps in (strides or {}).items():
        nest = restride(nest, argument, steps)
    return backend_of(target).build(nest, target, symbol)


def check_runs(target: Target, what: str) -> None:
    """Raise TargetError, saying ``what`` cannot be done, unless kernels can be timed and run."""
    missing = backend_of(target).missing
    if missing is not None:
        raise TargetError(
            f"cannot {what} for the {backend_of(target).name} target {target.arch}: {missing}",
            hint="Task.compile makes its code; use a CPU target for the rest",
        )
