"""From a candidate to its code: the one way for measuring, compiling and explaining."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from autosched.tasks.candidate import Candidate
from codegen.kernel import SYMBOL

if TYPE_CHECKING:
    from codegen.kernel import CompiledKernel
    from sketch.target.target import Target


def kernel_of(
    candidate: Candidate,
    target: Target,
    symbol: str = SYMBOL,
    strides: Mapping[str, tuple[int, ...]] | None = None,
    loose: Collection[str] = (),
    short_sums: bool = False,
) -> CompiledKernel:
    """The code of a candidate; nothing is run.

    Args:
        candidate: what to compile.
        target: for which machine.
        symbol: what the kernel is called where others are linked with it.
        strides: of arguments that are not dense, in elements.
        loose: arguments that start at any element.
        short_sums: long sums of products lose fewer digits, for some more time.

    Raises:
        LoweringError, ScheduleError: the candidate makes no loops, or the loops are unsound.
        CodegenError: they make no code on this target.
        TargetError: the target's compiler is not installed, or does not know the target.
    """
    from codegen.backend import build_kernel

    nest = replace(candidate.nest(), short_sums=short_sums)
    return build_kernel(nest, target, symbol, strides, loose)
