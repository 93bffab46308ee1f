"""Importers of pooling, norms, reductions, products, resizing, padding: against references."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import autosched as asd

onnx = pytest.importorskip("onnx")
from onnx import helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

from autosched.graph.builder import GraphBuilder  # noqa: E402
from autosched.graph.evaluate import evaluate  # noqa: E402
from autosched.graph.ir import Value  # noqa: E402
from autosched.graph.optimize import optimize  # noqa: E402
from autosched.onnx.importer.site import Site, UnsupportedError  # noqa: E402
from autosched.onnx.importer.table import IMPORTERS  # noqa: E402
from tests.support.onnx_cases import check, node_model, run, values  # noqa: E402

Array = NDArray[Any]
MAP, VOLUME, SIGNAL = (2, 4, 9, 7), (1, 3, 5, 6, 4), (2, 3, 10)


POOLS: list[tuple[str, tuple[int, ...], dict[str, Any]]] = [
    ("MaxPool", SIGNAL, {"kernel_shape": [3], "strides": [2], "pads": [1, 0]}),
    ("MaxPool", VOLUME, {"kernel_shape": [2, 3, 2], "pads": [1, 0, 0, 0, 1, 1]}),
    ("MaxPool", MAP, {"kernel_shape": [3, 2], "dilations": [2, 3], "strides": [2, 1]}),
    ("MaxPool", MAP, {"kernel_shape": [3, 3], "auto_pad": "SAME_LOWER", "strides": [2, 3]}),
    ("AveragePool", SIGNAL, {"kernel_shape": [4], "strides": [3], "ceil_mode": 1}),
    # rounded up, the last window of rows begins beyond the data: there is no such window
    (
        "AveragePool",
        MAP,
        {"kernel_shape": [2, 3], "strides": [2, 3], "pads": [1] * 4, "ceil_mode": 1},
    ),
    ("MaxPool", MAP, {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1] * 4, "ceil_mode": 1}),
    ("AveragePool", VOLUME, {"kernel_shape": [3, 3, 3], "pads": [1, 1, 1, 1, 1, 1]}),
    (
        "AveragePool",
        VOLUME,
        {"kernel_shape": [3, 3, 3], "pads": [1, 0, 2, 1, 1, 0], "count_include_pad": 1},
    ),
    ("AveragePool", MAP, {"kernel_shape": [2, 2], "dilations": [3, 2], "pads": [1, 1, 0, 1]}),
    ("AveragePool", MAP, {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER", "strides": [2, 2]}),
    ("LpPool", MAP, {"kernel_shape": [2, 3], "p": 1}),
    ("LpPool", MAP, {"kernel_shape": [2, 3], "strides": [2, 2]}),
    ("LpPool", SIGNAL, {"kernel_shape": [3], "p": 3}),
    ("GlobalAveragePool", VOLUME, {}),
    ("GlobalAveragePool", SIGNAL, {}),
    ("GlobalMaxPool", VOLUME, {}),
]


@pytest.mark.parametrize(("operator", "shape", "attributes"), POOLS)
def test_pooling(operator: str, shape: tuple[int, ...], attributes: dict[str, Any]) -> None:
    data = [values(*shape)]
    check(node_model(operator, data, **attributes), data)


def test_windows_that_leave_elements_between_them_with_auto_pad_have_no_kernel() -> None:
    """Evaluators differ: they crop both sides, crop none or refuse."""
    window = {"kernel_shape": [1, 1], "auto_pad": "SAME_UPPER", "strides": [3, 3]}
    data = [values(1, 2, 6, 9)]
    model = node_model("MaxPool", data, **window)
    assert any(node.op.on_host for node in asd.from_onnx(model).graph)
    (expected,) = ReferenceEvaluator(model).run(None, {"x0": data[0]})
    np.testing.assert_array_equal(run(model, data)[0], expected)


def test_pools_behind_one_that_is_rounded_up_have_kernels() -> None:
    window = {"kernel_shape": [2, 2], "strides": [2, 2], "pads": [1] * 4, "ceil_mode": 1}
    model = node_model("MaxPool", [values(*MAP)], **window)
    (output,) = model.graph.output
    model.graph.node.append(helper.make_node("AveragePool", [output.name], ["second"], **window))
    model.graph.node.append(helper.make_node("Relu", ["second"], ["third"]))
    output.name = "third"
    output.type.tensor_type.ClearField("shape")
    check(model, [values(*MAP)])


@pytest.mark.parametrize("order", [1, 2, 3])
def test_global_lp_pooling(order: int) -> None:
    x = values(*MAP)
    network = asd.from_onnx(node_model("GlobalLpPool", [x], p=order))
    found = evaluate(network.graph, {"x0": x})["y0"]
    norm = (np.abs(x).astype(np.float64) ** order).sum(axis=(2, 3), keepdims=True) ** (1 / order)
    np.testing.assert_allclose(found, norm, rtol=1e-6)


NORMS: list[tuple[str, tuple[int, ...], list[tuple[int, ...]], int, dict[str, Any]]] = [
    ("LayerNormalization", (3, 4, 6), [(6,), (6,)], 17, {}),
    ("LayerNormalization", (3, 4, 6), [(4, 6)], 17, {"axis": 1, "epsilon": 0.1}),
    ("LayerNormalization", MAP, [(7,), (7,)], 17, {"axis": -1}),
    ("GroupNormalization", MAP, [(4,), (4,)], 21, {"num_groups": 2}),
    ("GroupNormalization", (2, 6, 5), [(6,), (6,)], 21, {"num_groups": 3, "epsilon": 0.01}),
    ("InstanceNormalization", MAP, [(4,), (4,)], 22, {}),
    ("InstanceNormalization", SIGNAL, [(3,), (3,)], 9, {"epsilon": 0.1}),
    ("RMSNormalization", (3, 4, 6), [(6,)], 23, {}),
    ("RMSNormalization", (3, 4, 6), [(4, 6)], 23, {"axis": -2, "epsilon": 0.1}),
    ("LpNormalization", (3, 4, 6), [], 22, {"axis": 1, "p": 1}),
    ("LpNormalization", (3, 4, 6), [], 22, {}),
    ("LRN", (2, 7, 3, 4), [], 13, {"size": 3}),
    ("LRN", (2, 7, 3, 2), [], 13, {"size": 5, "alpha": 0.5, "beta": 0.3, "bias": 2.0}),
    ("MeanVarianceNormalization", MAP, [], 13, {"axes": [0, 2, 3]}),
    ("MeanVarianceNormalization", MAP, [], 13, {"axes": [1, -1]}),
]


@pytest.mark.parametrize(("operator", "shape", "parameters", "opset", "attributes"), NORMS)
def test_normalisation(
    operator: str,
    shape: tuple[int, ...],
    parameters: list[tuple[int, ...]],
    opset: int,
    attributes: dict[str, Any],
) -> None:
    data = [values(*shape)]
    constants = [values(*extents) for extents in parameters]
    check(node_model(operator, data, constants, opset, **attributes), data)


def test_statistics_of_layer_norm_are_outputs() -> None:
    data = [values(3, 4, 6)]
    check(node_model("LayerNormalization", data, [values(6)], 17, 3), data)


def test_a_zero_vector_has_the_norm_zero_and_stays_zero() -> None:
    x = np.zeros((2, 3), np.float32)
    network = asd.from_onnx(node_model("LpNormalization", [x]))
    np.testing.assert_array_equal(evaluate(network.graph, {"x0": x})["y0"], 0)


@pytest.mark.parametrize("operator", ["Softmax", "LogSoftmax", "Hardmax"])
@pytest.mark.parametrize("opset", [11, 13])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_family(operator: str, opset: int, axis: int) -> None:
    """Before opset 13 all dimensions from ``axis`` on are one."""
    x = values(3, 4, 5)
    network = asd.from_onnx(node_model(operator, [x], opset=opset, axis=axis))
    rows = x.reshape(int(np.prod(x.shape[: axis % 3])), -1) if opset < 13 else x
    dimension = 1 if opset < 13 else axis
    expected = ReferenceEvaluator(node_model(operator, [rows], opset=13, axis=dimension))
    reference = expected.run(None, {"x0": rows})[0].reshape(x.shape)
    for graph in (network.graph, optimize(network.graph)):
        np.testing.assert_allclose(evaluate(graph, {"x0": x})["y0"], reference, rtol=1e-5)


REDUCTIONS = (
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd",
    "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp",
)  # fmt: skip


@pytest.mark.parametrize("operator", REDUCTIONS)
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [None, [1], [0, -1]])
def test_reductions(operator: str, keepdims: int, axes: list[int] | None) -> None:
    data = [np.abs(values(3, 4, 5)) + np.float32(0.1)]
    given = [] if axes is None else [np.array(axes)]
    check(node_model(operator, data, given, 18, keepdims=keepdims), data)
    if operator != "ReduceSum":
        old = {} if axes is None else {"axes": axes}
        check(node_model(operator, data, opset=11, keepdims=keepdims, **old), data)


@pytest.mark.parametrize("operator", REDUCTIONS)
def test_reduction_over_no_axes(operator: str) -> None:
    x = values(3, 4) if operator != "ReduceLogSum" else np.abs(values(3, 4))
    network = asd.from_onnx(node_model(operator, [x], opset=18, noop_with_empty_axes=1))
    expected = {
        "ReduceL1": np.abs, "ReduceL2": np.abs, "ReduceSumSquare": np.square,
        "ReduceLogSum": np.log,
    }.get(operator, np.asarray)(x)  # fmt: skip
    np.testing.assert_allclose(evaluate(network.graph, {"x0": x})["y0"], expected, rtol=1e-5)


@pytest.mark.parametrize("operator", ["ReduceL2", "ReduceLogSum", "ReduceLogSumExp"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_roots_and_logarithms_of_integers_are_cut_off(operator: str, dtype: str) -> None:
    x = np.array([[1, 1, 2], [5, 900, 7], [30, 3, 4]], dtype)
    functions: dict[str, Any] = {
        "ReduceL2": lambda a: np.sqrt(np.square(a).sum(1)),
        "ReduceLogSum": lambda a: np.log(a.sum(1)),
        "ReduceLogSumExp": lambda a: np.log(np.exp(a - a.max(1, keepdims=True)).sum(1)) + a.max(1),
    }
    for opset in (11, 18):
        axes, given = ({"axes": [1]}, []) if opset < 18 else ({}, [np.array([1])])
        model = node_model(operator, [x], given, opset, keepdims=0, **axes)
        module = asd.compile(asd.from_onnx(model), effort="none")
        found = module.run({"x0": x})["y0"]
        np.testing.assert_array_equal(found, functions[operator](x.astype(float)).astype(dtype))
    over_none = node_model(operator, [x], opset=18, noop_with_empty_axes=1)
    found = evaluate(asd.from_onnx(over_none).graph, {"x0": x})["y0"]
    np.testing.assert_array_equal(
        found, np.log(x).astype(dtype) if operator == "ReduceLogSum" else x
    )


@pytest.mark.parametrize("operator", ["ReduceMax", "ReduceMin"])
def test_truth_values_are_reduced_as_numbers(operator: str) -> None:
    data = [values(3, 4, dtype="bool")]
    check(node_model(operator, data, [np.array([1])], 20), data)


def test_log_sum_exp_of_infinities() -> None:
    data = [np.array([[-np.inf, -np.inf], [np.inf, 1.0], [800.0, 801.0]], np.float32)]
    with np.errstate(divide="ignore", over="ignore"):
        found = evaluate(
            asd.from_onnx(node_model("ReduceLogSumExp", data, [np.array([1])], 18)).graph,
            {"x0": data[0]},
        )["y0"]
    np.testing.assert_allclose(found[:, 0], [-np.inf, np.inf, 801.313262], rtol=1e-6)


@pytest.mark.parametrize("operator", ["ArgMax", "ArgMin"])
@pytest.mark.parametrize("last", [0, 1])
def test_positions_of_extremes(operator: str, last: int) -> None:
    data = [values(4, 6, 5, dtype="int32")]
    for axis, keepdims in ((0, 1), (-1, 0)):
        attributes = {"axis": axis, "keepdims": keepdims, "select_last_index": last}
        check(node_model(operator, data, opset=13, **attributes), data)


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
def test_running_sums(exclusive: int, reverse: int) -> None:
    for data in ([values(3, 6)], [values(3, 6, dtype="int64")]):
        constants = [np.array(1)]
        model = node_model("CumSum", data, constants, 14, exclusive=exclusive, reverse=reverse)
        check(model, data)


PRODUCTS = [
    ((4,), (4,)),
    ((4,), (4, 3)),
    ((5, 4), (4,)),
    ((2, 5, 4), (4,)),
    ((4,), (2, 4, 3)),
    ((5, 4), (2, 4, 3)),
    ((2, 1, 5, 4), (3, 4, 2)),
    ((2, 3, 5, 4), (2, 1, 4, 2)),
]


@pytest.mark.parametrize(("lhs", "rhs"), PRODUCTS)
def test_matrix_products_of_every_rank(lhs: tuple[int, ...], rhs: tuple[int, ...]) -> None:
    data = [values(*lhs), values(*rhs)]
    check(node_model("MatMul", data), data)
    check(node_model("MatMul", data[:1], data[1:]), data[:1])


@pytest.mark.parametrize("third", [(), (5, 3), (3,), (5, 1)])
def test_gemm(third: tuple[int, ...]) -> None:
    data = [values(4, 5), values(3, 4), values(*third)]
    attributes = {"transA": 1, "transB": 1, "alpha": 0.5, "beta": 2.0}
    check(node_model("Gemm", data, **attributes), data)
    check(node_model("Gemm", data[:1], data[1:], **attributes), data[:1])


EQUATIONS = [
    ("ij,jk->ik", [(3, 4), (4, 5)]),
    ("ij,jk", [(3, 4), (4, 5)]),
    ("bhid,bjhd->bhij", [(2, 3, 4, 5), (2, 6, 3, 5)]),
    ("...ij,...jk->...ik", [(2, 1, 3, 4), (1, 6, 4, 5)]),
    ("...ii->...i", [(2, 4, 4)]),
    ("ii", [(4, 4)]),
    ("i,j->ji", [(3,), (4,)]),
    ("ij,jk,kl->il", [(3, 4), (4, 2), (2, 5)]),
    ("ij->", [(3, 4)]),
    ("bij,bij->b", [(2, 3, 4), (2, 3, 4)]),
    ("i...,j...->...ij", [(3, 2), (4, 2)]),
]


@pytest.mark.parametrize(("equation", "shapes"), EQUATIONS)
def test_einsum(equation: str, shapes: list[tuple[int, ...]]) -> None:
    data = [values(*shape) for shape in shapes]
    check(node_model("Einsum", data, equation=equation), data)


PADS = [[0, 1, 2, 0, 0, 3], [0, -1, 1, 0, 2, -2], [1, 0, 0, 1, 0, 0]]


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
@pytest.mark.parametrize("pads", PADS)
def test_padding(mode: str, pads: list[int]) -> None:
    data = [values(2, 4, 5)]
    if min(pads) < 0 and mode != "constant":  # the reference knows no cropping
        network = asd.from_onnx(node_model("Pad", data, [np.array(pads)], 19, mode=mode))
        cropped = data[0][:, 1:, :-2]
        expected = np.pad(cropped, ((0, 0), (0, 2), (1, 0)), mode=mode)
        np.testing.assert_array_equal(evaluate(network.graph, {"x0": data[0]})["y0"], expected)
        return
    if min(pads) < 0:
        network = asd.from_onnx(node_model("Pad", data, [np.array(pads), np.float32(3)], 19))
        expected = np.pad(data[0][:, 1:, :-2], ((0, 0), (0, 2), (1, 0)), constant_values=3)
        np.testing.assert_array_equal(evaluate(network.graph, {"x0": data[0]})["y0"], expected)
        return
    check(node_model("Pad", data, [np.array(pads)], 19, mode=mode), data)


def test_padding_of_integers_along_given_axes() -> None:
    data = [values(2, 4, 5, dtype="int64")]
    constants = [np.array([1, 0, 2, 1]), np.array(7), np.array([-1, 0])]
    check(node_model("Pad", data, constants, 19), data)


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("rotated", [0, 4])
def test_rotary_embedding(interleaved: int, rotated: int) -> None:
    half = (rotated or 8) // 2
    attributes = {"interleaved": interleaved, "rotary_embedding_dim": rotated}
    heads = [values(2, 3, 5, 8)]
    positions = np.array([[0, 2, 4, 6, 1], [5, 3, 1, 0, 2]])
    tables = [np.cos(values(7, half)), np.sin(values(7, half)), positions]
    check(node_model("RotaryEmbedding", heads, tables, 23, **attributes), heads)
    rows = [values(2, 5, 24)]
    angles = [np.cos(values(2, 5, half)), np.sin(values(2, 5, half))]
    check(node_model("RotaryEmbedding", rows, angles, 23, num_heads=3, **attributes), rows)


REFUSED: list[tuple[str, int, Mapping[str, Any], Sequence[Array], str]] = [
    ("Pad", 1, {"mode": "mirror"}, [], "mode 'mirror'"),
    ("AveragePool", 1, {"kernel_shape": [2, 2], "pads": [2, 0, 0, 0]}, [], "not smaller than"),
    ("BatchNormalization", 1, {"training_mode": 1}, [values(4)] * 4, "training mode"),
    ("LayerNormalization", 1, {"stash_type": 10}, [values(7)], "stash_type 10"),
]


@pytest.mark.parametrize(("operator", "outputs", "attributes", "constants", "reason"), REFUSED)
def test_what_has_no_kernel_is_refused(
    operator: str, outputs: int, attributes: dict[str, Any], constants: list[Array], reason: str
) -> None:
    names = [f"c{i}" for i in range(len(constants))]
    results = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(operator, ["x", *names], results)
    builder = GraphBuilder("refused")
    builder.input(Value("x", MAP))
    arrays = dict(zip(names, constants, strict=True))
    site = Site(node, "node", 19, attributes, arrays, builder)
    with pytest.raises(UnsupportedError, match=reason):
        IMPORTERS[operator](site)


COMPILED: list[tuple[str, tuple[int, ...], list[Array | None], dict[str, Any]]] = [
    ("LayerNormalization", (5, 40), [values(40), values(40)], {}),
    ("LogSoftmax", (3, 37), [], {}),
    ("ArgMax", (5, 40), [], {"axis": 1}),
    ("AveragePool", VOLUME, [], {"kernel_shape": [2, 2, 2], "pads": [1, 0, 0, 0, 0, 1]}),
    ("Resize", (1, 3, 4, 5), [None, np.array([1, 1, 2, 2.5], np.float32)], {"mode": "linear"}),
    ("Pad", (3, 4, 5), [np.array([0, 1, 2, 0, 2, 1])], {"mode": "reflect"}),
    ("CumSum", (3, 20), [np.array(1)], {}),
]


@pytest.mark.parametrize(("operator", "shape", "constants", "attributes"), COMPILED)
def test_compiled(
    operator: str,
    shape: tuple[int, ...],
    constants: list[Array | None],
    attributes: dict[str, Any],
) -> None:
    data = [values(*shape)]
    model = node_model(operator, data, constants, 19, **attributes)
    expected = ReferenceEvaluator(model).run(None, {"x0": data[0]})[0]
    (found,) = run(model, data)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
