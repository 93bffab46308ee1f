"""The buffers of a program: arguments, workspaces, and what attached stages compute into."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

import numpy as np

from sketch.analysis.store_places import Coordinate, keeps_to_dimensions, place_of
from sketch.errors import LoweringError
from sketch.lang.dtypes import size_of
from sketch.lang.tensor import Compute, Operation, Placeholder, SharedBuffer, Tensor
from sketch.lower.placement import PackedGroup, PlacedStage, Placement
from sketch.nest.loopnest import (
    Affine,
    Buffer,
    Index,
    LoopVar,
    Num,
    Quasi,
    Scope,
    Swizzle,
    row_major,
)
from sketch.schedule.program import Program
from sketch.schedule.stage import StageId
from sketch.schedule.steps import Pack

_Shared = tuple[Buffer, tuple[Coordinate, ...]]

# What a padded row is longer by, and what a swizzled row is made of: the widest access of a thread.
_PIECE_BYTES: Final = 16
# Pieces of a swizzled row that change places: as many as all banks of shared memory hold.
_SWIZZLED: Final = 8


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """A buffer and how the elements of a tensor are found in it.

    Attributes:
        base: per dimension, the coordinate of the buffer's first element (attached stages).
        packed: dimension that is laid out in panels, and the variables that walk one panel.
        group: what lies together within a panel.
        places: where a stage writes that shares the buffer with others.
    """

    buffer: Buffer
    base: tuple[Affine | None, ...] = ()
    packed: tuple[int, frozenset[LoopVar]] | None = None
    group: PackedGroup | None = None
    places: tuple[Coordinate, ...] | None = None

    def locate(self, indices: tuple[Index, ...]) -> tuple[Index, ...]:
        """Indices into the buffer of the element with tensor coordinates ``indices``."""
        if self.places is not None:
            return tuple(self._place(indices, place) for place in self.places)
        local = tuple(
            index if base is None or isinstance(index, Quasi) else index + base.scale(-1)
            for index, base in zip(indices, self.base or (None,) * len(indices), strict=True)
        )
        return local if self.packed is None else self._panel(local, *self.packed)

    def _place(self, indices: tuple[Index, ...], place: Coordinate) -> Affine:
        offset, strides = place
        total = Affine((), offset)
        for position, stride in strides.items():
            index = indices[position]
            if isinstance(index, Quasi):
                raise LoweringError(
                    f"buffer {self.buffer.name} is written in parts and read through an index "
                    "that is not affine",
                    hint="read it in a program of its own",
                )
            total = total + index.scale(stride)
        return total

    def _panel(
        self, indices: tuple[Index, ...], dim: int, inner: frozenset[LoopVar]
    ) -> tuple[Index, ...]:
        panel, within = self._split(indices[dim], inner)
        if self.group is None:
            return (panel, *(i for d, i in enumerate(indices) if d != dim), within)
        start, element = self._split(indices[self.group.dim], frozenset((self.group.var,)))
        places = enumerate(indices)
        others = tuple(start if d == self.group.dim else i for d, i in places if d != dim)
        return (panel, *others, within, element)

    def _split(self, index: Index, inner: frozenset[LoopVar]) -> tuple[Affine, Affine]:
        """The parts of an index without and with the variables ``inner``."""
        if isinstance(index, Quasi) or index.const:
            raise LoweringError(f"{self.buffer.name} is packed along an index that is not plain")
        within = Affine(tuple((v, c) for v, c in index.terms if v in inner))
        return Affine(tuple((v, c) for v, c in index.terms if v not in inner)), within


def dense_buffer(name: str, dtype: str, shape: tuple[Num, ...], scope: Scope) -> Buffer:
    """A row-major buffer.

    Args:
        name: of the buffer, for printing.
        dtype: of its elements.
        shape: extents; a decision's extent is an array over the population.
        scope: which memory it is in.
    """
    size: Num = 1
    for extent in shape:
        size = size * extent
    return Buffer(name, dtype, shape, row_major(shape), (1,) * len(shape), scope, size)


def packed_buffer(
    name: str,
    dtype: str,
    extents: tuple[Num, ...],
    dim: int,
    width: Num,
    scope: Scope,
    group: PackedGroup | None = None,
) -> Buffer:
    """The buffer of a tensor that is packed in panels.

    Its dimensions are [panel start (in elements), other dimensions, within the panel], and last
    [within the group] where elements lie together; the group's own dimension starts groups then.

    Args:
        name: of the buffer, for printing.
        dtype: of its elements.
        extents: of the tensor.
        dim: the dimension that is cut into panels.
        width: elements of a panel along ``dim``.
        scope: which memory it is in.
        group: which elements lie together within a panel; None: none do.
    """
    size = 1 if group is None else group.size
    grouped = [d for d in range(len(extents)) if group is not None and d == group.dim]
    others = [d for d in range(len(extents)) if d != dim]
    lengths = [-(-extents[d] // size) * size if d in grouped else extents[d] for d in others]
    steps = [size if d in grouped else 1 for d in others]
    strides: list[Num] = [size]
    stride: Num = width if group is None else width * size
    for extent, step in zip(reversed(lengths), reversed(steps), strict=True):
        stride = stride if step == 1 else stride // step
        strides.insert(0, stride)
        stride = stride * extent
    padded = -(-extents[dim] // width) * width
    inner: Num = 1
    for extent in lengths:
        inner = inner * extent
    last = [] if group is None else [1]
    return Buffer(
        name=name,
        dtype=dtype,
        shape=(padded, *lengths, width, *([] if group is None else [size])),
        strides=(inner, *strides, *last),
        steps=(width, *steps, 1, *last),
        scope=scope,
        size=padded * inner,
    )


def tiled_buffer(
    name: str, dtype: str, extents: tuple[Num, ...], dim: int, layout: Num, count: Num
) -> Buffer:
    """``count`` tiles in shared memory.

    Args:
        name: of the buffer.
        dtype: of its elements.
        extents: of a tile.
        dim: the dimension that some layouts have innermost.
        layout: as in ``SharedTiles``.
        count: of tiles.
    """
    piece = _PIECE_BYTES // size_of(dtype)
    swizzled = layout // 4
    turned = (layout - 4 * swizzled) // 2
    pad = (layout - 4 * swizzled - 2 * turned) * piece
    order = list(range(len(extents)))
    plain, size = _padded(extents, order, pad)
    other, other_size = _padded(extents, [*(d for d in order if d != dim), dim], pad)
    strides = tuple(p + turned * (o - p) for p, o in zip(plain, other, strict=True))
    size = size + turned * (other_size - size)
    row = extents[-1] + turned * (extents[dim] - extents[-1])
    # rows of an odd number of pieces, or of parts of them, stay as they are
    whole = 1 - np.minimum(row % piece, 1)
    pieces: Num = np.gcd(np.maximum(row // piece * whole * swizzled, 1), _SWIZZLED)
    known_plain = isinstance(layout, int) and not swizzled
    swizzle = None if known_plain else Swizzle(row, piece, pieces)
    steps = (1,) * len(extents)
    return Buffer(
        name, dtype, extents, strides, steps, Scope.SHARED, size, tiles=count, swizzle=swizzle
    )


def _padded(extents: tuple[Num, ...], order: list[int], pad: Num) -> tuple[list[Num], Num]:
    """Strides of dimensions in an order, outermost first, of rows longer by ``pad``; the size."""
    strides: list[Num] = [1] * len(extents)
    step: Num = 1
    for position, dim in enumerate(reversed(order)):
        strides[dim] = step
        step = step * extents[dim]
        if position == 0 and len(order) > 1:
            step = step + pad
    return strides, step


@dataclass(frozen=True, slots=True, eq=False)
class StoredTensor:
    """Where a tensor is.

    Attributes:
        buffer: that holds it.
        places: where in it, for a stage that shares it with others.
        pack: how it is laid out in panels, if it is.
        group: which elements lie together within a panel.
        maker: the stage that computes it; None for an input.
    """

    buffer: Buffer
    places: tuple[Coordinate, ...] | None = None
    pack: Pack | None = None
    maker: PlacedStage | None = None
    group: PackedGroup | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Buffers:
    """Buffers; ``tensors``: by the operation and the number of its output."""

    arguments: tuple[Buffer, ...]
    workspaces: tuple[Buffer, ...]
    tensors: Mapping[tuple[Operation, int], StoredTensor]

    def view(self, tensor: Tensor, user: PlacedStage) -> View:
        """How ``user`` (a reader, or the stage itself) sees ``tensor``."""
        stored = self.tensors[tensor.op, tensor.output]
        base: tuple[Affine | None, ...] = ()
        maker = stored.maker
        if maker is not None and maker.plan.attach is not None:
            base = tuple(maker.base[axis] for axis in maker.plan.op.axes)
        packed, group = None, stored.group
        if stored.pack is not None:
            packed = stored.pack.dim, _panel_vars(stored.pack, user)
            if group is not None and user.plan.id == stored.pack.tensor:
                group = _written(group, user)
        return View(stored.buffer, base, packed, group, stored.places)


def _panel_vars(pack: Pack, user: PlacedStage) -> frozenset[LoopVar]:
    own = user.plan.id == pack.tensor
    return user.variables(pack.writer_loops if own else pack.loops)


def _written(group: PackedGroup, maker: PlacedStage) -> PackedGroup:
    """What lies together, walked by the loop of the stage that writes it."""
    axis = maker.plan.op.axes[group.dim]
    inner = [loop for loop in maker.loops if loop.axis is axis][-1]
    return replace(group, var=inner.var)


def make_buffers(placement: Placement) -> Buffers:
    """Create every buffer of a placed program."""
    program = placement.program
    packs = {program.operation(pack.tensor): pack for pack in program.packs}
    tensors: dict[tuple[Operation, int], StoredTensor] = {}
    for tensor in program.dag.inputs:
        pack = packs.get(tensor.op)
        group = None if pack is None else placement.packed_group(pack)
        argument = _argument(tensor, pack, placement, group)
        tensors[tensor.op, 0] = StoredTensor(argument, None, pack, group=group)
    workspaces: list[Buffer] = []
    writers = [stage.plan.op for stage in placement.stages.values() if stage.plan.op.store]
    shared = {op: place for ops in _sharing(writers) for op, place in _shared(ops)}
    places = zip(program.dag.output_stages, program.dag.outputs, strict=True)
    results = {(StageId(stage), tensor.output) for stage, tensor in places}
    for stage in placement.stages.values():
        op, pack = stage.plan.op, packs.get(stage.plan.op)
        group = None if pack is None else placement.packed_group(pack)
        for number in range(len(op.output_dtypes)):
            tensor, own = Tensor(op, number), None
            if op in shared:
                buffer, own = shared[op]
            else:
                is_result = (stage.plan.id, number) in results
                buffer = _stage_buffer(tensor, stage, pack, placement, is_result)
            tensors[op, number] = StoredTensor(buffer, own, pack, stage, group)
            if buffer.scope is Scope.WORKSPACE:
                workspaces.append(buffer)
    return Buffers(_arguments(program, tensors), tuple(workspaces), tensors)


def _arguments(
    program: Program, tensors: Mapping[tuple[Operation, int], StoredTensor]
) -> tuple[Buffer, ...]:
    """Inputs, then results; stages that share a buffer have one argument."""
    found = [tensors[tensor.op, 0].buffer for tensor in program.dag.inputs]
    for tensor, stage in zip(program.dag.outputs, program.dag.output_stages, strict=True):
        found.append(tensors[program.stage(StageId(stage)).op, tensor.output].buffer)
    return tuple(dict.fromkeys(found))


def _argument(
    tensor: Tensor, pack: Pack | None, placement: Placement, group: PackedGroup | None
) -> Buffer:
    op = tensor.op
    assert isinstance(op, Placeholder)
    scope = Scope.CONSTANT if op.constant else Scope.INPUT
    if pack is None:
        return dense_buffer(op.name, op.dtype, op.shape, scope)
    if not op.constant:
        raise LoweringError(
            f"input {op.name} is no constant and cannot be packed ahead of time",
            hint="read it through a cache_read stage",
        )
    width = placement.panel_width(pack)
    packed = packed_buffer(op.name, op.dtype, op.shape, pack.dim, width, scope, group)
    return replace(packed, ahead=_elements_ahead(packed, pack, placement))


def _elements_ahead(packed: Buffer, pack: Pack, placement: Placement) -> Num:
    """How far ahead of what is read the elements lie that are prefetched with it; 0: none are."""
    choice, walked = placement.number(pack.prefetch), placement.walked(pack)
    panel = packed.strides[0] * packed.steps[0]
    if walked is None:
        return choice * panel
    place = walked.dim + 1 if walked.dim < pack.dim else walked.dim
    # A polynomial, as many rows with different choices are lowered at once.
    near = choice * (choice - 1) // 2 * packed.strides[place] * walked.elements
    return choice * (2 - choice) * panel + near


def _sharing(ops: Sequence[Compute]) -> Iterable[list[Compute]]:
    """The stages of each shared buffer."""
    groups: dict[SharedBuffer, list[Compute]] = {}
    for op in ops:
        assert op.store is not None
        groups.setdefault(op.store.buffer, []).append(op)
    return groups.values()


def _shared(ops: Sequence[Compute]) -> Iterator[tuple[Compute, _Shared]]:
    """The buffer of stages that share one, and where each of them writes.

    One of its dimensions holds all elements where some stage does not keep to those of the array.
    """
    store, dtype = ops[0].store, ops[0].output_dtypes[0]
    assert store is not None
    shape, where = store.buffer.shape, place_of
    if not all(map(keeps_to_dimensions, ops)):
        shape, where = (prod(shape),), _flat
    buffer = dense_buffer(store.buffer.name, dtype, shape, Scope.OUTPUT)
    yield from ((op, (buffer, where(op))) for op in ops)


def _flat(op: Compute) -> tuple[Coordinate, ...]:
    assert op.store is not None
    return ((op.store.offset, dict(enumerate(op.store.strides))),)


def _stage_buffer(
    tensor: Tensor, stage: PlacedStage, pack: Pack | None, placement: Placement, output: bool
) -> Buffer:
    op, dtype = stage.plan.op, tensor.dtype
    attached = stage.plan.attach is not None
    private = Scope.SHARED if stage.plan.shared else Scope.LOCAL
    scope = private if attached else (Scope.OUTPUT if output else Scope.WORKSPACE)
    extents = tuple(stage.extents[a] if attached else a.extent for a in op.axes)
    if pack is not None:
        width = placement.panel_width(pack)
        group = placement.packed_group(pack)
        return packed_buffer(tensor.name, dtype, extents, pack.dim, width, scope, group)
    tiles = stage.plan.tiles
    if scope is Scope.SHARED and tiles is not None:
        count = placement.number(tiles.count)
        layout = placement.number(tiles.layout)
        return tiled_buffer(tensor.name, dtype, extents, tiles.dim, layout, count)
    return dense_buffer(tensor.name, dtype, extents, scope)
