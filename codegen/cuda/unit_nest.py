"""Which nest of a thread's loops is what a tensor unit computes, and what its loops are for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from codegen.cuda.device import Binding, For
from codegen.passes.affine import flatten, variables
from sketch.lang.expr import Binary, Cast, Expr, Unary
from sketch.lang.operator_names import ROUND_TF32
from sketch.lang.reducers import is_sum
from sketch.nest.loopnest import Affine, BufferLoad, LoopVar, Scope, Store
from sketch.target.fragments import Fragment, FragmentPart
from sketch.target.units import TensorUnit


@dataclass(frozen=True, slots=True, eq=False)
class UnitOperand:
    """An operand in a nest.

    Attributes:
        load: of an element.
        fragment: how a warp has it.
        dim: the index that its rows (or columns) walk, ``step`` coordinates at a time.
        step: see ``dim``.
        registers: the loop over those of a thread that are rows apart, if there is one.
        copies: the loops over units that have other parts of it.
    """

    load: BufferLoad
    fragment: Fragment
    dim: int
    step: int
    registers: For | None
    copies: tuple[For, ...]


@dataclass(frozen=True, slots=True, eq=False)
class UnitNest:
    """A nest that a unit computes."""

    unit: TensorUnit
    terms: For
    lanes: tuple[Binding, ...]
    store: Store
    lhs: UnitOperand
    rhs: UnitOperand


def is_alike_in_a_warp(nest: UnitNest, threads: tuple[Binding, ...]) -> bool:
    """Whether a statement happens for all products of a unit, or for none of them."""
    own = {nest.terms.var, *(binding.var for binding in threads)}
    for side in (nest.lhs, nest.rhs):
        own |= {loop.var for loop in side.copies}
        own |= set() if side.registers is None else {side.registers.var}
    return all(own.isdisjoint(variables(guard.index)) for guard in nest.store.predicates)


def unit_nest_of(
    unit: TensorUnit,
    lanes: tuple[Binding, ...],
    terms: For,
    chain: tuple[For, ...],
    store: Store,
) -> UnitNest | None:
    """How a unit computes a nest, if it does.

    Args:
        unit: the tensor unit.
        lanes: the innermost threads.
        terms: the loop over what it adds.
        chain: the loops inside.
        store: the statement.
    """
    assert unit.fragments is not None
    lhs, rhs, acc = unit.fragments
    if terms.extent != unit.k or not adds_in_registers(store):
        return None
    own = sorted((p for p in acc.parts if p.home == "lane"), key=lambda p: -p.step)
    shapes = [(part.extent, part.stride) for part in own]
    if [(lane.extent, lane.stride) for lane in lanes] != shapes:
        return None
    loads = operands_of(store, unit, [lanes[0].var], [lanes[1].var])
    if loads is None:
        return None
    first = _side(loads[0], lhs, acc.along("m"), lanes[0].var, chain)
    second = _side(loads[1], rhs, acc.along("n"), lanes[1].var, chain)
    if first is None or second is None:
        return None
    use = UnitNest(unit, terms, lanes, store, first, second)
    return use if _registers_are_in_order(use, chain, acc) else None


def adds_in_registers(store: Store) -> bool:
    """Whether a statement adds to private results."""
    single = len(store.targets) == 1 and store.reducer is not None
    if not single or store.reducer is None or not is_sum(store.reducer):
        return False
    return store.targets[0].scope is Scope.LOCAL


def operands_of(
    store: Store, unit: TensorUnit, rows: Sequence[LoopVar], columns: Sequence[LoopVar]
) -> tuple[BufferLoad, BufferLoad] | None:
    """What is multiplied, from shared memory: the operand of the rows, and that of the columns.

    Args:
        store: the statement.
        unit: whose types they have.
        rows: variables of lanes that all walk the first operand alone.
        columns: those that all walk the second one alone.
    """
    product = store.values[0]
    if not isinstance(product, Binary) or product.op != "mul" or product.dtype != unit.acc:
        return None
    one, other = _loaded(product.lhs, unit), _loaded(product.rhs, unit)
    if one is None or other is None:
        return None
    wanted = [[True] * len(rows), [False] * len(columns)]
    for lhs, rhs in ((one, other), (other, one)):
        types = (lhs.dtype, rhs.dtype) == (unit.lhs, unit.rhs)
        walked = [[_uses(lhs, var) for var in side] for side in (rows, columns)]
        unwalked = [[not _uses(rhs, var) for var in side] for side in (rows, columns)]
        if types and walked == unwalked == wanted:
            return lhs, rhs
    return None


def _loaded(factor: Expr, unit: TensorUnit) -> BufferLoad | None:
    rounded = isinstance(factor, Unary) and factor.op == ROUND_TF32
    if rounded != unit.rounds:
        return None
    load = factor.operand if isinstance(factor, Cast | Unary) else factor
    if not isinstance(load, BufferLoad) or load.buffer.scope is not Scope.SHARED:
        return None
    return load if all(isinstance(index, Affine) for index in load.indices) else None


def _uses(load: BufferLoad, var: LoopVar) -> bool:
    return any(isinstance(i, Affine) and i.coefficient(var) != 0 for i in load.indices)


def _side(
    load: BufferLoad,
    fragment: Fragment,
    results: Sequence[FragmentPart],
    lane: LoopVar,
    chain: tuple[For, ...],
) -> UnitOperand | None:
    """An operand, if its elements are where the results of a unit are."""
    dims = [d for d, i in enumerate(load.indices) if isinstance(i, Affine) and i.coefficient(lane)]
    if len(dims) != 1:
        return None
    index = load.indices[dims[0]]
    assert isinstance(index, Affine)
    step = index.coefficient(lane)
    found = []
    for part in results:
        if part.home == "register":
            loops = [
                loop
                for loop in chain
                if loop.extent == part.extent and index.coefficient(loop.var) == part.stride * step
            ]
            if len(loops) != 1:
                return None
            found += loops
    copies = tuple(loop for loop in chain if loop not in found and _uses(load, loop.var))
    return UnitOperand(load, fragment, dims[0], step, found[0] if found else None, copies)


def _registers_are_in_order(use: UnitNest, chain: tuple[For, ...], acc: Fragment) -> bool:
    """Whether the results of a unit follow each other as its registers do."""
    form, rest = flatten(use.store.targets[0], use.store.indices)
    sides = {"m": use.lhs, "n": use.rhs}
    wanted: dict[LoopVar, int] = {}
    for part in acc.parts:
        loop = sides[part.axis].registers if part.home == "register" else None
        if loop is not None:
            wanted[loop.var] = part.step
    others = {loop.var for loop in (*use.lhs.copies, *use.rhs.copies)}
    known = {loop.var for loop in chain} == others | wanted.keys()
    disjoint = not {loop.var for loop in use.lhs.copies} & {loop.var for loop in use.rhs.copies}
    count = acc.registers
    apart = form.const % count == 0 and all(
        c == wanted[v] if v in wanted else v in others and c % count == 0 for v, c in form.terms
    )
    return known and disjoint and apart and not rest
