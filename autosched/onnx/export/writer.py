"""Nodes and constants of a model that is being written, under names that are unique in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper, numpy_helper

from autosched.graph.errors import GraphError
from autosched.graph.ir import Array, Value
from autosched.host.node_names import free_names
from autosched.onnx.export.terms import OPSET, GivenValue, OnnxCall, Part

_FLOAT: Final = onnx.defs.OpSchema.AttrType.FLOAT
# A message of protobuf has no more than 2 GiB; nodes need some of it.
_MOST_BYTES: Final = (1 << 31) - (1 << 24)


class ModelWriter:
    """Collects nodes; the bodies of loops have writers of their own with the same constants."""

    def __init__(
        self, taken: Iterable[str], opset: int = OPSET, outer: ModelWriter | None = None
    ) -> None:
        """A writer of a model.

        Args:
            taken: names that nothing else may have.
            opset: version of the default operators.
            outer: that of the model, for a body.
        """
        self.nodes: list[onnx.NodeProto] = []
        self._taken: set[str] = set(taken) if outer is None else outer._taken
        self.constants: list[onnx.TensorProto] = [] if outer is None else outer.constants
        self.opsets: dict[str, int] = {"": opset} if outer is None else outer.opsets

    def inner(self) -> ModelWriter:
        """A writer of a body."""
        return ModelWriter((), outer=self)

    def fresh(self, name: str) -> str:
        """``name``, or ``name`` with a number, that nothing is called."""
        found, number = name, 0
        while found in self._taken:
            number += 1
            found = f"{name}_{number}"
        self._taken.add(found)
        return found

    def free_prefix(self, name: str) -> str:
        """``name``, or that with a number, so that nothing is called like it and what is in it."""
        found = self.fresh(name)
        while any(taken.startswith(f"{found}/") for taken in self._taken):
            found = self.fresh(name)
        return found

    def constant(self, name: str, array: Array) -> None:
        """Add a constant.  Raises GraphError if it alone is too large."""
        _check_size(array.nbytes)
        self.constants.append(numpy_helper.from_array(np.array(array), name))

    def read_constants(self, results: Iterable[str]) -> list[onnx.TensorProto]:
        """The constants that nodes read, or that are results; forms make others of some.

        Raises:
            GraphError: they are too large together.
        """
        read = {*free_names(self.nodes), *results}
        found = [constant for constant in self.constants if constant.name in read]
        _check_size(sum(len(constant.raw_data) for constant in found))
        return found

    def identity(self, source: str, target: str) -> None:
        """OnnxCall a value once more."""
        self.nodes.append(helper.make_node("Identity", [source], [target]))

    def import_domain(self, domain: str, version: int) -> None:
        """Note that nodes are of an operator set.

        Raises:
            GraphError: others are of another version.
        """
        known = self.opsets.setdefault(domain, version)
        if known != version:
            raise GraphError(f"operators of {domain} {version} and {known}")

    def write(self, form: OnnxCall, name: str, output: str) -> None:
        """The nodes of a form.

        Args:
            form: what is computed.
            name: of its last node; others start with it.
            output: the result's name.
        """
        _Expression(self, name).add(form, name, output)


class _Expression:
    """The calls of one form, each of which is one node."""

    def __init__(self, writer: ModelWriter, name: str) -> None:
        self._writer, self._name = writer, name
        self._done: dict[int, str] = {}

    def add(self, form: OnnxCall, name: str, output: str) -> None:
        inputs = [self._input(part, index) for index, part in enumerate(form.inputs)]
        before = [self._writer.fresh(f"{name}.unused") for _ in range(form.output)]
        outputs = [*before, output]
        attributes = _typed(form, self._writer.opsets[""])
        self._writer.nodes.append(
            helper.make_node(form.operator, inputs, outputs, name, **attributes)
        )

    def _input(self, part: Part, index: int) -> str:
        if isinstance(part, GivenValue):
            return part.name
        if id(part) not in self._done:
            self._done[id(part)] = self._made(part, index)
        return self._done[id(part)]

    def _made(self, part: OnnxCall | Array, index: int) -> str:
        if isinstance(part, OnnxCall):
            name = self._writer.fresh(f"{self._name}.{part.operator}")
            self.add(part, name, name)
            return name
        name = self._writer.fresh(f"{self._name}.{index}")
        self._writer.constant(name, part)
        return name


def _typed(form: OnnxCall, opset: int) -> dict[str, Any]:
    """Attributes of a form; a whole number is a float where ONNX wants one."""
    declared = onnx.defs.get_schema(form.operator, opset).attributes
    return {
        name: float(value) if declared[name].type == _FLOAT else value
        for name, value in form.attributes.items()
    }


def _check_size(count: int) -> None:
    """Raise GraphError if constants have too many bytes."""
    if count > _MOST_BYTES:
        most = f"{_MOST_BYTES / 1e9:.1f} GB"
        raise GraphError(f"constants of {count / 1e9:.1f} GB: an ONNX model has at most {most}")


def value_infos(values: Sequence[Value]) -> list[onnx.ValueInfoProto]:
    """Descriptions of inputs or outputs."""
    return [
        helper.make_tensor_value_info(
            value.name, helper.np_dtype_to_tensor_dtype(np.dtype(value.dtype)), value.shape
        )
        for value in values
    ]
