"""Shared memory of a block: arrays that are declared, or parts of what a launch asks for."""

from __future__ import annotations

from codegen.cuda.device import Declare, DeviceFunction, Pipeline, walk_device
from codegen.cuda.scalars import C_TYPES
from codegen.gpu.alignment import WIDEST
from sketch.lang.dtypes import size_of
from sketch.nest.loopnest import Buffer, Scope
from sketch.population.feasible_gpu import shared_tile_bytes


def shared_bytes(function: DeviceFunction) -> int:
    """Of a block."""
    total = 0
    for node in walk_device(function.body):
        if isinstance(node, Declare) and node.buffer.scope is Scope.SHARED:
            total += int(shared_tile_bytes(node.buffer))
        elif isinstance(node, Pipeline):
            total += sum(node.depth * int(shared_tile_bytes(tile)) for tile in node.buffers)
    return total


def tile_elements(buffer: Buffer) -> int:
    """Elements from one tile in shared memory to the next."""
    return int(shared_tile_bytes(buffer)) // size_of(buffer.dtype)


class SharedMemory:
    """Declares the arrays of one kernel.

    ``dynamic_bytes``: what the launch asks for, for all of them; 0: nothing.
    """

    def __init__(self, dynamic_bytes: int) -> None:
        self.dynamic_bytes = dynamic_bytes
        self._carved = 0

    def declaration(self, buffer: Buffer, name: str, elements: int) -> str:
        """The text that declares an array, which starts at a multiple of 16 bytes."""
        kind = C_TYPES[buffer.dtype]
        if not self.dynamic_bytes:
            return f"__shared__ __align__({WIDEST}) {kind} {name}[{elements}];"
        start = self._carved
        self._carved += -(-elements * size_of(buffer.dtype) // WIDEST) * WIDEST
        part = f"*({kind} (*)[{elements}])(dynamic_shared + {start})"
        return f"{kind} (&{name})[{elements}] = {part};"
