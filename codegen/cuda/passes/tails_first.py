"""The tile of a reduction that is not whole comes first: it is copied before the loop over tiles.

    k in 0, 32, 64                               k in 0, 32, 64
      tile[d] = A[k + d] if k + d < 76   ->        tile[d] = A[k - 20 + d] if k - 20 + d >= 0
      acc += tile[d]                               acc += tile[d]

What is added is the same, and the zeros of the tile are before the tensor.  In a pipeline, the loop
copies whole tiles, and asks nothing (``Pipeline.later``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from codegen.cuda.conditions import condition_of
from codegen.cuda.device import (
    Binding,
    Cooperative,
    Declare,
    DeviceFunction,
    DeviceNode,
    For,
    walk_device,
)
from codegen.cuda.passes.whole_tiles import walks
from codegen.passes.affine import substitute_affine, variables
from codegen.passes.rewrite import substitute_expr, substitute_predicates, substitute_store
from sketch.lang.affine import UNBOUNDED
from sketch.lang.expr import Const, Expr, Select
from sketch.nest.intervals import predicates_of
from sketch.nest.loopnest import Affine, Buffer, Index, Predicate, Scope, Store
from sketch.nest.walk import store_loads

Nodes = tuple[DeviceNode, ...]


def tails_first(function: DeviceFunction) -> DeviceFunction:
    """The function with such tiles first in loops that will be pipelines."""
    return replace(function, body=_nodes(function.body))


def _nodes(nodes: Nodes) -> Nodes:
    return tuple(_node(node) for node in nodes)


def _node(node: DeviceNode) -> DeviceNode:
    if not isinstance(node, For):
        return node
    if len(node.body) == 1 and isinstance(node.body[0], For):
        # tiles that several loops walk: one of them is not whole again and again
        return node
    turned = _turned(node)
    return replace(node, body=_nodes(node.body)) if turned is None else turned


@dataclass(frozen=True, slots=True, eq=False)
class _Fill:
    """A copy into a shared tile that is zero beyond the end of the reduction.

    Attributes:
        node: the copy.
        dim: of the tile, that walks the reduction.
        end: of the reduction.
        own: the test of it.
        others: what else is tested.
        value: what is copied where all of it holds.
    """

    node: Cooperative
    dim: int
    end: int
    own: Predicate
    others: tuple[Predicate, ...]
    value: Expr

    @property
    def store(self) -> Store:
        """The copy of one element."""
        (store,) = self.node.body
        assert isinstance(store, Store)
        return store


def _turned(loop: For) -> For | None:
    """The loop with its last tile first; None where that changes anything, or nothing."""
    tiles = [n.buffer for n in loop.body if isinstance(n, Declare)]
    several = [b for b in tiles if b.scope is Scope.SHARED and int(b.tiles) > 1]
    if loop.clip or not several:
        return None
    fills: dict[Cooperative, _Fill] = {}
    for node in loop.body:
        if isinstance(node, Cooperative) and _depends(node.body, loop):
            found = _fill_of(node, loop)
            if found is None:
                return None
            fills[node] = found
    ends = {fill.end for fill in fills.values()}
    rest = tuple(node for node in loop.body if not isinstance(node, Cooperative))
    if len(ends) != 1 or _depends(rest, loop) or not _read_alike(rest, fills, loop):
        return None
    by = loop.extent * loop.stride - ends.pop()
    return replace(
        loop,
        body=tuple(
            _earlier(fills[node], loop, by)
            if isinstance(node, Cooperative) and node in fills
            else node
            for node in loop.body
        ),
    )


def _depends(nodes: Nodes, loop: For) -> bool:
    """Whether anything depends on the variable of the loop; nodes that are not known might."""
    anything = {loop.var: Affine(())}
    for node in walk_device(nodes):
        match node:
            case Store() if substitute_store(node, anything) is node:
                pass
            case For() if substitute_predicates(node.clip, anything) is node.clip:
                pass
            case Cooperative() | Declare():
                pass
            case _:
                return True
    return False


def _fill_of(node: Cooperative, loop: For) -> _Fill | None:
    (store,) = node.body if len(node.body) == 1 else (None,)
    if not isinstance(store, Store) or len(store.values) != 1 or store.predicates:
        return None
    if store.reducer is not None or _depends_on(store.indices, loop):
        return None
    tests, value = _tests_of(store.values[0])
    own = [test for test in tests if test.index.coefficient(loop.var)]
    walked = _walked(own[0], loop, node.bindings) if len(own) == 1 else None
    forms = [index for index in store.indices if isinstance(index, Affine)]
    dims = [n for n, form in enumerate(forms) if walked and form == Affine(((walked.var, 1),))]
    if len(dims) != 1 or len(forms) != len(store.indices):
        return None
    others = tuple(test for test in tests if test is not own[0])
    return _Fill(node, dims[0], own[0].high - own[0].index.const, own[0], others, value)


def _depends_on(indices: tuple[Index, ...], loop: For) -> bool:
    forms = (index for index in indices if isinstance(index, Affine))
    return any(form.coefficient(loop.var) for form in forms)


def _tests_of(value: Expr) -> tuple[list[Predicate], Expr]:
    """The tests without which a value is zero, and the value."""
    tests: list[Predicate] = []
    while isinstance(value, Select):
        found = predicates_of(value.condition)
        zero = isinstance(value.otherwise, Const) and value.otherwise.value == 0
        if found is None or not zero:
            break
        tests, value = [*tests, *found], value.then
    return tests, value


def _walked(test: Predicate, loop: For, bindings: tuple[Binding, ...]) -> Binding | None:
    """What walks a tile from where the loop is, if the test says where all tiles end."""
    inner = Affine(tuple(term for term in test.index.terms if term[0] is not loop.var))
    by_var = {binding.var: binding for binding in bindings}
    if test.low > -UNBOUNDED or test.high >= UNBOUNDED or len(inner.terms) != 1:
        return None
    ((var, coefficient),) = inner.terms
    found = by_var.get(var)
    if found is None or coefficient * test.index.coefficient(loop.var) != 1:
        return None
    return found if (found.extent, found.stride) == (loop.stride, 1) else None


def _read_alike(rest: Nodes, fills: Mapping[Cooperative, _Fill], loop: For) -> bool:
    """Whether each term is of one coordinate of the reduction, and all of a tile's are read."""
    dims = {fill.store.targets[0]: fill.dim for fill in fills.values()}
    loops = {node.var: node for node in walk_device(rest) if isinstance(node, For)}
    places = list(_places(rest, dims))
    first = next(iter(places), None)
    if first is None or not variables(first) <= loops.keys():
        return False
    same = all(place is not None and _equal(place, first) for place in places)
    return same and walks(first, loop.stride, loops)


def _places(rest: Nodes, dims: Mapping[Buffer, int]) -> Iterator[Affine | None]:
    """Where tiles are read, along the reduction; None where that is no affine form."""
    for node in walk_device(rest):
        for load in store_loads(node) if isinstance(node, Store) else ():
            if load.buffer in dims:
                index = load.indices[dims[load.buffer]]
                yield index if isinstance(index, Affine) else None


def _equal(one: Affine, other: Affine) -> bool:
    difference = one + other.scale(-1)
    return difference.const == 0 and not any(c for _, c in difference.terms)


def _earlier(fill: _Fill, loop: For, by: int) -> Cooperative:
    """The copy for tiles that start so many elements earlier."""
    values = {loop.var: Affine(((loop.var, 1),), -by)}
    index = substitute_affine(fill.own.index, values)
    own = Predicate(Affine(index.terms, index.const - fill.own.index.const), 0, UNBOUNDED)
    condition = condition_of((own, *substitute_predicates(fill.others, values)))
    assert condition is not None
    value = substitute_expr(fill.value, values)
    zero = Const(0, value.dtype)
    return replace(fill.node, body=(replace(fill.store, values=(Select(condition, value, zero),)),))
