"""The one place that walks nests: nodes, stores with what is around them, and loads of values.

What rebuilds nests, runs them or prints them has a walk of its own, since it does something on
leaving a node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TypeVar

from sketch.lang.expr import Expr
from sketch.lang.rewrite import children
from sketch.nest.loopnest import (
    Affine,
    AffineValue,
    Allocate,
    Branch,
    Buffer,
    BufferLoad,
    Index,
    Loop,
    LoopVar,
    Node,
    Quasi,
    Store,
)

Context = TypeVar("Context")


def walk(nodes: Sequence[Node]) -> Iterator[Node]:
    """All nodes, parents first."""
    pending = [*reversed(nodes)]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, (Loop, Allocate)):
            pending += node.body[::-1]
        elif isinstance(node, Branch):
            for case in reversed(node.cases):
                pending += case.body[::-1]


def bodies(node: Node) -> tuple[tuple[Node, ...], ...]:
    """What a node contains: the body of a loop or an allocation, those of a branch's cases."""
    if isinstance(node, Store):
        return ()
    if isinstance(node, Branch):
        return tuple([case.body for case in node.cases])
    return (node.body,)


def stores_within(
    nodes: Sequence[Node], context: Context, enter: Callable[[Context, Loop | Allocate], Context]
) -> Iterator[tuple[Store, Context]]:
    """Every store with what is known there, in order of execution.

    Args:
        nodes: where to look.
        context: what is known around ``nodes``.
        enter: what is known inside a node, from what is known around it; asked once per node.
    """
    found: list[tuple[Store, Context]] = []
    _collect(nodes, context, enter, found)
    return iter(found)


def _collect(
    nodes: Sequence[Node],
    context: Context,
    enter: Callable[[Context, Loop | Allocate], Context],
    found: list[tuple[Store, Context]],
) -> None:
    """Append to ``found``: a generator inside each other would take twice the time."""
    for node in nodes:
        if isinstance(node, Store):
            found.append((node, context))
        elif isinstance(node, Branch):
            for case in node.cases:
                _collect(case.body, context, enter, found)
        else:
            _collect(node.body, enter(context, node), enter, found)


def stores(nodes: Sequence[Node]) -> Iterator[tuple[Store, tuple[Loop, ...]]]:
    """Every store with the loops around it inside ``nodes``, outermost first."""
    around: tuple[Loop, ...] = ()
    return stores_within(nodes, around, _inside_loop)


def _inside_loop(around: tuple[Loop, ...], node: Loop | Allocate) -> tuple[Loop, ...]:
    return (*around, node) if isinstance(node, Loop) else around


def walk_value(value: Expr) -> Iterator[Expr]:
    """A value's nodes, parents first; shared nodes once; not inside affine indices."""
    seen: set[int] = set()
    pending = [value]
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        operands = value_operands(node)
        if operands:
            pending.extend(reversed(operands))


def value_operands(node: Expr) -> Sequence[Expr]:
    """What a node is computed from; of a load, the indices that are not affine."""
    if isinstance(node, BufferLoad):
        return [index.expr for index in node.indices if isinstance(index, Quasi)]
    return children(node)


def buffer_loads(value: Expr) -> Iterator[BufferLoad]:
    """All loads of a value, those inside indices too."""
    return (node for node in walk_value(value) if isinstance(node, BufferLoad))


@lru_cache(maxsize=256)  # every pass asks, and most statements stay as they are in most passes
def store_loads(store: Store) -> tuple[BufferLoad, ...]:
    """All loads of a statement: in its values and in quasi-affine target indices."""
    quasi = [index.expr for index in store.indices if isinstance(index, Quasi)]
    return tuple([load for value in (*store.values, *quasi) for load in buffer_loads(value)])


def accesses(store: Store) -> Iterator[tuple[Buffer, tuple[Index, ...]]]:
    """(buffer, indices) of every access, targets first."""
    for target in store.targets:
        yield target, store.indices
    for load in store_loads(store):
        yield load.buffer, load.indices


def free_values(value: Expr) -> Iterator[LoopVar]:
    """Loop variables that are used as values (not inside affine indices of loads)."""
    for node in walk_value(value):
        match node:
            case LoopVar():
                yield node
            case AffineValue(index):
                yield from (var for var, _ in index.terms)


def index_variables(index: Index) -> set[LoopVar]:
    """The loop variables that an index depends on."""
    if isinstance(index, Affine):
        return {var for var, _ in index.terms}
    # loads inside the indices of loads are among the loads
    plain = (i for load in buffer_loads(index.expr) for i in load.indices if isinstance(i, Affine))
    return {var for form in plain for var, _ in form.terms} | set(free_values(index.expr))
