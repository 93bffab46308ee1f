import numpy as np

from autosched.measure.inputs import normal_inputs, random_inputs
from sketch.dag.dag import ComputeDAG
from sketch.lang.functions import maximum, minimum
from sketch.lang.reducers import sum as sum_
from sketch.lang.tensor import compute, placeholder, reduce_axis
from sketch.operators.scatter import received
from sketch.oracle.interpret import interpret


def dense(constant=True):
    a = placeholder((16, 1024), name="A")
    w = placeholder((1024, 16), name="W", constant=constant)
    k = reduce_axis(1024)
    return ComputeDAG([compute((16, 16), lambda i, j: sum_(a[i, k] * w[k, j], axis=k), name="C")])


def test_the_seed_decides_and_names_do_not():
    first, second = random_inputs(dense(), 3), random_inputs(dense(), 3)
    for name in ("A", "W"):
        np.testing.assert_array_equal(first[name], second[name])
    assert not np.array_equal(first["A"], random_inputs(dense(), 4)["A"])
    assert first["A"].dtype == np.float32


def test_results_stay_of_order_one_and_constants_are_scaled_first():
    inputs = random_inputs(dense(), 0)
    assert 0.9 < np.abs(inputs["A"]).max() <= 1.0
    assert np.abs(inputs["W"]).max() < 0.2
    (result,) = interpret(dense(), inputs).values()
    assert 0.5 < result.std() < 2.0
    assert np.abs(random_inputs(dense(constant=False), 0)["W"]).max() < 0.2


def test_small_sums_and_single_operands_are_left_alone():
    a, k = placeholder((4, 5000), name="A"), reduce_axis(5000)
    dag = ComputeDAG([compute((4,), lambda i: sum_(a[i, k], axis=k), name="S")])
    assert np.abs(random_inputs(dag, 0)["A"]).max() > 0.9


def test_integers_that_index_stay_inside_what_they_index():
    table, where = placeholder((3, 8), name="T"), placeholder((500,), "int64", name="I")
    clamped = compute((500, 8), lambda i, j: table[maximum(minimum(where[i], 2), 0), j], name="G")
    dag = ComputeDAG([clamped])
    index = random_inputs(dag, 0)["I"]
    assert (index.min(), index.max()) == (0, 2)
    assert index.dtype == np.int64


def test_integers_that_say_where_terms_go_reach_all_elements():
    """Whether a stage before reads them, or not."""
    where, updates = placeholder((900, 1), "int64", name="I"), placeholder((900, 4), name="U")
    moved = compute((900, 1), lambda i, j: where[i, j] * 1, name="moved")
    for places in (where, moved):
        dag = ComputeDAG([received(places, updates, 0, 100, "sum", "out")])
        index = random_inputs(dag, 0)["I"]
        assert (index.min(), index.max()) == (0, 99)


def test_other_integers_are_small_and_of_both_signs():
    a = placeholder((500,), "int32", name="A")
    dag = ComputeDAG([compute((500,), lambda i: a[i] + 1, name="B")])
    values = random_inputs(dag, 0)["A"]
    assert (values.min(), values.max()) == (-5, 5)


def test_the_mean_of_normal_inputs_is_chosen_again_and_again():
    inputs = normal_inputs(dense(), 0, 97)
    weight, data = inputs["W"], inputs["A"]
    data.move(0.0)
    normal, constant = data.array.copy(), weight.array.copy()
    assert abs(normal.mean()) < 0.5 * data.deviation and normal.std() > 0
    data.move(16.0)
    weight.move(16.0)
    np.testing.assert_array_equal(data.array, normal + np.float32(16 * data.deviation))
    np.testing.assert_array_equal(weight.array, constant)
    data.move(0.0)
    np.testing.assert_array_equal(data.array, normal)
