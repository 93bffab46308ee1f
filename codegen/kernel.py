"""A compiled kernel: object code and how to call it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Protocol

from sketch.nest.loopnest import Buffer, Scope
from sketch.target.target import Target

# What the function is called where no other is linked with it: names of programs stay out of code.
SYMBOL: Final = "kernel"


@dataclass(frozen=True, slots=True)
class Argument:
    """A buffer that the caller passes.

    ``shape`` is the shape as stored (packed for packed constants), row-major and dense.
    Any address that suits the dtype is correct; a kernel is fastest where buffers start at a
    multiple of ``Target.cache_line_bytes``: vectors then never cross a cache line.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    scope: Literal["input", "constant", "output"]


class CompiledKernel(Protocol):
    """Machine code of one loop nest for any machine: what all back ends make."""

    @property
    def name(self) -> str:
        """Of the nest."""

    @property
    def symbol(self) -> str:
        """What it is called by those who link it; what its functions are called starts so."""

    @property
    def target(self) -> Target:
        """The machine that it is for."""

    @property
    def workspaces(self) -> tuple[tuple[str, int], ...]:
        """Memory that the caller lends, by name and bytes: passed after the arguments."""

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """What the caller passes, in the nest's order."""

    @property
    def object_code(self) -> bytes:
        """An object file (CPU) or a cubin (CUDA)."""

    @property
    def overwrites(self) -> frozenset[str]:
        """Names of the inputs that may lie where the output is to lie."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """Machine code of one loop nest for a CPU.

    The C ABI is ``void symbol(void **args, void *team)``: the arguments in order, then a workspace
    of ``workspace_bytes`` that starts at a multiple of ``BUFFER_ALIGNMENT``; a team of at most
    ``target.threads`` threads, or null, and the caller computes everything.
    ``instructions`` counts the arithmetic and memory instructions that were emitted.
    ``overwrites``: inputs that may lie where the output is to lie (``overwritable``).
    """

    name: str
    symbol: str
    object_code: bytes
    arguments: tuple[Argument, ...]
    workspace_bytes: int
    target: Target
    instructions: int
    overwrites: frozenset[str] = frozenset()

    @property
    def workspaces(self) -> tuple[tuple[str, int], ...]:
        """The one workspace, of no bytes where the kernel needs none."""
        return (("workspace", self.workspace_bytes),)


BUFFER_ALIGNMENT: Final = 64
"""Bytes.  A part of the C ABI on every target: workspaces, arenas and constants start at a multiple
of it.  The widest SIMD registers take as many."""
_SCOPES: dict[Scope, Literal["input", "constant", "output"]] = {
    Scope.INPUT: "input",
    Scope.CONSTANT: "constant",
    Scope.OUTPUT: "output",
}


def stored_shape(buffer: Buffer) -> tuple[int, ...]:
    """The dense shape of a buffer in memory: dimensions in units of their granularity."""
    shape = tuple(
        -(-int(extent) // int(step))
        for extent, step in zip(buffer.shape, buffer.steps, strict=True)
    )
    count = 1
    for extent in shape:
        count *= extent
    return shape if count == int(buffer.size) else (int(buffer.size),)


def argument_of(buffer: Buffer) -> Argument:
    """The argument that holds a buffer."""
    return Argument(buffer.name, buffer.dtype, stored_shape(buffer), _SCOPES[buffer.scope])
