"""Which nest of a thread's loops is what a tensor unit computes that reads shared memory by itself.

    thread w in 0..4, g in 0..8, t in 0..4              threads of four warps
      tensor k in 0..16                                   acc += unit(A[first], B[first])
        unrolled j, a in 0..2, p in 0..2          ->
          acc[j, a, p] += A[16*w + 8*a + g, k] * B[8*j + 2*t + p, k]

The tiles lie as the unit reads them: rows of 128 bytes of terms, one after the other, of each 8 of
which the pieces of 16 bytes are swizzled.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from codegen.cuda.device import Binding, For, MultiplyTiles
from codegen.cuda.unit_nest import adds_in_registers, operands_of
from codegen.passes.affine import constant, flatten, variables
from codegen.passes.rewrite import substitute_index
from sketch.lang.dtypes import size_of
from sketch.nest.loopnest import Affine, BufferLoad, LoopVar, Store
from sketch.target.fragments import ROW_BYTES, Fragment, FragmentPart
from sketch.target.units import TensorUnit

PIECES = 8
"""Of 16 bytes in a row, and rows until their order comes again."""
Steps = Mapping[LoopVar, int]


@dataclass(frozen=True, slots=True, eq=False)
class TileNest:
    """A nest that a unit computes.

    Attributes:
        product: what does.
        copies: the loops over units around it.
    """

    product: MultiplyTiles
    copies: tuple[For, ...]


def tile_nest_of(
    unit: TensorUnit,
    threads: tuple[Binding, ...],
    terms: For,
    chain: tuple[For, ...],
    store: Store,
    steps: Steps,
) -> TileNest | None:
    """How a unit computes a nest, if it does.

    Args:
        unit: the tensor unit.
        threads: of a block.
        terms: the loop over what it adds.
        chain: the loops inside.
        store: the statement.
        steps: what variables are multiples of.
    """
    assert unit.fragments is not None
    acc = unit.fragments[2]
    parts = sorted((p for p in acc.parts if p.home == "lane"), key=lambda p: -p.step)
    lanes = threads[-len(parts) :]
    shapes = [(part.extent, part.stride) for part in parts]
    if terms.extent != unit.k or [(lane.extent, lane.stride) for lane in lanes] != shapes:
        return None
    own = {lane.var: part for lane, part in zip(lanes, parts, strict=True)}
    registers = _registers(store, acc, chain)
    sides = [[var for var, part in own.items() if part.axis == axis] for axis in ("m", "n")]
    operands = operands_of(store, unit, *sides)
    if registers is None or operands is None or not _is_alike(store, terms, threads):
        return None
    own |= registers
    for axis, load in zip(("m", "n"), operands, strict=True):
        rows = {
            var: 1 if part.home == "lane" else part.stride
            for var, part in own.items()
            if part.axis == axis
        }
        if not _lies_in_rows(load, terms.var, rows, own.keys(), steps):
            return None
    start = {var: constant(0) for var in (*own, terms.var)}
    first = [
        BufferLoad(load.buffer, tuple(substitute_index(i, start) for i in load.indices))
        for load in operands
    ]
    indices = tuple(substitute_index(index, start) for index in store.indices)
    product = MultiplyTiles(unit, store.targets[0], indices, *first)
    return TileNest(product, tuple(loop for loop in chain if loop.var not in own))


def _is_alike(store: Store, terms: For, threads: Sequence[Binding]) -> bool:
    """Whether a statement happens for all threads or for none of them."""
    own = {terms.var, *(binding.var for binding in threads)}
    return all(own.isdisjoint(variables(guard.index)) for guard in store.predicates)


def _registers(
    store: Store, acc: Fragment, chain: tuple[For, ...]
) -> dict[LoopVar, FragmentPart] | None:
    """The loops over the results of a unit that a thread has, which follow each other as the unit
    has them; None where they do not.
    """
    if not adds_in_registers(store):
        return None
    form, rest = flatten(store.targets[0], store.indices)
    parts = {part.step: part for part in acc.parts if part.home == "register"}
    found: dict[LoopVar, FragmentPart] = {}
    for loop in chain:
        step = form.coefficient(loop.var)
        if step % acc.registers == 0:
            continue
        if step not in parts or parts[step].extent != loop.extent:
            return None
        found[loop.var] = parts.pop(step)
    known = {loop.var for loop in chain}
    apart = all(v in known or c % acc.registers == 0 for v, c in form.terms)
    return found if apart and not (rest or parts or form.const % acc.registers) else None


def _lies_in_rows(
    load: BufferLoad,
    terms: LoopVar,
    rows: Mapping[LoopVar, int],
    own: Collection[LoopVar],
    steps: Steps,
) -> bool:
    """Whether an operand lies as a unit reads it.

    Args:
        load: of an element.
        terms: the variable of the terms.
        rows: how many rows a step of each variable is.
        own: the variables of what is inside the unit.
        steps: what variables are multiples of.
    """
    size, swizzle = size_of(load.buffer.dtype), load.buffer.swizzle
    row, piece = ROW_BYTES // size, ROW_BYTES // size // PIECES
    known = (row, piece, PIECES)
    if swizzle is None or (int(swizzle.row), swizzle.piece, int(swizzle.pieces)) != known:
        return False
    form, rest = flatten(load.buffer, load.indices)
    along = [i for i in load.indices if isinstance(i, Affine) and i.coefficient(terms)]
    if rest or len(along) != 1 or form.coefficient(terms) != 1 or form.const % (row * PIECES):
        return False
    for var, coefficient in form.terms:
        if var in own or var is terms:
            if var is not terms and coefficient != rows.get(var, 0) * row:
                return False
        elif coefficient * steps.get(var, 1) % (row * PIECES):
            inside = along[0].coefficient(var) == coefficient
            if not inside or coefficient * steps.get(var, 1) % piece:
                return False
    return True
