"""The loop of a recurrent layer: its body, one step, and what goes into it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from autosched.graph.builder import GraphBuilder
from autosched.graph.ir import Result, Value
from autosched.graph.ops.elementwise import Where
from autosched.graph.ops.scan import Scan, ScanFunction
from autosched.onnx.importer.gate_functions import Cell, GateFunction
from autosched.onnx.importer.recurrent_cells import Values
from autosched.onnx.importer.recurrent_inputs import Factors, Layer, LoopInputs, Operand
from autosched.onnx.importer.site import Site


def add_loop(
    layer: Layer,
    factors: Factors,
    inputs: LoopInputs,
    functions: Sequence[GateFunction],
    backwards: bool,
) -> list[str]:
    """The last states and the sequence of h, stacked over the steps.

    Args:
        layer: the node.
        factors: how to multiply.
        inputs: of the loop.
        functions: of the gates.
        backwards: whether the last step comes first.
    """
    site = layer.site
    body = _Body(layer, f"{site.node.op_type} step")
    states = tuple(
        body.input(f"state{number}", name, False) for number, name in enumerate(inputs.states)
    )
    sliced = body.input("data", inputs.shares, True)
    mask = None if inputs.mask is None else body.input("mask", inputs.mask, True)
    inner = replace(site, builder=body.builder, layer=site.layer or site.label)
    values = Values(
        sliced,
        states,
        tuple(_by(factors, inner, body, matrix) for matrix in inputs.matrices),
        None if inputs.reset_bias is None else body.shared(inputs.reset_bias),
        tuple(body.shared(name) for name in inputs.peepholes),
    )
    cell = Cell(inner, site.attributes.get("clip"), mask)
    return body.loop(cell, layer.kind.step(cell, values, functions, layer.flag), backwards)


def _by(factors: Factors, site: Site, body: _Body, matrix: Operand) -> Callable[[str], str]:
    """Multiplies values of the body by a matrix."""
    shared = [body.shared(name) for name in matrix]
    return lambda value: factors.multiply(site, value, shared)


class _Body:
    """The body of a loop while it is built, and what goes into the loop."""

    def __init__(self, layer: Layer, name: str) -> None:
        self.builder = GraphBuilder(name)
        self._layer = layer
        self._operands: list[str] = []

    def input(self, label: str, source: str, sliced: bool) -> str:
        """The next input: ``source``, or its slices; returns its name in the body."""
        kind = self._layer.site.builder.types[source]
        shape = kind.shape[1:] if sliced else kind.shape
        self._operands.append(source)
        return self.builder.input(Value(label, shape, kind.dtype))

    def shared(self, source: str) -> str:
        """A value that is the same in all iterations; constants become the body's own.

        Nothing, of no name, stays so.
        """
        if not source:
            return source
        label = self.builder.unique("weight")
        constant = self._layer.site.builder.constants.get(source)
        if constant is None:
            return self.input(label, source, False)
        return self.builder.constant(label, constant)

    def loop(self, cell: Cell, following: Sequence[str], backwards: bool) -> list[str]:
        """Add the loop to the network: its last states, then all outputs."""
        layer = self._layer
        output = following[0]
        if cell.mask is not None:
            output = cell.add(Where(), cell.mask, output, cell.scalar(0.0, output))
        results = [Result(f"result{n}", name) for n, name in enumerate((*following, output))]
        function = ScanFunction(
            body=self.builder.finish(results),
            trips=layer.length,
            states=layer.kind.states,
            slices=1 if cell.mask is None else 2,
            backwards=backwards,
        )
        nodes = range(len(results))
        return [layer.site.step(Scan(function, index), self._operands) for index in nodes]
