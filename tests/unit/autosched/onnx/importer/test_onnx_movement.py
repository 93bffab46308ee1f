"""Importers of operators that move, pick and repeat elements, against onnx's reference."""

from typing import Any

import numpy as np
import onnx
import pytest

from autosched.onnx.importer import from_onnx
from tests.support.onnx_reference import compare, node_model

X = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(np.float32)
MAPS = np.random.default_rng(1).standard_normal((2, 8, 4, 6)).astype(np.float32)
HUGE = np.iinfo(np.int64).max


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


Case = tuple[int, str, dict[str, Any], np.ndarray, dict[str, np.ndarray]]

CASES: list[Case] = [
    (9, "Slice", {"starts": [1, -3], "ends": [2, 100]}, X, {}),
    (9, "Slice", {"starts": [0], "ends": [-1], "axes": [-1]}, X, {}),
    (13, "Slice", {}, X, {"s": ints(-1, 4), "e": ints(-9, 0), "a": ints(0, 2), "t": ints(-1, -2)}),
    (13, "Slice", {}, X, {"s": ints(-100, 1), "e": ints(HUGE, 3)}),
    (13, "Expand", {}, X, {"s": ints(2, 1, 1, 5)}),
    (13, "Expand", {}, X[:, :1], {"s": ints(4, 1)}),
    (13, "Tile", {}, X, {"r": ints(2, 1, 3)}),
    (14, "Trilu", {}, X, {}),
    (14, "Trilu", {"upper": 0}, X, {"k": np.array(-1)}),
    (13, "DepthToSpace", {"blocksize": 2}, MAPS, {}),
    (13, "DepthToSpace", {"blocksize": 2, "mode": "CRD"}, MAPS, {}),
    (13, "SpaceToDepth", {"blocksize": 2}, MAPS, {}),
    (18, "CenterCropPad", {}, X, {"s": ints(6, 1, 5)}),
    (18, "CenterCropPad", {"axes": [-1, 0]}, X, {"s": ints(2, 4)}),
    (14, "Reshape", {}, X, {"s": ints(0, -1, 2)}),
    (13, "Flatten", {"axis": -1}, X, {}),
    (13, "Gather", {"axis": -1}, X, {"i": ints(0, 2, 4).reshape(3, 1)}),
    (13, "Gather", {"axis": 1}, X, {"i": np.array(-1)}),
    (13, "Gather", {}, X, {"i": ints(2, 0, 1)}),
    (13, "Gather", {"axis": 2}, X, {"i": ints(3, 2, 1)}),
    (11, "Compress", {"axis": 1}, X, {"c": np.array([True, False, True, True])}),
    (11, "Compress", {}, X, {"c": np.array([False, True, True])}),
]  # fmt: skip


@pytest.mark.parametrize(("opset", "operator", "attributes", "data", "constants"), CASES)
def test_operators_agree_with_onnx(
    opset: int,
    operator: str,
    attributes: dict[str, Any],
    data: np.ndarray,
    constants: dict[str, np.ndarray],
) -> None:
    compare(node_model(operator, attributes, {"x": data}, constants, opset), {"x": data})


@pytest.mark.parametrize(
    ("opset", "attributes", "constants", "parts"),
    [
        (11, {"axis": 1, "split": [1, 3]}, {}, 2),
        (13, {"axis": -1}, {"s": ints(2, 1, 2)}, 3),
        (13, {"axis": 1}, {}, 2),
        (18, {"axis": 2, "num_outputs": 2}, {}, 2),
        (18, {"num_outputs": 3}, {}, 3),
    ],
)
def test_split(
    opset: int, attributes: dict[str, Any], constants: dict[str, np.ndarray], parts: int
) -> None:
    outputs = [f"y{index}" for index in range(parts)]
    model = node_model("Split", attributes, {"x": X}, constants, opset, outputs)
    compare(model, {"x": X}, compiled=opset == 11)


GATHERS: list[tuple[str, dict[str, Any], np.ndarray]] = [
    ("Gather", {}, ints(2, -1, 0)),
    ("Gather", {"axis": 1}, np.array([[0, 3], [-4, 1]], np.int32)),
    ("Gather", {"axis": 2}, np.array(-2)),
    ("GatherElements", {"axis": 1}, np.random.default_rng(2).integers(-4, 4, (3, 6, 5))),
    ("GatherND", {}, ints(0, -1, 2, 3).reshape(2, 2)),
    ("GatherND", {"batch_dims": 1}, ints(3, -1, 0).reshape(3, 1)),
]


@pytest.mark.parametrize(("operator", "attributes", "indices"), GATHERS)
def test_gathers_at_computed_indices(
    operator: str, attributes: dict[str, Any], indices: np.ndarray
) -> None:
    inputs = {"x": X, "i": indices}
    network = compare(node_model(operator, attributes, inputs, {}), inputs, compiled=True)
    assert len(network.graph.nodes) == 1


def test_indices_out_of_range_never_read_outside() -> None:
    model = node_model("Gather", {"axis": 1}, {"x": X, "i": ints(0, 0)}, {})
    compare(model, {"x": X, "i": ints(10**12, -(10**12))}, True, [X[:, [3, 0]]])


@pytest.mark.parametrize("shape", [(1,), (1, 1)])
@pytest.mark.parametrize("index", [0, 2, -1])
def test_one_row_is_replaced(index: int, shape: tuple[int, ...]) -> None:
    rows = np.arange(20, dtype=np.float32).reshape(*shape[1:], 4, 5)
    inputs = {"x": X, "i": np.full(shape, index), "u": rows}
    network = compare(node_model("ScatterND", {}, inputs, {}), inputs, compiled=index < 0)
    assert not any(node.op.on_host for node in network.graph.nodes)


def test_rows_out_of_range_are_not_replaced() -> None:
    rows = np.ones((4, 5), np.float32)
    for index in (3, -4, 10**12):
        inputs = {"x": X, "i": ints(index), "u": rows}
        compare(node_model("ScatterND", {}, inputs, {}), inputs, index == 3, [X])


@pytest.mark.parametrize("indices", [ints(2, 0), ints(-1, 1, 0), ints(1)], ids=str)
def test_rows_at_computed_places_are_replaced(indices: np.ndarray) -> None:
    rows = np.arange(20 * len(indices), dtype=np.float32).reshape(-1, 1, 4, 5)
    inputs = {"x": X, "i": indices.reshape(-1, 1, 1), "u": rows}
    network = compare(node_model("ScatterND", {}, inputs, {}), inputs, compiled=True)
    assert not any(node.op.on_host for node in network.graph.nodes)


def test_of_equal_places_the_last_counts_and_those_out_of_range_do_not() -> None:
    rows = np.arange(100, dtype=np.float32).reshape(5, 4, 5)
    inputs = {"x": X, "i": ints(2, 10**12, 2, -4, 3).reshape(5, 1), "u": rows}
    compare(node_model("ScatterND", {}, inputs, {}), inputs, True, [np.stack([*X[:2], rows[2]])])


@pytest.mark.parametrize(
    ("indices", "joined"),
    [
        (ints(1, 2).reshape(2, 1), True),
        (ints(0, 1, 2).reshape(3, 1), True),
        (ints(-3).reshape(1, 1), True),
        (ints(2, 0).reshape(1, 2, 1), False),
        (ints(0, 3, 1, 0, 1, 1).reshape(3, 2), True),
        (ints(0, 3, 0, -3).reshape(2, 1, 2), False),
        (ints(1, 2, 3), True),
    ],
    ids=str,
)
def test_rows_at_constant_places_are_replaced(indices: np.ndarray, joined: bool) -> None:
    """As by an assignment to a slice."""
    shape = indices.shape[:-1] + X.shape[indices.shape[-1] :]
    inputs = {"x": X, "u": np.arange(np.prod(shape), dtype=np.float32).reshape(shape)}
    model = node_model("ScatterND", {}, inputs, {"i": indices}, 18, order=("x", "i", "u"))
    network = compare(model, inputs, compiled=not joined)
    assert not any(node.op.on_host for node in network.graph.nodes)
    assert any(node.op.kind == "where" for node in network.graph.nodes) != joined


@pytest.mark.parametrize(
    ("places", "joined"), [((1, 2), True), ((-1,), True), ((3, 0), False), ((2, 2), False)], ids=str
)
def test_slices_at_constant_places_are_replaced(places: tuple[int, ...], joined: bool) -> None:
    """As by ``select_scatter`` of PyTorch."""
    indices = np.broadcast_to(ints(*places)[:, None], (3, len(places), 5)).copy()
    updates = np.random.default_rng(4).standard_normal(indices.shape).astype(np.float32)
    updates[:, 1:] = updates[:, :1]  # which of two at one place counts is not said
    inputs = {"x": X, "u": updates}
    attributes = {"axis": 1}
    model = node_model("ScatterElements", attributes, inputs, {"i": indices}, 18, order="xiu")
    network = compare(model, inputs, compiled=joined)
    assert not any(node.op.on_host for node in network.graph.nodes)
    assert any(node.op.kind == "where" for node in network.graph.nodes) != joined


@pytest.mark.parametrize(
    ("attributes", "indices"),
    [
        ({"axis": 1}, np.ones((2, 1, 5), np.int64)),
        ({"axis": 1}, np.full((3, 1, 5), 4)),
    ],
    ids=["a part", "beyond"],
)
def test_other_elements_are_replaced_on_the_host(
    attributes: dict[str, Any], indices: np.ndarray
) -> None:
    inputs = {"x": X, "u": np.ones(indices.shape, np.float32)}
    model = node_model("ScatterElements", attributes, inputs, {"i": indices}, 18, order="xiu")
    assert [node.op.on_host for node in from_onnx(model).graph.nodes] == [True]


def test_constant_places_beyond_the_data_run_on_the_host() -> None:
    inputs = {"x": X, "u": np.ones((1, 4, 5), np.float32)}
    model = node_model("ScatterND", {}, inputs, {"i": ints(3).reshape(1, 1)}, 18, order="xiu")
    assert [node.op.on_host for node in from_onnx(model).graph.nodes] == [True]


@pytest.mark.parametrize(
    ("image", "block", "attributes", "kinds"),
    [
        ((4, 6), (2, 3), {"strides": [2, 3]}, ["reshape", "transpose", "reshape"]),
        ((5,), (1,), {"strides": [1]}, ["reshape", "transpose", "reshape"]),
        ((4, 6), (3, 2), {"strides": [3, 2]}, ["reshape", "fold"]),  # a rest stays 0
        ((7, 9), (3, 2), {}, ["reshape", "fold"]),
        ((7, 9), (3, 4), {"strides": [2, 3], "pads": [1, 0, 2, 3]}, ["reshape", "fold"]),
        ((9, 8), (2, 3), {"dilations": [3, 2], "strides": [2, 1]}, ["reshape", "fold"]),
        ((100,), (12,), {"strides": [5], "pads": [3, 4]}, ["reshape", "fold"]),
        ((4, 5, 6), (2, 2, 3), {"strides": [1, 2, 3]}, ["reshape", "fold"]),
    ],
)
def test_blocks_make_an_image(
    image: tuple[int, ...], block: tuple[int, ...], attributes: dict[str, Any], kinds: list[str]
) -> None:
    rank = len(image)
    pads = attributes.get("pads", [0] * (2 * rank))
    blocks = 1
    for d, (extent, tap) in enumerate(zip(image, block, strict=True)):
        reach = (tap - 1) * attributes.get("dilations", [1] * rank)[d] + 1
        room = extent + pads[d] + pads[rank + d] - reach
        blocks *= room // attributes.get("strides", [1] * rank)[d] + 1
    shape = (2, 3 * int(np.prod(block)), blocks)
    inputs = {"x": np.random.default_rng(2).standard_normal(shape).astype(np.float32)}
    constants = {"n": ints(*image), "b": ints(*block)}
    network = compare(node_model("Col2Im", attributes, inputs, constants, 18), inputs)
    assert [node.op.kind for node in network.graph.nodes] == kinds


def test_overlapping_blocks_of_truth_values_are_folded_on_the_host() -> None:
    inputs = {"x": np.eye(12, dtype=bool)[None]}
    model = node_model("Col2Im", {}, inputs, {"n": ints(4, 5), "b": ints(2, 2)}, 18)
    network = from_onnx(model)
    assert [node.op.on_host for node in network.graph.nodes] == [True]
    compare(model, inputs, compiled=True)


def test_constant_indices_in_steps_are_slices() -> None:
    kinds = {
        tuple(indices): [node.op.kind for node in from_onnx(_gather(indices)).graph.nodes]
        for indices in (ints(0, 2), ints(3, 2, 1), ints(-1), ints(0, 1, 3), ints(1, 1))
    }
    assert [each[0] for each in kinds.values()] == ["slice", "slice", "slice", "gather", "gather"]


def _gather(indices: np.ndarray) -> onnx.ModelProto:
    return node_model("Gather", {"axis": 1}, {"x": X}, {"i": indices})


@pytest.mark.parametrize("axis", [0, -1])
def test_one_hot(axis: int) -> None:
    inputs = {"i": np.array([[1, -1], [0, 2]])}
    constants = {"depth": np.array(3), "v": np.array([0.5, 2], np.float32)}
    compare(node_model("OneHot", {"axis": axis}, inputs, constants), inputs, compiled=axis == 0)


@pytest.mark.parametrize(("batch", "time"), [(1, 0), (0, 1)])
def test_reverse_sequence(batch: int, time: int) -> None:
    inputs = {"x": X[:, :3], "n": ints(1, 3, 2)}
    attributes = {"batch_axis": batch, "time_axis": time}
    compare(node_model("ReverseSequence", attributes, inputs, {}), inputs, compiled=batch == 1)


def test_shape_alone_is_folded() -> None:
    """What depends on the shape of an input only is known at import."""
    x = X[0].astype(np.int32)
    network = compare(node_model("EyeLike", {"k": 1, "dtype": 1}, {"x": x}, {}), {"x": x})
    assert not network.graph.nodes


def test_empty_results_are_left_to_the_host() -> None:
    constants = {"s": ints(2), "e": ints(2)}
    network = from_onnx(node_model("Slice", {}, {"x": X}, constants))
    assert [node.op.on_host for node in network.graph.nodes] == [True]
    assert network.outputs[0].shape[0] == 0
