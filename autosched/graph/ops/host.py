"""Operators that no kernel computes: they run on the host, in onnxruntime or onnx's reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from autosched.graph.errors import GraphError
from autosched.graph.ops.base import Op, Pattern, TensorType


@dataclass(frozen=True, slots=True)
class HostFunction:
    """A piece of an ONNX model whose types are all static.

    Attributes:
        operator: what it computes, for people: the ONNX operators joined by ``+``.
        payload: the piece as a serialized ONNX model; its inputs and outputs are in the order of
            the types below.  Constants are inside.
        inputs, outputs: types; any NumPy dtype (strings are ``object``), extents may be 0.
    """

    operator: str
    payload: bytes = field(repr=False)
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]


@dataclass(frozen=True, slots=True)
class HostOp(Op):
    """Output ``index`` of a host function.

    A function with several outputs becomes several nodes of equal ``function`` and inputs, which
    are evaluated once.
    """

    pattern: ClassVar[Pattern] = Pattern.OPAQUE
    on_host: ClassVar[bool] = True

    function: HostFunction
    index: int

    def infer(self, inputs: Sequence[TensorType]) -> TensorType:
        if tuple(inputs) != self.function.inputs:
            wanted = ", ".join(map(str, self.function.inputs))
            given = ", ".join(map(str, inputs))
            raise GraphError(
                f"{self.function.operator} on the host takes ({wanted}), got ({given})"
            )
        return self.function.outputs[self.index]

    def __str__(self) -> str:
        part = f"[{self.index}]" if len(self.function.outputs) > 1 else ""
        return f"host {self.function.operator}{part}"
