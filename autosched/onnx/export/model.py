"""A network as an ONNX model, in its own names, layouts and weights.

Used to run a network in other runtimes, to compare results and speed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import onnx
from onnx import helper

from autosched.graph.errors import GraphError
from autosched.graph.host_call import CallKey, call_key
from autosched.graph.ir import Graph, Node, Value
from autosched.graph.loop_call import LoopKey, loop_key
from autosched.graph.ops.base import TensorType
from autosched.graph.ops.elementwise import CastOp
from autosched.graph.ops.host import HostOp
from autosched.graph.ops.scan import Scan, ScanFunction
from autosched.onnx.export.layer_norm import LayerNorm, layer_norms
from autosched.onnx.export.pieces import opset_for, write_piece
from autosched.onnx.export.table import FORMS
from autosched.onnx.export.terms import Given, GivenValue, OnnxCall, call, cast
from autosched.onnx.export.writer import ModelWriter, value_infos

_BFLOAT16: Final = "bfloat16"


def to_onnx(graph: Graph) -> onnx.ModelProto:
    """The checked ONNX model of a graph whose operators are in NCHW.

    What ONNX leaves open, or onnxruntime does otherwise, may differ: extremes and positions of
    NaN, integers that overflow, indices out of range, floats that no integer is.

    Raises:
        GraphError: an operator has no ONNX form here (an NHWC one, for example), an output is
            called like another input, or constants are larger than a model can be.
    """
    taken = (*graph.types, *(result.name for result in graph.results))
    writer = ModelWriter(taken, opset_for(graph))
    values = _names(graph, writer)
    for name, array in graph.constants.items():
        writer.constant(values[name], array)
    _Nodes(graph, values, writer, "").write()
    for result in graph.results:
        if result.name != values[result.value]:
            writer.identity(values[result.value], result.name)
    body = helper.make_graph(
        writer.nodes,
        graph.name,
        value_infos(graph.inputs),
        value_infos(graph.outputs),
        writer.read_constants(result.name for result in graph.results),
    )
    opsets = [helper.make_opsetid(domain, version) for domain, version in writer.opsets.items()]
    version = helper.find_min_ir_version_for(opsets, ignore_unknown=True)
    model = helper.make_model(body, opset_imports=opsets, ir_version=version)
    onnx.checker.check_model(model, full_check=True)
    return model


def _names(graph: Graph, writer: ModelWriter) -> dict[str, str]:
    """What the values are called: those that are computed bear the names of outputs they carry.

    Raises:
        GraphError: an output and another input have one name, which a model tells apart by nothing.
    """
    carried = {result.name: result.value for result in graph.results}
    for value in graph.inputs:
        if carried.get(value.name, value.name) != value.name:
            raise GraphError(
                f"an input and an output that is not this input are both called {value.name!r}",
                hint="give the output another name",
            )
    public = {value: name for name, value in carried.items() if value in graph.producers}
    return {
        name: public.get(name) or (name if carried.get(name, name) == name else writer.fresh(name))
        for name in graph.types
    }


def _in_float32(kind: TensorType) -> TensorType:
    return TensorType(kind.shape, "float32") if kind.dtype == _BFLOAT16 else kind


class _Nodes:
    """Writes the nodes of a graph, or of the body of a loop."""

    def __init__(self, graph: Graph, values: Mapping[str, str], writer: ModelWriter, prefix: str):
        """What is written, and where.

        Args:
            graph: whose nodes are written.
            values: what its values are called in the model.
            writer: that nodes are added to.
            prefix: of the names of nodes.
        """
        self._graph, self._values, self._writer = graph, values, writer
        self._prefix = prefix
        self._done: dict[CallKey | LoopKey, list[str]] = {}
        self._wide: dict[str, GivenValue] = {}

    def write(self) -> None:
        """All nodes, in order.  Raises GraphError, which names the node that has no form."""
        norms = layer_norms(self._graph)
        covered = {name for norm in norms.values() for name in norm.inner}
        for node in self._graph.nodes:
            if node.output in covered:
                continue
            try:
                self._write_node(node, norms.get(node.output))
            except GraphError as error:
                raise GraphError(error.what, error.where or node.where, error.hint) from None

    def _write_node(self, node: Node, norm: LayerNorm | None) -> None:
        name, output = f"{self._prefix}{node.name}", self._values[node.output]
        if norm is not None:
            form = self._layer_norm(norm, self._graph.types[node.output].dtype)
            self._writer.write(form, name, output)
        elif isinstance(node.op, HostOp):
            self._writer.identity(self._piece(node, node.op, name), output)
        elif isinstance(node.op, Scan):
            self._writer.identity(self._loop(node, node.op, name), output)
        else:
            self._writer.write(self._form(node), name, output)

    def _form(self, node: Node) -> OnnxCall:
        convert = FORMS.get(type(node.op))
        if convert is None or getattr(node.op, "layout", "NCHW") != "NCHW":
            raise GraphError(
                f"operator {node.op} has no ONNX form",
                hint="export the network as it was built, before passes change its layout",
            )
        if isinstance(node.op, CastOp):
            operand = self._operand(node.inputs[0])
            return convert(node.op, Given((operand,), self._graph.types[node.output]))
        operands = tuple(self._operand_in_float32(name) for name in node.inputs)
        kind = self._graph.types[node.output]
        form = convert(node.op, Given(operands, _in_float32(kind)))
        return form if kind.dtype != _BFLOAT16 else cast(form, _BFLOAT16)

    def _operand(self, name: str) -> GivenValue:
        graph = self._graph
        return GivenValue(self._values[name], graph.types[name], graph.constants.get(name))

    def _operand_in_float32(self, name: str) -> GivenValue:
        """The operand, which is float32 where it is bfloat16: onnxruntime computes nothing in it,
        and ONNX not much.
        """
        operand = self._operand(name)
        if operand.dtype != _BFLOAT16:
            return operand
        if name not in self._wide:
            label = self._writer.fresh(f"{operand.name}.float32")
            self._writer.write(cast(operand, "float32"), label, label)
            self._wide[name] = GivenValue(label, _in_float32(operand.type), operand.array)
        return self._wide[name]

    def _layer_norm(self, norm: LayerNorm, dtype: str) -> OnnxCall:
        names = (norm.data, norm.scale, norm.bias)
        operands = (self._operand_in_float32(name) for name in names)
        found = call("LayerNormalization", *operands, axis=-1, epsilon=norm.epsilon)
        return found if dtype != _BFLOAT16 else cast(found, _BFLOAT16)

    def _inputs(self, node: Node) -> list[str]:
        return [self._values[name] for name in node.inputs]

    def _piece(self, node: Node, op: HostOp, name: str) -> str:
        key = call_key(node)
        if key not in self._done:
            self._done[key] = write_piece(op.function, self._inputs(node), name, self._writer)
        return self._done[key][op.index]

    def _loop(self, node: Node, op: Scan, name: str) -> str:
        key = loop_key(node)
        if key not in self._done:
            self._done[key] = _write_loop(op.function, self._inputs(node), name, self._writer)
        return self._done[key][op.index]


def _write_loop(
    function: ScanFunction, inputs: list[str], name: str, writer: ModelWriter
) -> list[str]:
    """A Scan; returns the names of its results.

    Args:
        function: what the iterations compute.
        inputs: names of states, sequences and what all iterations share, which is read in the
            body as it is.
        name: all names that are made up start with it.
        writer: of the graph around the loop.
    """
    own = function.states + function.slices
    prefix = f"{writer.fresh(name)}/"
    counter = [] if function.slices else [_counter(function, prefix, writer)]
    body = _loop_body(function, inputs[own:], prefix, writer)
    outputs = [writer.fresh(f"{prefix}result") for _ in function.body.outputs]
    directions, sequences = int(function.backwards), max(function.slices, 1)
    stacks = len(outputs) - function.states
    writer.nodes.append(
        helper.make_node(
            "Scan",
            [*inputs[:own], *counter],
            outputs,
            name,
            body=body,
            num_scan_inputs=sequences,
            scan_input_directions=[directions] * sequences,
            **({"scan_output_directions": [directions] * stacks} if stacks else {}),
        )
    )
    return outputs


def _counter(function: ScanFunction, prefix: str, writer: ModelWriter) -> str:
    """A sequence that nothing reads: a Scan has at least one."""
    name = writer.fresh(f"{prefix}counter")
    writer.constant(name, np.arange(function.trips))
    return name


def _loop_body(
    function: ScanFunction, shared: list[str], prefix: str, outer: ModelWriter
) -> onnx.GraphProto:
    """One iteration.

    Args:
        function: what it computes.
        shared: names of the values that all iterations read.
        prefix: of all names.
        outer: the writer of the graph around the loop.
    """
    graph, writer = function.body, outer.inner()
    own = graph.inputs[: function.states + function.slices]
    values = {name: writer.fresh(f"{prefix}{name}") for name in graph.types}
    values |= dict(zip([value.name for value in graph.inputs[len(own) :]], shared, strict=True))
    for name, array in graph.constants.items():
        writer.constant(values[name], array)
    _Nodes(graph, values, writer, prefix).write()
    results = [
        Value(writer.fresh(f"{prefix}{value.name}.next"), value.shape, value.dtype)
        for value in graph.outputs
    ]
    for result, value in zip(graph.results, results, strict=True):
        writer.identity(values[result.value], value.name)
    given = [Value(values[value.name], value.shape, value.dtype) for value in own]
    if not function.slices:
        given.append(Value(writer.fresh(f"{prefix}number"), (), "int64"))
    return helper.make_graph(writer.nodes, graph.name, value_infos(given), value_infos(results))
