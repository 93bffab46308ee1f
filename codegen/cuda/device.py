"""Functions of the device: what a root nest becomes once its loops are bound to the hardware.

Loops of kind BLOCK and THREAD are gone: their variables are ``Binding``s, decoded from the linear
index of the block or thread.  What is left runs in every thread, between barriers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import gcd

from sketch.lang.affine import UNBOUNDED
from sketch.lang.dtypes import size_of
from sketch.lang.expr import Expr, Reducer
from sketch.nest.loopnest import (
    Affine,
    Buffer,
    BufferLoad,
    Index,
    Loop,
    LoopVar,
    Predicate,
    Store,
)
from sketch.target.units import TensorUnit

# Bytes that PTX's cp.async copies.
_ASYNCHRONOUS = (4, 8, 16)


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """A loop variable as part of a linear index: ``index / inner % extent * stride``, where
    ``inner`` is the product of the extents of the bindings after it.

    ``together``: of blocks, so many values follow each other before bindings after it change.
    """

    var: LoopVar
    extent: int
    stride: int
    together: int = 1

    @staticmethod
    def of(loop: Loop) -> Binding:
        """The binding that replaces a loop."""
        return Binding(loop.var, int(loop.extent), int(loop.stride), int(loop.together))


@dataclass(frozen=True, slots=True, eq=False)
class For:
    """A loop that every thread runs by itself; ``clip`` as in ``sketch.loopnest.Loop``.

    ``tensor``: it is of a tensor unit.
    """

    var: LoopVar
    extent: int
    stride: int
    unroll: bool
    clip: tuple[Predicate, ...]
    body: tuple[DeviceNode, ...] = field(repr=False)
    tensor: bool = False

    @property
    def ends(self) -> list[Predicate]:
        """The clips that fail in all later trips once they fail: ends of the loop."""
        upper = (p for p in self.clip if p.low <= -UNBOUNDED)
        return [p for p in upper if p.index.coefficient(self.var) > 0]


@dataclass(frozen=True, slots=True, eq=False)
class Cooperative:
    """Points that the threads of a block share out among them: thread t takes t, t + T, ..."""

    bindings: tuple[Binding, ...]
    body: tuple[DeviceNode, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Declare:
    """Memory of the thread (LOCAL) or of the block (SHARED), from here to the end of the body."""

    buffer: Buffer


@dataclass(frozen=True, slots=True, eq=False)
class Barrier:
    """All threads of the block wait for each other."""


@dataclass(frozen=True, slots=True, eq=False)
class Combine:
    """The lanes that share a reduction combine their partial results; all of them get the result.

    Every thread of the block reaches it.

    Attributes:
        targets: private accumulators, combined cell by cell.
        lane: variable of the lane among those that share a result.
        lanes: how many there are.
        inner: threads between two neighbouring lanes.
        scratch: shared memory, one for each target; empty where a warp's shuffles do.
    """

    targets: tuple[Buffer, ...]
    reducer: Reducer
    lane: LoopVar
    lanes: int
    inner: int
    scratch: tuple[Buffer, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """The elements of a private vector from, or to, as many that follow each other in memory.

    Attributes:
        buffer: in global memory.
        indices: of the first element; the piece is aligned to its length, to 16 bytes at most.
        vector: the private side.
        loads: whether the vector is filled, else it is stored.
        predicates: under which it happens.
    """

    buffer: Buffer
    indices: tuple[Index, ...]
    vector: Buffer
    loads: bool
    predicates: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Fetch:
    """Elements that follow each other in global and in shared memory are copied as they are.

    Attributes:
        store: the copy of the first of them.
        source: what it reads.
        condition: zeros are stored where it does not hold, and nothing is read; None: it does.
        count: of elements; their bytes, 16 at most, divide the addresses of both sides.
    """

    store: Store
    source: BufferLoad
    condition: Expr | None
    count: int

    @property
    def asynchronous(self) -> bool:
        """Whether there is a copy of so many bytes that no thread waits for."""
        return self.count * size_of(self.source.dtype) in _ASYNCHRONOUS


@dataclass(frozen=True, slots=True, eq=False)
class RoundPiece:
    """Float32 elements that follow each other in shared memory, where this thread has put them, are
    rounded to tf32 in place.

    Attributes:
        buffer, indices: the first of them.
        count: how many; their bytes, 16 at most, divide the address.
    """

    buffer: Buffer
    indices: tuple[Index, ...]
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """Tiles that are copied into shared memory some ahead of the one that is read.

    In trip t tile t is waited for, a barrier passed, and tile t + ``ahead`` begun: into the memory
    of the last tile that no thread reads behind the barrier, t - 1 - ``lag``.

    Attributes:
        bindings: the loops over tiles, decoded from the number of the tile.
        depth: tiles in shared memory, 2 at least.
        buffers: of one tile.
        fetch: what fills them.
        later: the same for tiles that are begun in the loop: without tests that always hold there.
        body: what reads them.
        staged: whether tile t + 1 goes through registers, as there are no asynchronous copies: it
            is read before tile t is, and begun in shared memory after that.
        lag: tiles before t that may still be read while tile t is.
        arrived: what threads do with the parts of tile t that they have copied, before the barrier.
    """

    bindings: tuple[Binding, ...]
    depth: int
    buffers: tuple[Buffer, ...]
    fetch: tuple[Cooperative, ...]
    later: tuple[Cooperative, ...]
    body: tuple[DeviceNode, ...] = field(repr=False)
    staged: bool = False
    lag: int = 0
    arrived: tuple[Cooperative, ...] = ()

    @property
    def ahead(self) -> int:
        """Tiles that are filled before the first one is read."""
        return self.depth - 1 - self.lag


@dataclass(frozen=True, slots=True, eq=False)
class LoadFragment:
    """Registers of an operand of a tensor unit, from shared memory.

    Attributes:
        words: private, 32 bits each.
        place: of the first one that is filled.
        sources: the elements of one register, or the first of them where they lie together; of
            matrices the first element of the row that a lane says.
        matrices: of 8 rows of 16 bytes, which the threads of a warp load together, a register of
            each for each of them; 0: a thread loads its register by itself.
        turned: whether the rows are columns of the operand.
    """

    words: Buffer
    place: Affine
    sources: tuple[BufferLoad, ...]
    matrices: int = 0
    turned: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Multiply:
    """``acc += lhs * rhs`` on a tensor unit, by the threads of a warp together.

    Attributes:
        unit: the tensor unit.
        acc, indices: the first of the results of a thread, private.
        lhs, lhs_place, rhs, rhs_place: the first registers of the operands.
    """

    unit: TensorUnit
    acc: Buffer
    indices: tuple[Index, ...]
    lhs: Buffer
    lhs_place: Affine
    rhs: Buffer
    rhs_place: Affine


@dataclass(frozen=True, slots=True, eq=False)
class MultiplyTiles:
    """``acc += lhs * rhs`` on a tensor unit that reads shared memory, by the threads of four warps
    together: begun here, done where they wait for it.

    Attributes:
        unit: the tensor unit.
        acc, indices: the first of the results of a thread, private.
        lhs, rhs: the first elements of the operands, rows of terms in shared memory.
    """

    unit: TensorUnit
    acc: Buffer
    indices: tuple[Index, ...]
    lhs: BufferLoad
    rhs: BufferLoad


@dataclass(frozen=True, slots=True, eq=False)
class BeginProducts:
    """Products that follow come after what the thread has done with their results, ``acc``."""

    acc: Buffer


@dataclass(frozen=True, slots=True, eq=False)
class EndProducts:
    """The products that were begun since the last one are a group."""


@dataclass(frozen=True, slots=True, eq=False)
class WaitProducts:
    """All but the last ``left`` groups are done; where all are, ``acc`` has the results."""

    acc: Buffer
    left: int = 0


DeviceNode = (
    Store
    | For
    | Cooperative
    | Declare
    | Barrier
    | Combine
    | Move
    | Fetch
    | RoundPiece
    | Pipeline
    | LoadFragment
    | Multiply
    | MultiplyTiles
    | BeginProducts
    | EndProducts
    | WaitProducts
)


@dataclass(frozen=True, slots=True, eq=False)
class Shift:
    """A variable that is what a binding of blocks is, up to ``most``."""

    var: LoopVar
    of: Binding
    most: int

    @property
    def values(self) -> Mapping[LoopVar, Affine]:
        """The variable in the place of the binding's."""
        return {self.of.var: Affine(((self.var, 1),))}


@dataclass(frozen=True, slots=True, eq=False)
class DeviceFunction:
    """One kernel; blocks and threads are linear.

    ``blocks`` and ``threads`` decode blockIdx.x and threadIdx.x, outermost first; ``shifts`` come
    from them.  ``lanes`` decode the number of a thread in its warp once more, ``terms`` the end of
    it.
    """

    blocks: tuple[Binding, ...]
    threads: tuple[Binding, ...]
    body: tuple[DeviceNode, ...] = field(repr=False)
    shifts: tuple[Shift, ...] = ()
    lanes: tuple[Binding, ...] = ()
    terms: tuple[Binding, ...] = ()

    @property
    def grid(self) -> int:
        """Blocks of a launch."""
        return points(self.blocks)

    @property
    def block(self) -> int:
        """Threads of a block."""
        return points(self.threads)

    @property
    def steps(self) -> dict[LoopVar, int]:
        """What the variables of blocks and threads are multiples of."""
        steps = {b.var: b.stride for b in (*self.blocks, *self.threads)}
        return steps | {s.var: gcd(s.of.stride, s.most) for s in self.shifts}


def points(bindings: tuple[Binding, ...]) -> int:
    """How many values the linear index of some bindings has."""
    count = 1
    for binding in bindings:
        count *= binding.extent
    return count


def walk_device(nodes: tuple[DeviceNode, ...]) -> Iterator[DeviceNode]:
    """All nodes, parents first."""
    for node in nodes:
        yield node
        if isinstance(node, Pipeline):
            yield from walk_device((*node.fetch, *node.arrived))
        if isinstance(node, For | Cooperative | Pipeline):
            yield from walk_device(node.body)
