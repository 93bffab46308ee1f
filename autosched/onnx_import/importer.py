"""ONNX model -> network: fold what is constant, hand each other node to its importer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from autosched.graph.builder import GraphBuilder
from autosched.graph.errors import GraphError, ModelImportError
from autosched.graph.ir import Network
from autosched.onnx_import.folding import fold_node
from autosched.onnx_import.load import load_model, opset_of
from autosched.onnx_import.shapes import Shapes, input_values, static_shape, with_static_inputs
from autosched.onnx_import.site import Site, UnsupportedError, checked_constant
from autosched.onnx_import.table import IMPORTERS


def from_onnx(source: str | Path | onnx.ModelProto, shapes: Shapes | None = None) -> Network:
    """Import an ONNX model (a file, or the model itself) as a network.

    Args:
        source: path of the ``.onnx`` file, or a loaded model.
        shapes: shapes of inputs, by name; needed where the model has symbolic dimensions.

    Raises:
        ModelImportError: the file is broken, an input has no static shape, weights hold NaN, or
            nodes are not supported (the message lists all of them).
    """
    model = load_model(source)
    inputs = input_values(model, shapes)
    model = with_static_inputs(model, inputs)
    name = Path(source).stem if isinstance(source, str | Path) else model.graph.name or "onnx"
    conversion = _Conversion(name, model)
    for value in inputs:
        conversion.builder.input(value)
    return conversion.run()


class _Conversion:
    """The network while it is built, and the nodes that cannot be part of it."""

    def __init__(self, name: str, model: onnx.ModelProto) -> None:
        self._graph = model.graph
        self._opset = opset_of(model)
        names = {n for node in model.graph.node for n in (*node.input, *node.output, node.name)}
        self.builder = GraphBuilder(name, frozenset(names))
        self._arrays: dict[str, NDArray[Any]] = {
            tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer
        }
        self._labels: set[str] = set()
        self._unsupported: list[str] = []
        self._missing: set[str] = set()  # outputs of unsupported nodes, and what depends on them
        self._read = {n for node in model.graph.node for n in node.input}
        self._read.update(info.name for info in model.graph.output)

    def run(self) -> Network:
        for node in self._graph.node:
            self._convert(node)
        if self._unsupported:
            count = len(self._unsupported)
            raise ModelImportError(
                f"{count} node{'s are' if count > 1 else ' is'} not supported: "
                f"{'; '.join(self._unsupported)}",
                f"model {self.builder.name}",
                "export the model without them, or replace them by supported operators: "
                f"{', '.join(sorted(IMPORTERS))}",
            )
        for info in self._graph.output:
            if info.name not in self.builder.types:
                array = checked_constant(info.name, self._arrays[info.name])
                self.builder.constant(info.name, array)
        graph = self.builder.finish({info.name: info.name for info in self._graph.output})
        network = Network(self.builder.name, graph)
        self._check_against_inference(network)
        return network

    def _convert(self, node: onnx.NodeProto) -> None:
        label = self._label(node)
        known = node.domain in ("", "ai.onnx") and node.op_type in IMPORTERS
        if any(name in self._missing for name in node.input):
            if not known:
                self._reject(node, label, "")
            self._missing.update(node.output)
            return
        try:
            self._import(node, label, known)
        except UnsupportedError as reason:
            self._reject(node, label, str(reason))
        except GraphError as error:
            raise ModelImportError(
                error.what, f"node {label} ({node.op_type})", error.hint
            ) from error

    def _import(self, node: onnx.NodeProto, label: str, known: bool) -> None:
        folded = fold_node(node, self._opset, self._arrays, self.builder.types)
        if folded is not None:
            self._arrays.update(folded)
            return
        if not known:
            raise UnsupportedError("")
        IMPORTERS[node.op_type](
            Site(node, label, self._opset, _attributes(node), self._arrays, self.builder)
        )
        for name in node.output[1:]:
            if name in self._read and name not in self.builder.types:
                raise UnsupportedError(f"its output {name!r} is used")

    def _reject(self, node: onnx.NodeProto, label: str, reason: str) -> None:
        operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        self._unsupported.append(f"{operator} {label!r}" + (f" ({reason})" if reason else ""))
        self._missing.update(node.output)

    def _label(self, node: onnx.NodeProto) -> str:
        """The node's own name where it has one that is not taken, else its first output's."""
        candidates = [node.name, *node.output, f"{node.name}#{len(self._labels)}"]
        label = next(c for c in candidates if c and c not in self._labels)
        self._labels.add(label)
        return str(label)

    def _check_against_inference(self, network: Network) -> None:
        """Our shapes must be those that onnx infers."""
        declared = {info.name: static_shape(info) for info in self._graph.output}
        for value in network.outputs:
            if declared[value.name] not in (None, value.shape):
                raise ModelImportError(
                    f"output {value.name!r} has shape {value.shape}, onnx infers "
                    f"{declared[value.name]}",
                    f"model {network.name}",
                    "check the model with onnx.checker",
                )


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    values = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    return {
        name: value.decode() if isinstance(value, bytes) else value
        for name, value in values.items()
    }
