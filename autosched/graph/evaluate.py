"""The reference: a graph evaluated node by node, in float64, through the expressions' oracle."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.graph.errors import GraphError
from autosched.graph.host_call import CallKey, call_key
from autosched.graph.ir import Graph, Node, Value
from autosched.graph.loop_call import LoopKey, loop_key
from autosched.graph.ops.host import HostOp
from autosched.graph.ops.lowering import lower
from autosched.graph.ops.scan import Scan, ScanFunction
from autosched.graph.ops.shape import Reshape
from autosched.host.evaluator import HostEvaluator
from autosched.system.element_types import element_type
from sketch.dag.dag import ComputeDAG
from sketch.lang.dtypes import is_float
from sketch.lang.tensor import placeholder
from sketch.oracle.interpret import interpret

Reference = NDArray[Any]
"""float64 for floating-point values, else the value's own dtype."""
Done = dict[CallKey | LoopKey, list[NDArray[Any]]]
"""All results of the host calls and loops that were evaluated."""


Seen = Callable[[Node, Mapping[str, NDArray[Any]], Reference], None]
"""Is shown a node, its operands by name, and its output."""


def evaluate(
    graph: Graph, inputs: Mapping[str, NDArray[Any]], seen: Seen | None = None
) -> dict[str, Reference]:
    """All outputs of ``graph``, by public name.  ``seen``: is shown every node.

    Raises:
        GraphError: an input is missing, unknown or of a wrong shape.
    """
    check_inputs(graph, inputs)
    last_use = {name: node for node in graph.nodes for name in node.inputs}
    values: dict[str, Reference] = {name: np.asarray(array) for name, array in inputs.items()}
    values.update(graph.constants)
    done: Done = {}
    for node in graph.nodes:
        operands = {name: values[name] for name in node.inputs}
        values[node.output] = evaluate_node(node, operands, done)
        if seen is not None:
            seen(node, operands, values[node.output])
        for name in set(node.inputs) - graph.result_values:
            if last_use[name] is node:
                del values[name]
    return {result.name: values[result.value] for result in graph.results}


def evaluate_node(
    node: Node,
    inputs: Mapping[str, NDArray[Any]],
    done: Done | None = None,
) -> Reference:
    """The output of one node; ``done`` keeps what host calls and loops give for other nodes."""
    known = {} if done is None else done
    if isinstance(node.op, HostOp):
        return _evaluate_on_host(node, node.op, inputs, known)
    if isinstance(node.op, Scan):
        return _evaluate_scan(node, node.op, inputs, known)
    if isinstance(node.op, Reshape):
        return np.asarray(inputs[node.inputs[0]]).reshape(node.op.shape)
    names = {name: f"operand{index}" for index, name in enumerate(dict.fromkeys(node.inputs))}
    arrays = {names[name]: _widened(inputs[name]) for name in names}
    tensors = {
        name: placeholder(arrays[label].shape, _element_dtype(inputs[name]), label)
        for name, label in names.items()
    }
    results = lower(node.op, [tensors[name] for name in node.inputs], "result")
    dag = ComputeDAG(results)
    return interpret(dag, arrays)[dag.output_names[0]]


def _evaluate_on_host(
    node: Node,
    op: HostOp,
    inputs: Mapping[str, NDArray[Any]],
    done: Done,
) -> Reference:
    """In the model's own dtypes, whatever the precision of the rest."""
    function, key = op.function, call_key(node)
    evaluator = HostEvaluator(function.operator, function.payload)
    if key not in done:
        pairs = zip(node.inputs, function.inputs, strict=True)
        done[key] = evaluator.run(
            [np.asarray(inputs[name]).astype(element_type(kind.dtype)) for name, kind in pairs]
        )
    kind = function.outputs[op.index]
    return _widened(evaluator.result(done[key], op.index, kind.shape, kind.dtype))


def _evaluate_scan(
    node: Node, op: Scan, inputs: Mapping[str, NDArray[Any]], done: Done
) -> Reference:
    function, key = op.function, loop_key(node)
    if key not in done:
        done[key] = _iterate(function, [np.asarray(inputs[name]) for name in node.inputs])
    return done[key][op.index]


def _iterate(function: ScanFunction, operands: list[NDArray[Any]]) -> list[Reference]:
    """The last states and the stacks."""
    first, last = function.states, function.states + function.slices
    states, sequences, shared = operands[:first], operands[first:last], operands[last:]
    names = [value.name for value in function.body.inputs]
    numbers = range(function.trips)
    rows: dict[int, list[Reference]] = {}
    for number in reversed(numbers) if function.backwards else numbers:
        values = (*states, *(sequence[number] for sequence in sequences), *shared)
        results = list(evaluate(function.body, dict(zip(names, values, strict=True))).values())
        states, rows[number] = results[:first], results[first:]
    stacks = zip(*(rows[number] for number in numbers), strict=True)
    return [*states, *(np.stack(stack) for stack in stacks)]


def check_inputs(graph: Graph, inputs: Mapping[str, NDArray[Any]]) -> None:
    """Raise GraphError unless ``inputs`` has an array of the right shape for every input."""
    expected: dict[str, Value] = {value.name: value for value in graph.inputs}
    if set(inputs) != set(expected):
        raise GraphError(
            f"inputs {sorted(inputs)} were given",
            f"graph {graph.name}",
            f"give {sorted(expected)}",
        )
    for name, value in expected.items():
        if np.shape(inputs[name]) != value.shape:
            raise GraphError(
                f"input {name!r} has shape {np.shape(inputs[name])}",
                f"graph {graph.name}",
                f"its shape must be {value.shape}",
            )


def _element_dtype(array: NDArray[Any]) -> str:
    name = str(array.dtype)
    return "float32" if is_float(name) else name


def _widened(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(np.float64) if is_float(str(array.dtype)) else array
