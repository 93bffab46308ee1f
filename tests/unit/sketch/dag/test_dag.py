"""ComputeDAG: order, checks, FLOPs, structural key, printing."""

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from sketch.dag.dag import ComputeDAG
from sketch.errors import ExpressionError
from sketch.lang import reducers
from sketch.lang.expr import Axis, cast, select, unary
from sketch.lang.functions import all_of, maximum
from sketch.lang.tensor import SharedBuffer, StoreMap, compute, placeholder, reduce_axis
from tests.support import workloads
from tests.support.workloads import WORKLOADS


def two_inputs(n=8, constant=False):
    return placeholder((n, n), name="A"), placeholder((n, n), name="B", constant=constant)


def test_stages_and_inputs_are_ordered():
    dag = workloads.conv2d_residual()
    assert [op.name for op in dag.stages] == ["conv2d", "bias_add", "add", "relu"]
    assert [t.name for t in dag.inputs] == ["data", "weight", "bias", "shortcut"]


def test_neighbours():
    dag = workloads.softmax_dag()
    top, powers, total, result = dag.stages
    assert dag.consumers(dag.inputs[0].op) == (top, powers)
    assert dag.producers(result) == (powers, total)
    assert dag.is_output(result) and not dag.is_output(powers)
    assert dag.stage("softmax.sum") is total
    with pytest.raises(ExpressionError, match=r"softmax\.max"):
        dag.stage("absent")


def test_duplicate_names_and_bad_outputs_are_refused():
    a, _ = two_inputs()
    first = compute((8, 8), lambda i, j: a[i, j] + 1.0, name="same")
    second = compute((8, 8), lambda i, j: first[i, j] * 2.0, name="same")
    with pytest.raises(ExpressionError, match="'same'"):
        ComputeDAG([second])
    with pytest.raises(ExpressionError, match="is an input"):
        ComputeDAG([a])
    with pytest.raises(ExpressionError, match="at least one"):
        ComputeDAG([])
    with pytest.raises(ExpressionError, match="twice"):
        ComputeDAG([first, first])


@pytest.mark.parametrize("name", WORKLOADS)
def test_printed_workloads(name, golden):
    golden(name, str(WORKLOADS[name]()))


def test_matmul_prints_in_field_notation():
    text = str(workloads.matmul_dag(512, 512, 512))
    assert "C(i, j) += A[i, k]*B[k, j]" in text


def test_flops():
    assert workloads.matmul_dag(24, 40, 36).flops == 2 * 24 * 40 * 36
    conv = workloads.conv2d_relu(9, 8, 16)
    assert conv.stage_flops(conv.stages[0]) == 2 * 9 * 9 * 16 * 9 * 8  # padding tests are free
    assert conv.flops == 2 * 9 * 9 * 16 * 9 * 8 + 2 * 9 * 9 * 16
    assert workloads.stencil(18, 34).flops == 16 * 32 * 6


@pytest.mark.parametrize(("dtype", "operations"), [("int32", 2), ("int64", 8)])
def test_flops_of_integers(dtype, operations):
    """Bounds tests are free where they are no arithmetic of the stage's own type."""
    a = placeholder((8,), dtype, name="a")
    r = reduce_axis(3, "r")
    stage = compute(
        (8,),
        lambda i: reducers.sum(
            select(all_of(i + r - 1 >= 0, i + r - 1 < 8), a[i + r - 1] * a[i], 0), r
        ),
        name="C",
    )
    assert ComputeDAG([stage]).flops == 8 * 3 * operations


def test_flops_of_calls_and_selects():
    a, _ = two_inputs(4)
    stage = compute(
        (4, 4), lambda i, j: select(a[i, j] > 0, unary("exp", a[i, j]) + 1.0, a[i, j]), name="s"
    )
    assert ComputeDAG([stage]).flops == 16 * 3


def test_flops_of_integer_stages():
    a = placeholder((4,), "int32", "a")
    assert ComputeDAG([compute((4,), lambda i: a[i] * 2 + 1, name="s")]).flops == 8


# --- structural key -------------------------------------------------------------------------


def product(names, swap=False, constant=True, n=8, extra=False):
    lhs = placeholder((n, n), name=names[0])
    rhs = placeholder((n, n), name=names[1], constant=constant)
    k = reduce_axis(n, names[2])
    z = reduce_axis(1, "dead")
    axes = (k, z) if extra else (k,)

    def body(i, j):
        a, b = lhs[i, k + z if extra else k], rhs[k, j]
        return reducers.sum(b * a if swap else a * b, axis=axes)

    return ComputeDAG([compute((n, n), body, name=names[3])])


def test_key_ignores_names_operand_order_and_dead_axes():
    key = product(("A", "B", "k", "C")).key
    assert key == product(("X", "Y", "r", "Z")).key
    assert key == product(("A", "B", "k", "C"), swap=True).key
    assert key == product(("A", "B", "k", "C"), extra=True).key
    assert len(key) == 16


def test_key_sees_shapes_constants_and_roles():
    key = product(("A", "B", "k", "C")).key
    assert key != product(("A", "B", "k", "C"), n=9).key
    assert key != product(("A", "B", "k", "C"), constant=False).key
    a, _ = two_inputs()
    k = reduce_axis(8)
    squared = compute((8, 8), lambda i, j: reducers.sum(a[i, k] * a[k, j], axis=k), name="C")
    assert ComputeDAG([squared]).key != product(("A", "B", "k", "C"), constant=False).key


def test_key_sees_dtype():
    def dag(dtype):
        a = placeholder((4,), dtype, "a")
        return ComputeDAG([compute((4,), lambda i: maximum(a[i], a[i]), name="s")])

    assert dag("int32").key != dag("int64").key != dag("float32").key


def test_key_tells_inputs_of_one_shape_apart():
    def dag(body):
        a, b = two_inputs()
        return ComputeDAG([compute((8, 8), lambda i, j: body(a[i, j], b[i, j]), name="s")]).key

    assert dag(lambda a, b: a * b - a) == dag(lambda a, b: b * a - a)
    assert dag(lambda a, b: a * b - a) == dag(lambda a, b: a * b - b)  # renamed
    assert dag(lambda a, b: a - b) == dag(lambda a, b: b - a)  # renamed
    assert dag(lambda a, b: a - b) != dag(lambda a, b: a - a)
    assert dag(lambda a, b: a - b) != dag(lambda a, b: a + b)


def test_key_canonicalises_indices_and_conditions():
    def dag(index, condition):
        a = placeholder((10,), name="a")
        stage = compute((8,), lambda i: select(condition(i), a[index(i)], 0), name="s")
        return ComputeDAG([stage]).key

    key = dag(lambda i: i + 1, lambda i: all_of(i > 1, i < 5))
    assert key == dag(lambda i: 2 - 1 + i, lambda i: all_of(i < 5, i > 1))
    assert key == dag(lambda i: 3 + i - 2, lambda i: all_of(i > 1, i < 5))
    assert key != dag(lambda i: i + 2, lambda i: all_of(i > 1, i < 5))


def test_key_of_chained_stages_ignores_written_order():
    def dag(swap):
        a, b = two_inputs()
        left = compute((8, 8), lambda i, j: unary("exp", a[i, j]), name="left")
        right = compute((8, 8), lambda i, j: unary("tanh", b[i, j]), name="right")
        pair = (right, left) if swap else (left, right)
        return ComputeDAG([compute((8, 8), lambda i, j: pair[0][i, j] + pair[1][i, j], name="s")])

    assert dag(False).key == dag(True).key


def test_keys_of_all_workloads_differ():
    keys = [make().key for make in WORKLOADS.values()]
    assert len(set(keys)) == len(keys)


def test_key_is_equal_in_another_process():
    code = "from tests.support.workloads import softmax_dag; print(softmax_dag().key)"
    root = Path(__file__).parents[4]
    for seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True,
            env={"PYTHONHASHSEED": seed, "PATH": ""},
        )  # fmt: skip
        assert run.stdout.strip() == workloads.softmax_dag().key


@pytest.mark.parametrize("name", WORKLOADS)
def test_pickle_keeps_identity_and_key(name):
    dag = WORKLOADS[name]()
    dag.consumers(dag.stages[0])
    copy = pickle.loads(pickle.dumps(dag))
    assert copy.key == dag.key and str(copy) == str(dag)
    again = pickle.loads(pickle.dumps(copy))
    assert again.__dict__["key"] == ComputeDAG(again.outputs).key, "a known key goes along"
    assert copy.consumers(copy.inputs[0].op)[0] in copy.stages
    assert all(isinstance(axis, Axis) for op in copy.stages for axis in op.axes)


# --- reads out of bounds --------------------------------------------------------------------


def shifted(condition, shift=1, extent=8):
    a = placeholder((8,), name="a")

    def body(i):
        read = a[i + shift]
        return read if condition is None else select(condition(i), read, 0)

    return ComputeDAG([compute((extent,), body, name="s")])


def test_unguarded_read_is_refused():
    with pytest.raises(ExpressionError, match=r"index 0 of a runs from 1 to 8, the extent is 8"):
        shifted(None)


@pytest.mark.parametrize(
    ("condition", "shift"),
    [
        (lambda i: i + 1 < 8, 1),
        (lambda i: i < 7, 1),
        (lambda i: all_of(i >= 1, i < 7), 1),
        (lambda i: i - 1 >= 0, -1),
        (lambda i: i > 0, -1),
        (lambda i: unary("not", i < 1), -1),
    ],
)
def test_guarded_read_is_accepted(condition, shift):
    shifted(condition, shift)


@pytest.mark.parametrize(
    ("condition", "shift"),
    [(lambda i: i < 8, 1), (lambda i: i > 0, 1), (lambda i: i >= 0, -1)],
)
def test_guard_that_does_not_cover_is_refused(condition, shift):
    with pytest.raises(ExpressionError, match="guard the read"):
        shifted(condition, shift)


def test_read_in_the_other_branch_is_guarded_by_the_negation():
    a = placeholder((8,), name="a")
    ComputeDAG([compute((9,), lambda i: select(i >= 8, 0.0, a[i]), name="s")])
    with pytest.raises(ExpressionError):
        ComputeDAG([compute((9,), lambda i: select(i >= 8, a[i], 0.0), name="s")])


# --- store maps -----------------------------------------------------------------------------


def stored(*maps):
    a = placeholder((4,), name="a")
    stages = [
        compute((4,), lambda i: a[i] * 1.0, name=f"s{number}", store=store)
        for number, store in enumerate(maps)
    ]
    return ComputeDAG(stages)


def test_interleaved_stages_cover_a_buffer():
    out = SharedBuffer("out", (8,))
    dag = stored(StoreMap(out, 0, (2,)), StoreMap(out, 1, (2,)))
    assert dag.output_names == ("out",)


@pytest.mark.parametrize(
    ("buffer", "places", "message"),
    [
        (SharedBuffer("out", (8,)), [(0, (1,)), (3, (1,))], "one place"),
        (SharedBuffer("out", (9,)), [(0, (1,)), (5, (1,))], "the first is 4"),
        (SharedBuffer("out", (4,)), [(0, (0,))], "one place"),
        (SharedBuffer("out", (4,)), [(3, (-1,))], "negative strides"),
        (SharedBuffer("a", (4,)), [(0, (1,))], "name of another"),
    ],
)
def test_bad_store_maps_are_refused(buffer, places, message):
    with pytest.raises(ExpressionError, match=message):
        stored(*(StoreMap(buffer, *place) for place in places))


def test_two_buffers_of_one_name_are_refused():
    first, second = SharedBuffer("out", (4,)), SharedBuffer("out", (4,))
    with pytest.raises(ExpressionError, match="'out' has the name of another tensor"):
        stored(StoreMap(first, 0, (1,)), StoreMap(second, 0, (1,)))


def test_writers_of_a_buffer_have_one_dtype():
    a, buffer = placeholder((4,), name="a"), SharedBuffer("out", (8,))
    one = compute((4,), lambda i: a[i] * 1.0, name="one", store=StoreMap(buffer, 0, (1,)))
    two = compute((4,), lambda i: cast(a[i], "int32"), name="two", store=StoreMap(buffer, 4, (1,)))
    with pytest.raises(ExpressionError, match="disagree: dtypes"):
        ComputeDAG([one, two])


def test_stage_with_a_store_map_must_be_an_output():
    a = placeholder((4,), name="a")
    store = StoreMap(SharedBuffer("out", (4,)), 0, (1,))
    inner = compute((4,), lambda i: a[i] + 1.0, name="s", store=store)
    with pytest.raises(ExpressionError, match="an output of the program"):
        ComputeDAG([compute((4,), lambda i: inner[i] + 1.0, name="t")])


def test_store_maps_are_part_of_the_key():
    def key(first, second, name="out"):
        out = SharedBuffer(name, (8,))
        return stored(StoreMap(out, *first), StoreMap(out, *second)).key

    interleaved = key((0, (2,)), (1, (2,)))
    assert interleaved == key((0, (2,)), (1, (2,)), "other")
    assert interleaved != key((0, (1,)), (4, (1,)))
