"""Layers in tf32: products of float32 rounded to 10 fraction bits, summed in float32.

    conv(x, w) + b   ->   conv(tf32(x), tf32(w)) + b

Numbers are rounded where they are multiplied; what kernels leave to each other stays float32.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.graph.ir import Graph, Node
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.matmul import Dense
from autosched.graph.reducible import constant_layers
from sketch.lang.scalar_functions import rounded_tf32
from sketch.operators.factors import TF32


def tf32_layers(graph: Graph) -> tuple[Node, ...]:
    """The layers of an optimised graph whose weights tf32 can hold."""
    found = constant_layers(graph, depthwise=False)
    return tuple(node for node, array in found if np.isfinite(_rounded(array)).all())


def in_tf32(graph: Graph, layers: Collection[str]) -> Graph:
    """An optimised graph with the layers of these names in tf32."""
    chosen = {node.name for node in tf32_layers(graph) if node.name in layers}
    if not chosen:
        return graph
    nodes = tuple(_in_tf32(node) if node.name in chosen else node for node in graph.nodes)
    return Graph(graph.name, graph.inputs, graph.results, nodes, graph.constants)


def tf32_operands(node: Node, operands: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Operands of a layer, both factors rounded, in float64."""
    return dict(operands) | {name: _rounded(operands[name]) for name in node.inputs[:2]}


def _in_tf32(node: Node) -> Node:
    assert isinstance(node.op, Conv | Dense)
    return replace(node, op=replace(node.op, dtype=TF32))


def _rounded(array: NDArray[Any]) -> NDArray[np.float64]:
    return rounded_tf32(np.asarray(array, np.float32).astype(np.float64))
