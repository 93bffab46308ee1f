"""Elements that follow each other move between global memory and a thread as one.

    unrolled j in 0..4                       vector x[4] <- A[4*t ...]
      C[4*t + j] = f(A[4*t + j])      ->     unrolled j in 0..4: y[j] = f(x[j])
                                             C[4*t ...] <- vector y[4]

A buffer that is not loose starts at a multiple of 16 bytes, so a piece of it is aligned where all
other parts of its index are multiples of its length.  A guard stays if it holds for all elements of
a piece or for none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from codegen.cuda.device import (
    Cooperative,
    Declare,
    DeviceFunction,
    DeviceNode,
    For,
    Move,
)
from codegen.gpu.alignment import WIDEST
from codegen.passes.affine import constant, flatten
from codegen.passes.rewrite import map_expr, substitute_index, substitute_predicates
from sketch.lang.affine import UNBOUNDED
from sketch.lang.dtypes import size_of
from sketch.lang.expr import Expr, Select
from sketch.lang.rewrite import children
from sketch.nest.loopnest import (
    Affine,
    Buffer,
    BufferLoad,
    Index,
    LoopVar,
    Predicate,
    Scope,
    Store,
)
from sketch.nest.walk import index_variables

_LONGEST = 64  # bytes of a piece: several accesses, which the compiler overlaps
_GLOBAL = (Scope.INPUT, Scope.CONSTANT, Scope.OUTPUT, Scope.WORKSPACE)
Steps = Mapping[LoopVar, int]


def vectorize(function: DeviceFunction) -> DeviceFunction:
    """The function with wide accesses where elements follow each other for sure."""
    return replace(function, body=_nodes(function.body, function.steps))


def _nodes(nodes: tuple[DeviceNode, ...], steps: Steps) -> tuple[DeviceNode, ...]:
    return tuple(made for node in nodes for made in _node(node, steps))


def _node(node: DeviceNode, steps: Steps) -> tuple[DeviceNode, ...]:
    if isinstance(node, Cooperative) or not isinstance(node, For):
        return (node,)
    straight = node.unroll and node.stride == 1 and not node.clip and len(node.body) == 1
    if straight and isinstance(node.body[0], Store):
        return _Piece(node, node.body[0], steps).nodes()
    return (replace(node, body=_nodes(node.body, {**steps, node.var: node.stride})),)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A loop over elements that may follow each other, with one statement inside."""

    loop: For
    store: Store
    steps: Steps
    before: list[DeviceNode] = field(default_factory=list)

    def nodes(self) -> tuple[DeviceNode, ...]:
        guards = self._guards()
        if guards is None or len(self.store.targets) > 1:
            return (self.loop,)
        store = replace(self.store, predicates=guards)
        known: dict[int, BufferLoad] = {}
        for load in _certain_loads(store.values[0]):
            if id(load) not in known and self._is_piece(load.buffer, load.indices):
                known[id(load)] = self._loaded(load, guards)

        def leaf(node: Expr) -> Expr:
            return known.get(id(node), node)

        store = replace(store, values=tuple(map_expr(value, leaf) for value in store.values))
        after: tuple[DeviceNode, ...] = ()
        if store.reducer is None and self._is_piece(store.targets[0], store.indices):
            local = self._local(store.targets[0])
            move = self._move(store.targets[0], store.indices, local, guards, loads=False)
            self.before.append(Declare(local))
            store, after = replace(store, targets=(local,), indices=self._place()), (move,)
        if not known and not after:
            return (self.loop,)
        return (*self.before, replace(self.loop, body=(store,)), *after)

    def _loaded(self, load: BufferLoad, guards: tuple[Predicate, ...]) -> BufferLoad:
        """The load from a vector that is filled before the loop."""
        local = self._local(load.buffer)
        self.before.append(Declare(local))
        self.before.append(self._move(load.buffer, load.indices, local, guards, loads=True))
        return BufferLoad(local, self._place())

    def _place(self) -> tuple[Index, ...]:
        return (Affine(((self.loop.var, 1),)),)

    def _local(self, buffer: Buffer) -> Buffer:
        count = self.loop.extent
        name = f"{buffer.name}.vector"
        return Buffer(name, buffer.dtype, (count,), (1,), (1,), Scope.LOCAL, count)

    def _move(
        self,
        buffer: Buffer,
        indices: tuple[Index, ...],
        local: Buffer,
        guards: tuple[Predicate, ...],
        loads: bool,
    ) -> Move:
        start = {self.loop.var: constant(0)}
        first = tuple(substitute_index(index, start) for index in indices)
        return Move(buffer, first, local, loads, guards)

    def _is_piece(self, buffer: Buffer, indices: tuple[Index, ...]) -> bool:
        """Whether the elements of all trips are one aligned piece of global memory."""
        size, var = size_of(buffer.dtype), self.loop.var
        length = size * self.loop.extent
        fits = length <= WIDEST and length & (length - 1) == 0
        if buffer.loose or buffer.scope not in _GLOBAL or not (fits or length % WIDEST == 0):
            return False
        if length > _LONGEST or self.loop.extent == 1:
            return False
        units = min(WIDEST, length) // size
        form, rest = flatten(buffer, indices)
        depends = any(var in index_variables(index) for index, _ in rest)
        whole = all(stride % units == 0 for _, stride in rest)
        return not depends and whole and self._steps_over(form, units)

    def _steps_over(self, form: Affine, units: int) -> bool:
        return steps_over(form, self.loop.var, units, self.steps)

    def _guards(self) -> tuple[Predicate, ...] | None:
        """The guards of the statement for all trips together; None where they differ."""
        var, guards = self.loop.var, self.store.predicates
        if not whole(guards, var, self.loop.extent, self.steps):
            return None
        return substitute_predicates(guards, {var: constant(0)})


def steps_over(form: Affine, var: LoopVar, units: int, steps: Steps) -> bool:
    """Whether a form is a variable and multiples of ``units``.

    Args:
        form: of an index.
        var: the variable.
        units: how many elements a piece has.
        steps: of the other variables; 1 where there is none.
    """
    others = (c * steps.get(v, 1) for v, c in form.terms if v is not var)
    one = form.coefficient(var) == 1
    return one and form.const % units == 0 and all(part % units == 0 for part in others)


def whole(guards: Sequence[Predicate], var: LoopVar, count: int, steps: Steps) -> bool:
    """Whether guards hold for all elements of a piece, or for none of them.

    Args:
        guards: of the elements.
        var: the variable that walks the piece.
        count: its values: 0 to ``count`` - 1.
        steps: of the other variables; 1 where there is none.
    """
    for guard in guards:
        if guard.index.coefficient(var) == 0:
            continue
        ends = [end for end in (guard.low, guard.high) if abs(end) < UNBOUNDED]
        if any(end % count for end in ends) or not steps_over(guard.index, var, count, steps):
            return False
    return True


def _certain_loads(value: Expr) -> Iterator[BufferLoad]:
    """Loads that happen whatever the conditions of selects are."""
    pending = [value]
    while pending:
        node = pending.pop()
        if isinstance(node, BufferLoad):
            yield node
        elif isinstance(node, Select):
            pending.append(node.condition)
        else:
            pending.extend(children(node))
