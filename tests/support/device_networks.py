"""Small networks for emulated devices: few kernels, since each has to be compiled twice."""

from __future__ import annotations

import numpy as np
from onnx import helper, numpy_helper

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Network, Value
from autosched.graph.ops.base import TensorType
from autosched.graph.ops.elementwise import BinaryOp, UnaryOp
from autosched.graph.ops.host import HostFunction, HostOp
from autosched.graph.ops.scan import Scan, ScanFunction
from autosched.graph.ops.shape import Concat, Reshape
from autosched.graph.ops.softmax import Softmax
from sketch.target.gpu_targets import cuda_target, emulated
from tests.support.small_graphs import Net

EMULATED = emulated(cuda_target("h200"))
_ROWS, _KEPT = (4, 16), 8


def _top() -> HostFunction:
    node = helper.make_node("TopK", ["x", "k"], ["values", "indices"])
    graph = helper.make_graph(
        [node],
        "host",
        [helper.make_empty_tensor_value_info("x")],
        [helper.make_empty_tensor_value_info(name) for name in node.output],
        [numpy_helper.from_array(np.array([_KEPT]), "k")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    shape = (_ROWS[0], _KEPT)
    return HostFunction(
        "TopK",
        bytes(model.SerializeToString()),
        (TensorType(_ROWS, "float32"),),
        (TensorType(shape, "float32"), TensorType(shape, "int64")),
    )


def mixed_network() -> Network:
    """Two convolutions, TopK on the host, softmax: kernels before and after a host step."""
    net = Net((1, 3, 4, 4))
    hidden = net.unary(net.conv(net.x, 4))
    rows = net.add(Reshape(_ROWS), [net.conv(hidden, 4)])
    top = _top()
    values, indices = (net.add(HostOp(top, n), [rows]) for n in (0, 1))
    graph = net.finish({"likely": net.add(Softmax(1), [values]), "which": indices})
    return Network("mixed", graph)


def loop_network(backwards: bool = False) -> Network:
    """Five iterations, with a state that lies at the same two places in turn."""
    shape = (2, 3)
    body = GraphBuilder("body")
    a, b, x = (body.input(Value(name, shape)) for name in "abx")
    fresh = body.add(UnaryOp("sin"), (body.add(BinaryOp("add"), (a, a)),))
    total = body.add(BinaryOp("add"), (b, x))
    joined = body.add(Concat(0), (total, x))
    results = body.finish({"a": fresh, "b": total, "both": joined})
    function = ScanFunction(results, 5, 2, 1, backwards)
    net = GraphBuilder("net")
    shapes = {"a": shape, "b": shape, "x": (5, *shape)}
    inputs = [net.input(Value(name, extents)) for name, extents in shapes.items()]
    outputs = {f"r{n}": net.add(Scan(function, n), inputs) for n in range(3)}
    return Network("loop", net.finish(outputs))
