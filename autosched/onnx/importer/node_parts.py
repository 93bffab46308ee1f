"""Operators composed of others, as parts of an ONNX node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from autosched.graph.ops.base import Op, TensorType
from autosched.onnx.importer.site import Site


@dataclass(frozen=True, slots=True)
class NodeParts:
    """Adds operators that are parts of the node of ``site``."""

    site: Site

    def type_of(self, value: str) -> TensorType:
        """Type of a value of the network."""
        return self.site.builder.types[value]

    def add(self, op: Op, *inputs: str) -> str:
        """Append ``op``; returns the name of its result."""
        return self.site.step(op, inputs)

    def array(self, array: NDArray[Any]) -> str:
        """A constant."""
        return self.site.add_constant("numbers", array)
