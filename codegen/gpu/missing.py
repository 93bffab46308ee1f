"""What is missing before kernels of a GPU target can run here."""

from __future__ import annotations

from codegen.cuda.launch import missing_gpu
from codegen.cuda.nvrtc import missing_compiler
from codegen.gpu.emulation.library import missing_emulator
from sketch.target.target import Target


def missing_device(target: Target) -> str | None:
    """Why no kernel of a GPU target can run here, as a sentence; None where it can."""
    if target.card.emulated:
        return missing_emulator()
    return missing_gpu() or missing_compiler()
