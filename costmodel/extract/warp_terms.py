"""What products on the tensor units of a GPU ask of a processor: the units, shared memory, issue.

A warp loads matrices of 8 rows of 16 bytes where rows of a tile lie so, a register of each thread
for each; elsewhere each thread loads its registers by itself, if need be element by element.  Units
of four warps read tiles by themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from costmodel.extract.access import Access
from costmodel.extract.analysis import Analysis, product
from costmodel.extract.gpu_kernel import KernelShape, unit_macs
from costmodel.extract.gpu_lanes import wavefronts
from costmodel.extract.quantity import Quantity, where
from costmodel.extract.statement import UNROLLED_KINDS, LoopInfo, StoreSite
from sketch.lang.expr import Binary, Unary
from sketch.lang.operator_names import ROUND_TF32
from sketch.nest.loopnest import LoopKind, Scope, Store
from sketch.population.feasible_gpu import threads_of_unit
from sketch.target.fragments import REGISTER_BYTES, ROW_BYTES, WARP

_ROWS: Final = 8.0  # of a matrix; the lanes of one row are those of 16 bytes
_ROW_LANES: Final = 4.0
_TURNED_BYTES: Final = 2  # of elements that a load of matrices can turn
_MATRICES: Final = 4.0  # that a warp loads at a time
_RESULTS: Final = 4.0  # of a unit in a lane
_JOINING: Final = 2.0  # instructions to put an element into its place in a register
_GROUP_WARPS: Final = 4.0  # of a unit that reads tiles by itself
_DESCRIBING: Final = 8.0  # instructions of a warp that describe the tiles of such a product
_ROUNDING: Final = 4.0  # that round an element in a tile: of 4, a load and a store, and addresses


@dataclass(frozen=True, slots=True)
class UnitUse:
    """Of one block, [P] or fixed.

    Attributes:
        rate: multiply-adds of the tensor units in a cycle.
        cycles: of the tensor units.
        issue: instructions of warps: products, and loads of their operands.
        wavefronts: passes of shared memory.
        conflicts: passes of one register's load, mean of the operands.
        loaded: bytes of operands that come from shared memory.
    """

    rate: float
    cycles: Quantity
    issue: Quantity
    wavefronts: Quantity
    conflicts: Quantity
    loaded: Quantity


def unit_use(analysis: Analysis, kernel: KernelShape) -> UnitUse:
    """Of the main statement, which a tensor unit computes."""
    main = analysis.main
    together = threads_of_unit((loop.kind, loop.extent) for loop in main.loops)
    macs = product(tuple(p for p in main.loops if p.kind is not LoopKind.BLOCK))
    rate = unit_macs(main.store, analysis.target, together)
    if together > WARP:
        return _of_tiles(analysis, macs, rate)
    return _of_warps(analysis, kernel, macs, rate)


def _of_tiles(analysis: Analysis, macs: Quantity, rate: float) -> UnitUse:
    """Of units that read tiles by themselves, each all of its operands."""
    main = analysis.main
    operands = [a for a in analysis.accesses if a.site is main and _is_operand(a)]
    terms = next(p for p in main.loops if p.kind is LoopKind.TENSOR).extent
    rows = [_rows_of_unit(main, access) for access in operands]
    units = macs / (rows[0] * rows[1] * terms)
    loaded: Quantity = 0.0
    for access, count in zip(operands, rows, strict=True):
        loaded = loaded + units * count * terms * access.element_bytes
    passes = loaded / ROW_BYTES
    issue: Quantity = units * _GROUP_WARPS * _DESCRIBING
    if _is_rounded(main.store):
        # each element where it lies: it is read, and written
        for access in operands:
            elements = product(tuple(p for p in main.loops if _walks(p, access)))
            passes = passes + 2.0 * elements * access.element_bytes / ROW_BYTES
            issue = issue + elements / float(WARP) * _ROUNDING
    return UnitUse(rate, macs / rate, issue, passes, 1.0, loaded)


def _walks(loop: LoopInfo, access: Access) -> bool:
    """Whether each trip has other elements of an operand, of the same tile or of another one."""
    own = access.uses(loop.var) and loop.kind is not LoopKind.BLOCK
    return own or loop.kind is LoopKind.SERIAL


def _is_rounded(store: Store) -> bool:
    """Whether elements are rounded before they are multiplied."""
    product = store.values[0]
    factors = (product.lhs, product.rhs) if isinstance(product, Binary) else ()
    return any(isinstance(factor, Unary) and factor.op == ROUND_TF32 for factor in factors)


def _rows_of_unit(main: StoreSite, access: Access) -> Quantity:
    """Rows of an operand that a unit reads: of its lanes and of the results of each of them, which
    are 8 rows apart or less.
    """
    lane = _lane(main, access)
    near = _ROWS * access.address_step(lane) / lane.stride
    rows: Quantity = 1.0
    for loop in (*_lanes(main), *(p for p in main.loops if p.kind in UNROLLED_KINDS)):
        step = access.address_step(loop)
        inside = (loop.kind is LoopKind.THREAD) | (step <= near)
        rows = rows * where(access.uses(loop.var) & inside, loop.extent, 1.0)
    return rows


def _of_warps(analysis: Analysis, kernel: KernelShape, macs: Quantity, rate: float) -> UnitUse:
    """Of units of single warps, whose lanes load their parts of the operands."""
    main = analysis.main
    own = [p for p in main.loops if p.kind not in (LoopKind.BLOCK, LoopKind.THREAD)]
    serial = [p for p in own if p.kind is LoopKind.SERIAL]
    warps = kernel.threads / float(WARP)
    steps = product(tuple(serial)) * warps
    terms = next(p for p in own if p.kind is LoopKind.TENSOR)
    copies = tuple(p for p in own if p.kind in UNROLLED_KINDS)
    operands = [a for a in analysis.accesses if a.site is main and _is_operand(a)]
    products = steps * product(copies) / _RESULTS
    issue: Quantity = products
    passes: Quantity = 0.0
    registers: Quantity = 0.0
    each: list[Quantity] = []
    for access in operands:
        use = _operand(analysis, access, terms, copies)
        issue, passes = issue + steps * use.instructions, passes + steps * use.passes
        registers = registers + steps * use.registers
        each.append(use.conflicts)
    conflicts = sum(each[1:], each[0]) / float(len(each)) if each else 1.0
    loaded = registers * float(REGISTER_BYTES * WARP)
    return UnitUse(rate, macs / rate, issue, passes, conflicts, loaded)


def _is_operand(access: Access) -> bool:
    return access.buffer.scope is Scope.SHARED


@dataclass(frozen=True, slots=True, eq=False)
class _Operand:
    """Of one operand of all units of a warp: registers of a thread, instructions and passes that
    load them, and passes of one register.
    """

    registers: Quantity
    instructions: Quantity
    passes: Quantity
    conflicts: Quantity


def _operand(
    analysis: Analysis, access: Access, terms: LoopInfo, copies: tuple[LoopInfo, ...]
) -> _Operand:
    programs, size = analysis.programs, access.element_bytes
    lane = _lane(analysis.main, access)
    step, along = access.address_step(lane) / lane.stride, access.address_step(terms)
    elements: Quantity = terms.extent * lane.extent
    for loop in copies:
        elements = elements * (loop.extent if access.uses(loop.var) else 1.0)
    registers = elements * float(size) / (REGISTER_BYTES * WARP)
    pack = float(REGISTER_BYTES // size)
    swizzle = access.buffer.swizzle
    rows = [(_ROWS, step), (_ROW_LANES, along * pack)]
    cost: Quantity = wavefronts(programs, WARP, size, rows, swizzle)
    whole = along == 1.0
    if size == _TURNED_BYTES:
        rows = [(_ROWS, along), (_ROW_LANES, step * pack)]
        turned = wavefronts(programs, WARP, size, rows, swizzle)
        columns = step == 1.0
        cost = where(whole, cost, where(columns, turned, cost))
        whole = whole | columns
    alone = registers * pack
    instructions = where(whole, registers / _MATRICES, alone * (1.0 + _JOINING))
    passes = where(whole, registers, alone) * cost
    return _Operand(registers, instructions, passes, cost)


def _lane(main: StoreSite, access: Access) -> LoopInfo:
    """The threads of a unit that have other rows, or columns, of an operand."""
    return next(loop for loop in _lanes(main) if access.uses(loop.var))


def _lanes(main: StoreSite) -> list[LoopInfo]:
    """The loops over the threads of a unit."""
    inner: list[LoopInfo] = []
    for loop in main.loops:
        if loop.kind is LoopKind.VTHREAD:
            inner.clear()
        elif loop.kind is LoopKind.THREAD:
            inner.append(loop)
    return inner
