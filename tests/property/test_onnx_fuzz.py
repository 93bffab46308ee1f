"""Damaged ONNX models: each is refused with an error of ours, or imported; nothing else happens."""

from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from autosched import zoo
from autosched.onnx.export import to_onnx
from autosched.onnx.importer import from_onnx
from sketch.errors import AutoschedError
from tests.support.onnx_mutations import mutated

SEEDS_PER_MODEL = 60


def _shapes() -> onnx.ModelProto:
    """Computed shapes, generated constants, data movement: where sizes come from numbers."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Gather", ["s", "one"], ["width"], axis=0),
        helper.make_node("Concat", ["minus", "width"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["a"]),
        helper.make_node("Slice", ["a", "from", "to", "one"], ["b"]),
        helper.make_node("Pad", ["b", "pads"], ["c"], mode="reflect"),
        helper.make_node("Tile", ["c", "repeats"], ["d"]),
        helper.make_node("ConstantOfShape", ["repeats"], ["e"]),
        helper.make_node("Expand", ["e", "big"], ["f"]),
        helper.make_node("Range", ["zero", "count", "step"], ["numbers"]),
        helper.make_node("Cast", ["numbers"], ["g"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["f", "g"], ["h"]),
        helper.make_node("TopK", ["d", "one"], ["values", "indices"], axis=1),
        helper.make_node("Unsqueeze", ["d", "axes"], ["d4"]),
        helper.make_node("Resize", ["d4", "", "scales"], ["up"], mode="linear"),
    ]
    constants = {
        "one": [1], "minus": [-1], "from": [0], "to": [4], "pads": [0, 1, 0, 1], "repeats": [1, 2],
        "big": [3, 2], "zero": 0, "count": 2, "step": 1, "axes": [0, 1],
    }  # fmt: skip
    tensors = [numpy_helper.from_array(np.array(v, np.int64), n) for n, v in constants.items()]
    tensors.append(numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales"))
    return _model(nodes, tensors, [("h", 1), ("indices", TensorProto.INT64), ("up", 1)])


def _control() -> onnx.ModelProto:
    """Branches and loops."""
    info = helper.make_tensor_value_info
    branches = {
        f"{name}_branch": helper.make_graph(
            [helper.make_node(operator, ["x"], ["r"])], name, [], [info("r", 1, None)]
        )
        for name, operator in (("then", "Relu"), ("else", "Abs"))
    }
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["go_on"]),
            helper.make_node("Add", ["state", "x"], ["next"]),
            helper.make_node("Mul", ["next", "next"], ["square"]),
        ],
        "body",
        [info("i", 7, ()), info("go", 9, ()), info("state", 1, (4, 3))],
        [info("go_on", 9, ()), info("next", 1, (4, 3)), info("square", 1, (4, 3))],
    )
    nodes = [
        helper.make_node("If", ["flag"], ["chosen"], **branches),
        helper.make_node("Loop", ["times", "flag", "chosen"], ["y", "all"], body=body),
    ]
    tensors = [
        numpy_helper.from_array(np.array(True), "flag"),
        numpy_helper.from_array(np.array(3), "times"),
    ]
    return _model(nodes, tensors, [("y", 1), ("all", 1)])


def _model(
    nodes: list[onnx.NodeProto],
    tensors: list[onnx.TensorProto],
    outputs: list[tuple[str, int]],
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "seed",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (4, 3))],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs],
        tensors,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def _models() -> Iterator[tuple[str, onnx.ModelProto]]:
    yield "mlp", to_onnx(zoo.build("mlp", image=4).graph)
    yield "shapes", _shapes()
    yield "control", _control()


@pytest.mark.parametrize(
    ("name", "model"), list(_models()), ids=lambda v: v if type(v) is str else ""
)
@pytest.mark.filterwarnings("ignore")
def test_damaged_models_are_refused_or_imported(
    name: str, model: onnx.ModelProto, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "model.onnx"
    onnx.save(model, path)
    from_onnx(path)  # the undamaged model is fine
    imported = 0
    for seed in range(SEEDS_PER_MODEL):
        path.write_bytes(mutated(model, seed))
        try:
            from_onnx(path)
            imported += 1
        except AutoschedError as error:
            assert error.what
    assert 0 < imported < SEEDS_PER_MODEL
