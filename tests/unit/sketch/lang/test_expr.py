"""Building expressions and stages."""

import pickle

import pytest

from sketch.dag.printer import print_expr
from sketch.errors import ExpressionError
from sketch.lang import reducers
from sketch.lang.expr import Binary, Cast, Const, Load, as_expr, cast, select, unary
from sketch.lang.functions import all_of, any_of, equal, maximum
from sketch.lang.tensor import SharedBuffer, StoreMap, compute, placeholder, reduce_axis


@pytest.fixture
def data():
    return placeholder((4, 6), name="data")


def test_python_operators_build_nodes(data):
    node = 2 * data[0, 1] - data[1, 0] / 3
    assert print_expr(node) == "2*data[0, 1] - data[1, 0]/3"
    assert node.dtype == "float32"


def test_literals_take_the_dtype_of_the_other_operand(data):
    node = data[0, 0] + 1
    assert isinstance(node, Binary) and isinstance(node.rhs, Const)
    assert node.rhs.dtype == "float32" and isinstance(node.rhs.value, float)


def test_integer_identities_are_folded():
    axis = reduce_axis(5)
    assert axis + 0 is axis and axis * 1 is axis and axis // 1 is axis
    assert print_expr(axis * 0) == "0" and print_expr(as_expr(3) * 4) == "12"


def test_float_identities_are_kept(data):
    assert isinstance(data[0, 0] * 1.0, Binary)  # rounding and NaN stay the hardware's


def test_integer_and_float_promote_to_float(data):
    node = data[0, 0] + reduce_axis(3)
    assert node.dtype == "float32" and isinstance(node.rhs, Cast)


def test_parentheses_only_where_needed(data):
    a, b, c = data[0, 0], data[0, 1], data[0, 2]
    assert print_expr((a + b) * c) == "(data[0, 0] + data[0, 1])*data[0, 2]"
    assert print_expr(a - (b - c)) == "data[0, 0] - (data[0, 1] - data[0, 2])"
    assert print_expr(-(a + b)) == "-(data[0, 0] + data[0, 1])"


def test_comparisons_and_logic(data):
    i = reduce_axis(4, "i")
    node = any_of(all_of(i >= 1, i < 3), equal(i, 0))
    assert node.dtype == "bool" and print_expr(node) == "i >= 1 and i < 3 or i == 0"


@pytest.mark.parametrize(
    "build",
    [
        lambda x: x < 1 and x > 0,
        lambda x: all_of(x, x),
        lambda x: (x < 1) + 1,
        lambda x: as_expr(1) / 2,
        lambda x: unary("exp", reduce_axis(3)),
        lambda x: unary("gamma", x),
        lambda x: select(x, 1, 2),
        lambda x: as_expr("text"),
        lambda x: cast(x, "complex64"),
    ],
)
def test_wrong_operands_are_refused(data, build):
    with pytest.raises(ExpressionError):
        build(data[0, 0])


def test_select_promotes_its_branches(data):
    node = select(reduce_axis(3) < 1, data[0, 0], 0)
    assert node.dtype == "float32" and node.otherwise.dtype == "float32"


def test_tensor_index_rank_and_dtype(data):
    with pytest.raises(ExpressionError, match="2 dimensions"):
        data[0]
    with pytest.raises(ExpressionError, match="use integers"):
        data[0, 1.5]
    assert isinstance(data[0, 1], Load)


def test_compute_checks_arity_axes_and_nesting(data):
    with pytest.raises(ExpressionError, match="takes 1 indices"):
        compute((4, 6), lambda i: data[i, 0])
    k = axis = reduce_axis(6, "k")
    with pytest.raises(ExpressionError, match="belongs to no loop"):
        compute((4,), lambda i: data[i, k])
    with pytest.raises(ExpressionError, match="nested"):
        compute((4,), lambda i: reducers.sum(data[i, k], k) * 2)
    with pytest.raises(ExpressionError, match="'k' is used twice"):
        compute((4,), lambda i: reducers.sum(data[i, axis], axis=(axis, axis)))


@pytest.mark.parametrize("shape", [(0,), (-1, 2), (1.5,), (True,)])
def test_bad_shapes_are_refused(shape):
    with pytest.raises(ExpressionError, match="positive integers"):
        placeholder(shape)


def test_store_map_must_stay_in_its_buffer(data):
    short, whole = SharedBuffer("out", (20,)), SharedBuffer("out", (24,))
    with pytest.raises(ExpressionError, match="reaches elements"):
        compute((4, 6), lambda i, j: data[i, j], store=StoreMap(short, 0, (6, 1)))
    with pytest.raises(ExpressionError, match="strides"):
        compute((4, 6), lambda i, j: data[i, j], store=StoreMap(whole, 0, (1,)))


def test_reductions_check_dtype_and_axes(data):
    k = reduce_axis(6)
    with pytest.raises(ExpressionError, match="reduce axes"):
        reducers.sum(data[0, 0], ())
    reduce = reducers.max(data[0, k], k)
    assert reduce.reducer.identity[0].value == float("-inf")


def test_argmax_makes_two_outputs(data):
    k = reduce_axis(6)
    index, value = compute((4,), lambda i: reducers.argmax(k, data[i, k], k), name="best")
    assert (index.dtype, value.dtype) == ("int64", "float32")
    assert (index.name, value.name) == ("best.v0", "best.v1")


def test_nodes_survive_pickling_with_their_sharing(data):
    element = data[0, 1]
    node = pickle.loads(pickle.dumps(maximum(element, element * 2)))
    assert node.lhs is node.rhs.lhs


def test_errors_carry_what_where_and_hint():
    error = ExpressionError("what", "where", "hint")
    assert str(error) == "what | where | hint"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
