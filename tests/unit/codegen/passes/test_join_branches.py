"""Branches on one sum become one, with nothing copied and every value doing what it did."""

from __future__ import annotations

import pytest

from codegen.passes.join_branches import joined
from sketch.lang.expr import Const
from sketch.nest.loopnest import (
    Affine,
    Branch,
    Buffer,
    Case,
    Loop,
    LoopKind,
    LoopVar,
    Node,
    Scope,
    Store,
)
from sketch.nest.walk import stores

OUT = Buffer("out", "float32", (8,), (1,), (1,), Scope.OUTPUT, 8)
V, W = LoopVar("v"), LoopVar("w")
ON_V, ON_W = Affine(((V, 1),)), Affine(((W, 1),))
Ranges = dict[tuple[int, int], str]


def _store(tag: str) -> Store:
    return Store((OUT,), (Affine((), ord(tag)),), (Const(0.0, "float32"),))


def _branch(cases: Ranges, index: Affine = ON_V) -> Branch:
    return Branch(
        index,
        tuple(Case(*span, tuple(_store(tag) for tag in tags)) for span, tags in cases.items()),
    )


def _done(nodes: tuple[Node, ...], value: int) -> str:
    """The tags of what is executed for one value of the variable."""
    tags = ""
    for node in nodes:
        if isinstance(node, Store):
            (place,) = node.indices
            assert isinstance(place, Affine)
            tags += chr(place.const)
        else:
            assert isinstance(node, Branch)
            case = next(case for case in node.cases if case.low <= value <= case.high)
            tags += _done(case.body, value)
    return tags


def _count(nodes: tuple[Node, ...]) -> int:
    return sum(1 for _ in stores(nodes))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({(0, 8): "a", (12, 12): "b"}, {(0, 8): "c", (12, 12): "d"}),
        ({(0, 0): "a", (4, 8): "b", (12, 12): ""}, {(0, 8): "c", (12, 12): "d"}),
        ({(0, 8): "a", (12, 12): "b"}, {(0, 0): "c", (4, 4): "", (8, 8): "d", (12, 12): "e"}),
        ({(0, 0): "a", (4, 12): "b"}, {(0, 0): "", (4, 8): "c", (12, 12): ""}),
    ],
)
def test_two_branches_become_one(first: Ranges, second: Ranges) -> None:
    nodes = (_store("x"), _branch(first), _branch(second), _store("y"))
    after = joined(nodes)
    assert [type(node) for node in after] == [Store, Branch, Store]
    assert _count(after) == _count(nodes)
    for value in range(0, 13, 4):
        assert _done(after, value) == _done(nodes, value)


def test_all_that_follow_each_other_become_one_inside_of_loops_too() -> None:
    cases = {(0, 8): "a", (12, 12): "b"}
    body = (_branch(cases), _branch(cases), _branch(cases))
    (loop,) = joined((Loop(W, 4, 1, LoopKind.SERIAL, "spatial", body),))
    assert isinstance(loop, Loop)
    (branch,) = loop.body
    assert isinstance(branch, Branch)
    assert _done(loop.body, 0) == "aaa" and _done(loop.body, 12) == "bbb"


def test_others_stay_the_same_objects() -> None:
    cases = {(0, 8): "a", (12, 12): "b"}
    between = (_branch(cases), _store("x"), _branch(cases))
    assert joined(between) is between
    others = (_branch(cases), _branch(cases, ON_W))
    assert joined(others) is others
    overlapping = (_branch(cases), _branch({(0, 4): "c", (8, 12): "d"}))
    assert joined(overlapping) is overlapping
