"""What operators that are composed of others need of a network: a place to add these."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from autosched.graph.ops.base import Op, TensorType


class Appends(Protocol):
    """What adds operators to a network."""

    def type_of(self, value: str) -> TensorType:
        """Type of a value of the network."""

    def add(self, op: Op, *inputs: str) -> str:
        """Append ``op``; returns the name of its result."""

    def array(self, array: NDArray[Any]) -> str:
        """A constant."""
