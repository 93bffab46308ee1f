"""Each precision: which layers of a graph it is for, and how they are computed in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.graph.dynamic_bytes import (
    dequantised_operands,
    dynamic_byte_layers,
    in_dynamic_bytes,
)
from autosched.graph.half_floats import half_float_layers, in_half_floats
from autosched.graph.ir import Graph, Node
from autosched.graph.precision import Precision, ReducedLayers
from autosched.graph.tf32 import in_tf32, tf32_layers, tf32_operands
from sketch.lang.storage_floats import storage_floats

HALF_FLOATS: Final[Mapping[Precision, str]] = {"bf16": "bfloat16", "fp16": "float16"}
"""The element types of precisions that have one for both factors."""


def reducible_layers(graph: Graph, precision: Precision) -> tuple[Node, ...]:
    """The layers of an optimised graph that can be computed in ``precision``."""
    if precision == "as written":
        return ()
    if precision == "tf32":
        return tf32_layers(graph)
    narrow = HALF_FLOATS.get(precision)
    return dynamic_byte_layers(graph) if narrow is None else half_float_layers(graph, narrow)


def with_reduced(graph: Graph, reduced: ReducedLayers) -> Graph:
    """An optimised graph with ``reduced`` layers; the graph itself where there are none."""
    if reduced.precision == "as written":
        return graph
    if reduced.precision == "tf32":
        return in_tf32(graph, reduced.names)
    narrow = HALF_FLOATS.get(reduced.precision)
    if narrow is None:
        return in_dynamic_bytes(graph, reduced.names)
    return in_half_floats(graph, reduced.names, narrow)


def rounded_operands(
    graph: Graph, node: Node, operands: Mapping[str, NDArray[Any]], precision: Precision
) -> dict[str, NDArray[Any]]:
    """Operands of a layer, both factors rounded, in float64.

    Args:
        graph: with ``node``.
        node: a layer that is reducible.
        operands: by name.
        precision: what factors are rounded to.
    """
    if precision == "tf32":
        return tf32_operands(node, operands)
    narrow = HALF_FLOATS.get(precision)
    if narrow is None:
        return dequantised_operands(graph, node, operands)
    factors = {n: storage_floats(operands[n], narrow) for n in node.inputs[:2]}
    return dict(operands) | {name: array.astype(np.float64) for name, array in factors.items()}
