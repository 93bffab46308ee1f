"""What the head of a kernel says: its parameters, and the type of its indices."""

from __future__ import annotations

from collections.abc import Iterator

from codegen.cuda.device import (
    Binding,
    Cooperative,
    DeviceFunction,
    Fetch,
    For,
    Move,
    Pipeline,
    points,
    walk_device,
)
from codegen.passes.affine import flatten
from sketch.lang.expr import Binary, Expr
from sketch.lang.operator_names import COMPARISON
from sketch.nest.intervals import affine_of
from sketch.nest.loopnest import Affine, AffineValue, Buffer, Quasi, Scope, Store
from sketch.nest.walk import accesses, buffer_loads, walk_value

_PRIVATE = (Scope.LOCAL, Scope.SHARED)
_INT_LIMIT = 2**31


def globals_of(function: DeviceFunction) -> tuple[set[Buffer], tuple[Buffer, ...]]:
    """Buffers in global memory: those that are written, and all in order of first use."""
    written: set[Buffer] = set()
    used: dict[Buffer, None] = {}
    for node in walk_device(function.body):
        if isinstance(node, Fetch):
            node = node.store
        if isinstance(node, Store):
            written.update(t for t in node.targets if t.scope not in _PRIVATE)
            used.update((b, None) for b, _ in accesses(node) if b.scope not in _PRIVATE)
        elif isinstance(node, Move):
            written.update(() if node.loads else (node.buffer,))
            used[node.buffer] = None
            inside = (i.expr for i in node.indices if isinstance(i, Quasi))
            used.update((load.buffer, None) for expr in inside for load in buffer_loads(expr))
    return written, tuple(used)


def index_type(function: DeviceFunction) -> str:
    """32-bit indices where neither an offset nor a coordinate can leave them."""
    bindings, reach = _shared_out(function)
    spans = {binding.var: binding.extent * binding.stride for binding in bindings}
    loops = [node for node in walk_device(function.body) if isinstance(node, For)]
    spans.update({loop.var: loop.extent * loop.stride for loop in loops})
    spans.update({shift.var: shift.most + 1 for shift in function.shifts})

    def span(form: Affine) -> int:
        return abs(form.const) + sum(abs(c) * spans[var] for var, c in form.terms)

    for loop in loops:
        reach = max(reach, spans[loop.var], *(span(p.index) for p in loop.clip))
    for node in walk_device(function.body):
        values: list[Expr] = []
        if isinstance(node, Fetch):
            values += () if node.condition is None else (node.condition,)
            node = node.store
        if isinstance(node, Store):
            values += node.values
            reach = max(reach, *(span(p.index) for p in node.predicates), 0)
            for buffer, indices in accesses(node):
                reach = max(reach, int(buffer.size), span(flatten(buffer, indices)[0]))
        elif isinstance(node, Move):
            place = flatten(node.buffer, node.indices)[0]
            reach = max(reach, int(node.buffer.size), span(place))
            reach = max(reach, *(span(p.index) for p in node.predicates), 0)
        reach = max(reach, *(span(form) for value in values for form in _forms(value)), 0)
    return "int" if reach < _INT_LIMIT else "long long"


def _forms(value: Expr) -> Iterator[Affine]:
    """What is computed with the type of indices within a value."""
    for node in walk_value(value):
        match node:
            case AffineValue(index):
                yield index
            case Binary(op, lhs, rhs) if op in COMPARISON:
                yield from filter(None, (affine_of(lhs), affine_of(rhs)))
            case _:
                pass


def _shared_out(function: DeviceFunction) -> tuple[list[Binding], int]:
    """The bindings of a function, and the largest linear index that they decode."""
    bindings = [*function.blocks, *function.threads]
    reach = max(function.grid, function.block)
    for node in walk_device(function.body):
        if isinstance(node, Cooperative | Pipeline):
            more = node.depth if isinstance(node, Pipeline) else function.block
            for each in node.bindings:  # tiles are counted beyond the last one
                ahead = more if isinstance(node, Pipeline) else 0
                bindings.append(Binding(each.var, each.extent + ahead, each.stride))
            reach = max(reach, points(node.bindings) + more)
    return bindings, reach
