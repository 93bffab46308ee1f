"""The back ends: from a loop nest to a kernel, chosen once by the target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from codegen import build as cpu
from codegen.cuda import build as cuda
from codegen.kernel import SYMBOL, CompiledKernel
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
        build: (nest, target, symbol) to a kernel; raises LoweringError, CodegenError, TargetError.
        missing: what is missing before kernels are timed and networks run, as a sentence; None:
            nothing is.
    """

    name: str
    sketches: SketchBackend
    build: Callable[[LoopNest, Target, str], CompiledKernel]
    missing: str | None


CPU: Final = Backend("cpu", CPU_SKETCHES, cpu.build, None)
CUDA: Final = Backend(
    "cuda",
    GPU_SKETCHES,
    cuda.build,
    "no runner times CUDA kernels and no executor runs networks of them yet",
)
BACKENDS: Final = (CPU, CUDA)


def backend_of(target: Target) -> Backend:
    """The back end of a target."""
    sketches = sketch_backend(target)
    return next(backend for backend in BACKENDS if backend.sketches is sketches)


def build_kernel(nest: LoopNest, target: Target, symbol: str = SYMBOL) -> CompiledKernel:
    """Compile an int nest for any target; nothing is run.

    Raises:
        LoweringError: the nest is unsound.
        CodegenError: the nest has no machine code on this target.
        TargetError: the target's compiler is not installed, or does not know the target.
    """
    return backend_of(target).build(nest, target, symbol)


def check_runs(target: Target, what: str) -> None:
    """Raise TargetError, saying ``what`` cannot be done, unless kernels can be timed and run."""
    missing = backend_of(target).missing
    if missing is not None:
        raise TargetError(
            f"cannot {what} for the {backend_of(target).name} target {target.arch}: {missing}",
            hint="Task.compile makes its code; use a CPU target for the rest",
        )
