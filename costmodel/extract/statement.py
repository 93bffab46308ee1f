"""A nest as statements: which stores a stage has, and the loops around each of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from costmodel.errors import CostModelError
from costmodel.extract.quantity import Quantity, is_one, to_quantity
from sketch.lang.tensor import Compute
from sketch.nest.loopnest import (
    Allocate,
    Buffer,
    BufferLoad,
    Loop,
    LoopKind,
    LoopNest,
    LoopVar,
    Predicate,
    Scope,
    Store,
)
from sketch.nest.walk import buffer_loads, stores_within

PARALLEL_KINDS = (LoopKind.PARALLEL, LoopKind.BLOCK)
VECTOR_KINDS = (LoopKind.VECTORIZED, LoopKind.THREAD)
UNROLLED_KINDS = (LoopKind.UNROLLED, LoopKind.VTHREAD)
# loops that leave no loop in the code
STRAIGHT_KINDS = (*UNROLLED_KINDS, *VECTOR_KINDS, LoopKind.TENSOR)


@dataclass(frozen=True, slots=True, eq=False)
class LoopInfo:
    """A loop, with its numbers as floats; shared by all stores inside it."""

    var: LoopVar
    extent: Quantity
    stride: Quantity  # the variable grows by this in a trip
    reach: Quantity  # largest value of the variable
    kind: LoopKind
    reduce: bool
    together: Quantity = 1.0  # of blocks, see ``Loop``


@dataclass(frozen=True, slots=True, eq=False)
class StoreSite:
    """A store with the loops around it, outermost first.

    Loops that have one trip in every program are left out.  ``allocations`` pairs a private buffer
    with the number of loops around its allocation; ``vectors`` and ``reduces`` are the variables of
    all vectorised and all reduce loops, whatever their trips; ``clips`` are the predicates that
    the trips of loops around must satisfy.  ``fill``: the tile in shared memory that it is computed
    for, by a thread of a GPU that fills a part of it with what it has of its own.
    """

    store: Store
    loops: tuple[LoopInfo, ...]
    allocations: tuple[tuple[Buffer, int], ...] = ()
    vectors: frozenset[LoopVar] = frozenset()
    reduces: frozenset[LoopVar] = frozenset()
    clips: tuple[Predicate, ...] = ()
    fill: Buffer | None = None

    def allocation_depth(self, buffer: Buffer) -> int:
        """How many of the loops are around the allocation of ``buffer`` (0: the caller's)."""
        return next((depth for b, depth in self.allocations if b is buffer), 0)

    def loads(self) -> tuple[BufferLoad, ...]:
        """The distinct loads of the stored values, in order of appearance."""
        found = (load for value in self.store.values for load in buffer_loads(value))
        return tuple({id(load): load for load in found}.values())

    def buffers(self) -> tuple[Buffer, ...]:
        """Buffers written or read."""
        return (*self.store.targets, *(load.buffer for load in self.loads()))


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """The stores of one stage: initialisation, update, write-back.

    Attributes:
        stage: what they compute; None where a nest is written by hand.
        main: does the work.
        sites: all of them, in order.
        starts_region: whether no statement before it is in the same parallel loops.
    """

    stage: Compute | None
    main: StoreSite
    sites: tuple[StoreSite, ...]
    starts_region: bool = True

    @property
    def name(self) -> str:
        """The name of the stage."""
        return self.main.store.stage_name


def statements_of(nest: LoopNest) -> tuple[Statement, ...]:
    """The statements of a nest, in order of their first store.

    Raises:
        CostModelError: the nest has no store.
    """
    stores = stores_within(nest.roots, _Context(), _Context.inside)
    sites = [context.site(store) for store, context in stores]
    if not sites:
        raise CostModelError("the nest has no store", f"nest {nest.name}")
    groups: dict[Compute | None, list[StoreSite]] = {}
    for site in sites:
        groups.setdefault(site.store.stage, []).append(site)
    seen: set[LoopVar] = set()
    found = []
    for stage, group in groups.items():
        main = _main(group)
        parallel = {loop.var for loop in main.loops if loop.kind in PARALLEL_KINDS}
        found.append(Statement(stage, main, tuple(group), parallel.isdisjoint(seen)))
        seen |= parallel
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class _Context:
    """What is around a store; ``tile``: in shared memory, inside whose allocation are threads."""

    loops: tuple[LoopInfo, ...] = ()
    allocations: tuple[tuple[Buffer, int], ...] = ()
    vectors: frozenset[LoopVar] = frozenset()
    reduces: frozenset[LoopVar] = frozenset()
    clips: tuple[Predicate, ...] = ()
    tile: Buffer | None = None
    fill: Buffer | None = None

    def inside(self, node: Loop | Allocate) -> _Context:
        if isinstance(node, Allocate):
            allocations = (*self.allocations, (node.buffer, len(self.loops)))
            private = node.buffer.scope is Scope.LOCAL
            fill = self.tile if private and self.tile is not None else self.fill
            return replace(self, allocations=allocations, fill=fill)
        var = frozenset((node.var,))
        vectors = self.vectors | var if node.kind in VECTOR_KINDS else self.vectors
        reduces = self.reduces | var if node.axis_kind == "reduce" else self.reduces
        loops, clips = (*self.loops, *_loop_info(node)), (*self.clips, *node.clip)
        tile = self.tile
        if node.kind is LoopKind.THREAD and self.allocations:
            last = self.allocations[-1][0]
            tile = last if last.scope is Scope.SHARED else tile
        return _Context(loops, self.allocations, vectors, reduces, clips, tile, self.fill)

    def site(self, store: Store) -> StoreSite:
        return StoreSite(
            store, self.loops, self.allocations, self.vectors, self.reduces, self.clips, self.fill
        )


def _loop_info(loop: Loop) -> tuple[LoopInfo, ...]:
    """Nothing for a loop of one trip.

    No feature may depend on such loops, so that one candidate (where they are seen) and a
    population (where they are not) give the same numbers.
    """
    extent = to_quantity(loop.extent)
    if is_one(extent):
        return ()
    stride = to_quantity(loop.stride)
    reach = (extent - 1.0) * stride
    reduce, together = loop.axis_kind == "reduce", to_quantity(loop.together)
    return (LoopInfo(loop.var, extent, stride, reach, loop.kind, reduce, together),)


def _main(sites: list[StoreSite]) -> StoreSite:
    """The update of a reduction, else the last store; never chosen by a number."""
    return next((s for s in sites if s.store.reducer is not None), sites[-1])
