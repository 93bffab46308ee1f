"""Local functions of ONNX models: counted before they are inlined."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import autosched as asd
from autosched.graph.errors import ModelImportError


def _nested(depth: int, calls: int = 2, closed: bool = False) -> onnx.ModelProto:
    """Function k calls function k+1 ``calls`` times; the last is a Neg, or calls the first."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]

    def chain(count: int, operator: str, domain: str) -> list[onnx.NodeProto]:
        names = ["x", *(f"v{n}" for n in range(count - 1)), "y"]
        return [
            helper.make_node(operator, [names[n]], [names[n + 1]], domain=domain)
            for n in range(count)
        ]

    functions = [
        helper.make_function(
            "local", f"F{k}", ["x"], ["y"], chain(calls, f"F{k + 1}", "local"), opsets
        )
        for k in range(depth)
    ]
    last = chain(1, "F0", "local") if closed else chain(1, "Neg", "")
    functions.append(helper.make_function("local", f"F{depth}", ["x"], ["y"], last, opsets))
    graph = helper.make_graph(
        chain(1, "F0", "local"),
        "nested",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])],
    )
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=functions)


def test_functions_that_make_too_many_nodes_are_refused() -> None:
    with pytest.raises(ModelImportError, match=r"make about 268,435,457 nodes"):
        asd.from_onnx(_nested(28))


def test_functions_in_functions_are_inlined() -> None:
    module = asd.compile(asd.from_onnx(_nested(3)), threads=1, effort="none")
    x = np.float32([1, -2, 3])
    np.testing.assert_array_equal(module.run({"x": x})["y"], x)  # negated eight times


def test_functions_that_call_themselves_are_refused() -> None:
    with pytest.raises(ModelImportError):
        asd.from_onnx(_nested(2, closed=True))
