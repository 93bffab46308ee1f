"""Shared memory of a block: arrays that are declared, or parts of what a launch asks for."""

from __future__ import annotations

from codegen.cuda.device import Declare, DeviceFunction, MultiplyTiles, Pipeline, walk_device
from codegen.cuda.scalars import C_TYPES
from codegen.gpu.alignment import WIDEST
from sketch.lang.dtypes import size_of
from sketch.nest.loopnest import Buffer, Scope
from sketch.population.feasible_gpu import shared_tile_bytes


def shared_bytes(function: DeviceFunction) -> int:
    """Of a block."""
    end, of_units = 0, read_by_units(function)
    for node in walk_device(function.body):
        tiles: tuple[Buffer, ...] = ()
        if isinstance(node, Declare) and node.buffer.scope is Scope.SHARED:
            tiles, depth = (node.buffer,), 1
        elif isinstance(node, Pipeline):
            tiles, depth = node.buffers, node.depth
        for tile in tiles:
            end = _start(end, tile, of_units) + depth * int(shared_tile_bytes(tile))
    return end


def read_by_units(function: DeviceFunction) -> frozenset[Buffer]:
    """What tensor units read by themselves."""
    products = (node for node in walk_device(function.body) if isinstance(node, MultiplyTiles))
    return frozenset(load.buffer for node in products for load in (node.lhs, node.rhs))


def _alignment(buffer: Buffer, of_units: frozenset[Buffer]) -> int:
    """Units find pieces that change places by their addresses."""
    return buffer.period * size_of(buffer.dtype) if buffer in of_units else WIDEST


def _start(end: int, buffer: Buffer, of_units: frozenset[Buffer]) -> int:
    """Where an array starts behind others."""
    alignment = _alignment(buffer, of_units)
    return -(-end // alignment) * alignment


def tile_elements(buffer: Buffer) -> int:
    """Elements from one tile in shared memory to the next."""
    return int(shared_tile_bytes(buffer)) // size_of(buffer.dtype)


class SharedMemory:
    """Declares the arrays of one kernel.

    ``dynamic_bytes``: what the launch asks for, for all of them; 0: nothing.  ``of_units``: arrays
    that tensor units read by themselves.
    """

    def __init__(self, dynamic_bytes: int, of_units: frozenset[Buffer]) -> None:
        self.dynamic_bytes = dynamic_bytes
        self.of_units = of_units
        self._end = 0

    def declaration(self, buffer: Buffer, name: str, elements: int) -> str:
        """The text that declares an array, which starts at a multiple of 16 bytes at least."""
        kind = C_TYPES[buffer.dtype]
        if not self.dynamic_bytes:
            alignment = _alignment(buffer, self.of_units)
            return f"__shared__ __align__({alignment}) {kind} {name}[{elements}];"
        start = _start(self._end, buffer, self.of_units)
        self._end = start + -(-elements * size_of(buffer.dtype) // WIDEST) * WIDEST
        part = f"*({kind} (*)[{elements}])(dynamic_shared + {start})"
        return f"{kind} (&{name})[{elements}] = {part};"
