"""Conditions of choices as conjunctions of affine tests: made of predicates, and without those that
always hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from codegen.passes.affine import Ranges, decide, variables
from sketch.lang.affine import UNBOUNDED
from sketch.lang.dtypes import BOOL
from sketch.lang.expr import Binary, Const, Expr, Select
from sketch.nest.intervals import predicates_of
from sketch.nest.loopnest import AffineValue, Predicate


def condition_of(predicates: Iterable[Predicate]) -> Expr | None:
    """That all predicates hold; None: nothing is asked."""
    condition: Expr | None = None
    for predicate in predicates:
        for test in _tests(predicate):
            condition = test if condition is None else Binary("and", condition, test, BOOL)
    return condition


def _tests(predicate: Predicate) -> Iterator[Expr]:
    index = AffineValue(predicate.index)
    if predicate.low > -UNBOUNDED:
        yield Binary("ge", index, Const(predicate.low, "int64"), BOOL)
    if predicate.high < UNBOUNDED:
        yield Binary("lt", index, Const(predicate.high, "int64"), BOOL)


def holds(predicate: Predicate, ranges: Ranges) -> bool:
    """Whether a predicate holds for all values of its variables, as far as they are known."""
    return variables(predicate.index) <= ranges.keys() and decide(predicate, ranges) is True


def open_part(condition: Expr, ranges: Ranges) -> Expr | None:
    """The part of a conjunction that does not always hold; None: there is none."""
    if isinstance(condition, Binary) and condition.op == "and":
        lhs, rhs = open_part(condition.lhs, ranges), open_part(condition.rhs, ranges)
        if lhs is condition.lhs and rhs is condition.rhs:
            return condition
        return rhs if lhs is None else lhs if rhs is None else Binary("and", lhs, rhs, BOOL)
    tests = predicates_of(condition)
    always = tests is not None and all(holds(test, ranges) for test in tests)
    return None if always else condition


def without_tests(ranges: Ranges, node: Expr) -> Expr:
    """A choice without the tests that always hold; other nodes as they are."""
    if not isinstance(node, Select):
        return node
    condition = open_part(node.condition, ranges)
    if condition is None:
        return node.then
    return node if condition is node.condition else replace(node, condition=condition)
