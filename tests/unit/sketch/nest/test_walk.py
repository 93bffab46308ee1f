"""The walk of nests: stores in order of execution, each with what is around it."""

from sketch.lang.expr import Const
from sketch.nest.loopnest import (
    Affine,
    Allocate,
    Branch,
    Buffer,
    BufferLoad,
    Case,
    Loop,
    LoopKind,
    LoopVar,
    Node,
    Quasi,
    Scope,
    Store,
)
from sketch.nest.walk import buffer_loads, stores, stores_within, walk


def _buffer(name: str, dtype: str = "float32") -> Buffer:
    return Buffer(name, dtype, (8,), (1,), (1,), Scope.LOCAL, 8)


def _store(name: str) -> Store:
    return Store((_buffer(name),), (Affine(()),), (Const(0.0, "float32"),))


def _loop(var: LoopVar, *body: Node) -> Loop:
    return Loop(var, 4, 1, LoopKind.SERIAL, "spatial", body)


OUTER, INNER = LoopVar("i"), LoopVar("j")
FIRST, SECOND, THIRD = _store("first"), _store("second"), _store("third")
CASES = (Case(0, 1, (FIRST,)), Case(2, 3, (_loop(INNER, SECOND),)))
NEST = (_loop(OUTER, Allocate(_buffer("private"), (Branch(Affine(((OUTER, 1),)), CASES),))), THIRD)


def test_stores_stand_in_order_with_the_loops_around_them() -> None:
    found = [(store, [loop.var for loop in loops]) for store, loops in stores(NEST)]
    assert found == [(FIRST, [OUTER]), (SECOND, [OUTER, INNER]), (THIRD, [])]


def test_what_is_known_inside_a_node_is_made_once() -> None:
    entered: list[Loop | Allocate] = []

    def enter(depth: int, node: Loop | Allocate) -> int:
        entered.append(node)
        return depth + 1

    depths = [depth for _, depth in stores_within(NEST, 0, enter)]
    assert depths == [2, 3, 0]
    assert len(entered) == 3


def test_walk_yields_parents_before_what_they_contain() -> None:
    kinds = [type(node).__name__ for node in walk(NEST)]
    assert kinds == ["Loop", "Allocate", "Branch", "Store", "Loop", "Store", "Store"]


def test_loads_inside_the_indices_of_loads_are_loads() -> None:
    position = BufferLoad(_buffer("positions", "int64"), (Affine(((OUTER, 1),)),))
    value = BufferLoad(_buffer("table"), (Quasi(position, 0, 7),))
    assert [load.buffer.name for load in buffer_loads(value)] == ["table", "positions"]
