"""Which tile registers results and operands are in, and how the registers are configured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from sketch.lang.dtypes import size_of
from sketch.nest.loopnest import (
    Allocate,
    Buffer,
    Loop,
    LoopKind,
    LoopNest,
    Node,
    Scope,
    Store,
)
from sketch.nest.walk import index_variables, store_loads, stores, walk
from sketch.target.units import TILE_BYTES, TILES


@dataclass(frozen=True, slots=True)
class TileLayout:
    """Registers of a nest: results first, then first operands, then second ones.

    Attributes:
        results: registers of results.
        rows: of results and of first operands.
        depth_bytes: of a row of first operands.
        groups: rows of second operands.
    """

    results: int
    rows: int
    depth_bytes: int
    groups: int

    @property
    def lhs(self) -> range:
        """Registers of first operands."""
        return range(self.results, self.results + (TILES - self.results) // 2)

    @property
    def rhs(self) -> range:
        """Registers of second operands."""
        return range(self.lhs.stop, TILES)

    def configuration(self) -> bytes:
        """The 64 bytes that configure the registers: palette, bytes of a row, rows."""
        bytes_of = [TILE_BYTES] * self.results
        bytes_of += [self.depth_bytes] * len(self.lhs) + [TILE_BYTES] * len(self.rhs)
        rows = [self.rows] * self.lhs.stop + [self.groups] * len(self.rhs)
        empty = [0] * TILES  # a configuration has room for twice as many
        columns = b"".join(size.to_bytes(2, "little") for size in bytes_of + empty)
        return bytes([1, *[0] * 15]) + columns + bytes(rows + empty)


def tile_layouts(nodes: tuple[Node, ...]) -> dict[Buffer, TileLayout]:
    """The layout for each buffer in tile registers; one for all of them where it can be."""
    tiles = [n for n in walk(nodes) if isinstance(n, Allocate) and n.buffer.scope is Scope.TILE]
    found = {tile.buffer: layout for tile in tiles if (layout := _layout(tile)) is not None}
    for tile in tiles:
        if tile.buffer not in found:
            found[tile.buffer] = _unused(tile, tuple(found.values()))
    if len({(x.rows, x.depth_bytes, x.groups) for x in found.values()}) == 1:
        most = max(found.values(), key=lambda layout: layout.results)
        return dict.fromkeys(found, most)
    return found


def uses_tiles(nest: LoopNest) -> bool:
    """Whether a nest has tile registers."""
    return any(
        isinstance(node, Allocate) and node.buffer.scope is Scope.TILE for node in walk(nest.roots)
    )


def _layout(node: Allocate) -> TileLayout | None:
    """None: no product is left that is added, as all rows of its tile are behind the last one."""
    for store, loops in stores(node.body):
        if node.buffer in store.targets and store.reducer is not None:
            rows, groups, elements, _ = loops[-4:]
            size = min(size_of(load.dtype) for load in store_loads(store))
            depth = int(groups.extent) * int(elements.extent) * size
            return TileLayout(_results(node), int(rows.extent), depth, int(groups.extent))
    return None


def _unused(node: Allocate, known: tuple[TileLayout, ...]) -> TileLayout:
    """Of what is put into registers and taken out again: that of other tiles of as many rows."""
    inside = (loop for _, loops in stores(node.body) for loop in loops)
    rows = next(int(loop.extent) for loop in inside if loop.kind is LoopKind.TENSOR)
    other = next((layout for layout in known if layout.rows == rows), None)
    if other is None:
        return TileLayout(_results(node), rows, TILE_BYTES, rows)
    return replace(other, results=_results(node))


def _results(node: Allocate) -> int:
    """How many registers a buffer has."""
    found = [(store, loops) for store, loops in stores(node.body) if node.buffer in store.targets]
    return max(
        prod(int(x.extent) for x in loops if x.kind is LoopKind.UNROLLED and _moves(store, x))
        for store, loops in found
    )


def _moves(store: Store, loop: Loop) -> bool:
    """Whether copies that a loop makes add to different results."""
    return any(loop.var in index_variables(index) for index in store.indices)
