"""What is rebuilt of the same parts is what it was."""

from __future__ import annotations

import pytest

from sketch.lang.expr import Axis, Const, binary
from sketch.lang.rewrite import reused, rewrite

A, B = Axis("a", 4, "spatial"), Axis("b", 4, "spatial")


@pytest.mark.parametrize(
    "new", [(A,), (A, B, A), (B, A), (Axis("a", 4, "spatial"), B), ()], ids=range(5)
)
def test_other_parts_give_another_sequence(new: tuple[Axis, ...]) -> None:
    """Fewer, more, in another order, equal but not the same."""
    old = (A, B)
    assert reused(new, old) is not old and reused(new, old) == tuple(new)


def test_the_same_parts_give_the_old_sequence() -> None:
    old = (A, B)
    assert reused([A, B], old) is old
    assert reused([], ()) == ()


def test_an_expression_without_a_change_comes_back_itself() -> None:
    expr = binary("add", binary("mul", A, Const(3, "int64")), B)
    assert rewrite(expr, lambda node: None) is expr
    assert rewrite(expr, lambda node: A if node is B else None) is not expr
