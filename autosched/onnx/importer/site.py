"""What an operator's importer sees: one ONNX node, its attributes, and the graph being built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from autosched.graph.builder import GraphBuilder
from autosched.graph.errors import ModelImportError
from autosched.graph.ops.base import Op, TensorType
from autosched.graph.ops.elementwise import CastOp
from autosched.onnx.importer.domains import DEFAULT_DOMAINS
from autosched.system.stray_nans import stray_nans
from sketch.lang.dtypes import SUPPORTED


class UnsupportedError(Exception):
    """This node cannot be imported; the message says which part of it."""


class ImpossibleError(UnsupportedError):
    """Nothing can compute this node for the types of its inputs: where it is run, that fails."""


@dataclass(frozen=True, slots=True)
class Site:
    """One ONNX node.

    Attributes:
        node: the node itself.
        label: its name, unique in the model.
        opset: version of the default operator set.
        attributes: values of its attributes (strings decoded).
        arrays: all constants known so far: initializers and what was folded.
        builder: the graph so far.
        layer: name of the model's own node that this one is a part of; its label if empty.
    """

    node: onnx.NodeProto
    label: str
    opset: int
    attributes: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]
    builder: GraphBuilder
    layer: str = ""

    @property
    def arity(self) -> int:
        """Number of inputs, up to the last that is given."""
        given = [index for index, name in enumerate(self.node.input) if name]
        return given[-1] + 1 if given else 0

    def has(self, index: int) -> bool:
        """Whether input ``index`` is given."""
        return index < len(self.node.input) and bool(self.node.input[index])

    def input(self, index: int) -> str:
        """Input ``index`` as a value of the graph; as ``value``."""
        return self.value(self.node.input[index])

    def value(self, name: str) -> str:
        """What is called so, as a value of the graph; a constant is added to it on first use.

        Raises:
            ModelImportError: some of the constant is NaN.
        """
        if name not in self.builder.types:
            self.builder.constant(name, checked_constant(name, self.arrays[name]))
        return name

    def plain_constant(self, index: int) -> NDArray[Any] | None:
        """The array behind input ``index``, unless the graph computes it, from constants or not."""
        name = self.node.input[index]
        computed = name in self.builder.types and name not in self.builder.constants
        return None if computed else self.arrays.get(name)

    def inputs(self) -> list[str]:
        """All inputs."""
        return [self.input(index) for index in range(self.arity)]

    def type(self, index: int) -> TensorType:
        """Type of input ``index``."""
        name = self.node.input[index]
        if name in self.arrays:
            array = self.arrays[name]
            return TensorType(array.shape, str(array.dtype))
        return self.builder.types[name]

    def rank(self, index: int) -> int:
        """Number of dimensions of input ``index``."""
        return len(self.type(index).shape)

    def constant(self, index: int) -> NDArray[Any] | None:
        """The array behind input ``index``; None if it is not given.

        Raises:
            UnsupportedError: the input is not constant.
        """
        if not self.has(index):
            return None
        name = self.node.input[index]
        if name not in self.arrays:
            raise UnsupportedError(f"input {index} ({name!r}) is not constant")
        return self.arrays[name]

    def integers(self, index: int, attribute: str) -> tuple[int, ...] | None:
        """Integers that older opsets have as an attribute and newer ones as input ``index``."""
        if attribute in self.attributes:
            return tuple(self.attributes[attribute])
        array = self.constant(index)
        return None if array is None else tuple(int(value) for value in array.reshape(-1))

    def add_constant(self, role: str, array: NDArray[Any]) -> str:
        """A constant that the importer made; returns its name."""
        name = self.builder.unique(f"{self.label}.{role}")
        return self.builder.constant(name, checked_constant(name, array))

    def scalar(self, role: str, value: float, dtype: str) -> str:
        """A constant without dimensions; returns its name."""
        return self.add_constant(role, np.asarray(value).astype(dtype))

    def wants(self, index: int) -> bool:
        """Whether output ``index`` has a name."""
        return index < len(self.node.output) and bool(self.node.output[index])

    def step(self, op: Op, inputs: Sequence[str]) -> str:
        """Add a node for a part of the ONNX node; returns its output."""
        name = self.builder.unique(f"{self.label}.{op.kind}")
        return self.builder.add(op, inputs, name, name, (self.layer or self.label,))

    def cast(self, value: str, dtype: str) -> str:
        """A value in a dtype: itself, where it has that already."""
        same = self.builder.types[value].dtype == dtype
        return value if same else self.step(CastOp(dtype), [value])

    def emit(self, op: Op, inputs: Sequence[str], index: int = 0) -> None:
        """Add the node that computes output ``index`` of the ONNX node."""
        name = f"{self.label}.{index}" if index else self.label
        self.builder.add(op, inputs, self.node.output[index], name, (self.layer or self.label,))


def checked_constant(name: str, array: NDArray[Any]) -> NDArray[Any]:
    """``array`` if the graph can hold it; NaN throughout is deliberate, one among weights is not.

    Raises:
        ModelImportError: some of it is NaN.
        UnsupportedError: unsupported dtype, or no elements.
    """
    if str(array.dtype) not in SUPPORTED:
        raise UnsupportedError(f"constant {name!r} has dtype {array.dtype}")
    if array.size == 0:
        raise UnsupportedError(f"constant {name!r} is empty")
    if count := stray_nans(array):
        raise ModelImportError(
            f"{count} of {array.size} elements of constant {name!r} are NaN",
            "from_onnx",
            "check how the model was trained or exported",
        )
    return array


def qualified(node: onnx.NodeProto) -> str:
    """The operator, after its domain where that is not ONNX's own."""
    return str(node.op_type if node.domain in DEFAULT_DOMAINS else f"{node.domain}.{node.op_type}")


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """The values of its attributes by name, strings decoded."""
    values = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return {
        name: value.decode() if isinstance(value, bytes) else value
        for name, value in values.items()
    }
