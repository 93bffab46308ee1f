"""The structural key on random expressions: spelling never shows, structure always does."""

from hypothesis import given
from hypothesis import strategies as st

from sketch.dag.dag import ComputeDAG
from sketch.lang.expr import binary
from sketch.lang.tensor import compute, placeholder
from tests.support.examples import examples

trees = st.recursive(
    st.sampled_from([0, 1, 2]),
    lambda inner: st.tuples(st.sampled_from(["add", "mul", "sub", "max", "div"]), inner, inner),
    max_leaves=8,
)
COMMUTATIVE = ("add", "mul", "max")


def build(tree, swap, names, order):
    inputs = [placeholder((5,), name=names[n]) for n in range(3)]

    def node(part, i):
        if isinstance(part, int):
            return inputs[order[part]][i] + 0.5
        op, lhs, rhs = part
        if swap and op in COMMUTATIVE:
            lhs, rhs = rhs, lhs
        return binary(op, node(lhs, i), node(rhs, i))

    return ComputeDAG([compute((5,), lambda i: node(tree, i) + 1.0, name=names[3])])


@examples(200)
@given(trees, st.permutations(range(3)))
def test_names_and_operand_order_do_not_show(tree, order):
    key = build(tree, False, ("a", "b", "c", "out"), (0, 1, 2)).key
    assert key == build(tree, True, ("x", "y", "z", "w"), (0, 1, 2)).key
    assert key == build(tree, False, ("c", "a", "b", "d"), order).key


@examples(100)
@given(trees)
def test_structure_shows(tree):
    key = build(tree, False, ("a", "b", "c", "out"), (0, 1, 2)).key
    assert key != build(("sub", tree, tree), False, ("a", "b", "c", "out"), (0, 1, 2)).key
