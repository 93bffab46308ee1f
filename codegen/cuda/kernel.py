"""A CUDA program of one loop nest: text, launches, machine code."""

from __future__ import annotations

import math
from dataclasses import dataclass

from codegen.kernel import Argument
from sketch.lang.dtypes import size_of
from sketch.target.target import Target


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch: ``symbol<<<grid, block>>>(buffers...)``.

    ``buffers`` names arguments and workspaces in the order of the kernel's parameters.
    """

    symbol: str
    grid: int
    block: int
    buffers: tuple[str, ...]
    parameters: tuple[str, ...]  # C types of the parameters, ``const float*``
    shared_bytes: int = 0  # of a block, that the launch must ask for


@dataclass(frozen=True, slots=True)
class CudaSource:
    """CUDA C++ of a loop nest.

    Attributes:
        text: a whole translation unit; every kernel has C linkage.
        launches: in order; each one completes before the next starts.
        arguments: what the caller passes, in the nest's order, at multiples of 16 bytes
            where they are not loose.
        workspaces: bytes of the buffers that pass values between launches, by name.
    """

    name: str
    text: str
    launches: tuple[Launch, ...]
    arguments: tuple[Argument, ...]
    workspaces: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Resources:
    """What one kernel uses of the machine, as ptxas reports it."""

    registers: int  # a thread
    spill_store_bytes: int  # a thread
    spill_load_bytes: int  # a thread
    stack_bytes: int  # a thread
    shared_bytes: int  # a block, static

    @property
    def spills(self) -> bool:
        """Whether values that should stay in registers go to memory."""
        return self.spill_store_bytes > 0 or self.spill_load_bytes > 0


@dataclass(frozen=True, slots=True)
class CudaKernel:
    """A ``CompiledKernel`` for one GPU architecture.

    Attributes:
        source: text and launches.
        target: what it was compiled for.
        cubin: machine code; empty for an emulated target, whose devices compile the text.
        resources: by symbol; empty likewise.
    """

    source: CudaSource
    target: Target
    cubin: bytes
    resources: tuple[tuple[str, Resources], ...]

    @property
    def name(self) -> str:
        """Of the nest."""
        return self.source.name

    @property
    def symbol(self) -> str:
        """What the names of its launches start with."""
        return self.source.launches[0].symbol.rpartition("_")[0]

    @property
    def workspaces(self) -> tuple[tuple[str, int], ...]:
        """What passes values between its launches."""
        return self.source.workspaces

    @property
    def overwrites(self) -> frozenset[str]:
        """None: what threads have read through a cache may be read there by others."""
        return frozenset()

    @property
    def buffer_bytes(self) -> tuple[int, ...]:
        """Bytes of the arguments, then of the workspaces."""
        dense = (math.prod(a.shape) * size_of(a.dtype) for a in self.arguments)
        return (*dense, *(size for _, size in self.workspaces))

    @property
    def arguments(self) -> tuple[Argument, ...]:
        """What the caller passes, in the nest's order."""
        return self.source.arguments

    @property
    def object_code(self) -> bytes:
        """The cubin; the text of an emulated target."""
        return self.cubin or self.source.text.encode()

    @property
    def spills(self) -> bool:
        """Whether any of its kernels spills registers."""
        return any(resources.spills for _, resources in self.resources)
