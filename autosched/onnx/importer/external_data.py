"""Weights that a model keeps in files of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

import onnx
from onnx import external_data_helper

from autosched.graph.errors import ModelImportError
from autosched.host.node_names import nested_graphs, walk


def stored_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """All tensors in a model: initializers and attributes, those of nested graphs included."""
    members = list(walk(model.graph.node))
    members += [node for function in model.functions for node in walk(function.node)]
    graphs = [model.graph, *(graph for node in members for graph in nested_graphs(node))]
    sparse = [tensor for graph in graphs for tensor in graph.sparse_initializer]
    for graph in graphs:
        yield from graph.initializer
    for node in members:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            if attribute.HasField("sparse_tensor"):
                sparse.append(attribute.sparse_tensor)
            yield from attribute.tensors
    for tensor in sparse:
        yield from (tensor.values, tensor.indices)


def load_external_data(model: onnx.ModelProto, folder: Path, where: str) -> None:
    """Read what ``model`` keeps in other files of ``folder`` into the model.

    Raises:
        ModelImportError: a path leaves the folder, or the data cannot be read.
    """
    for tensor in stored_tensors(model):
        if not external_data_helper.uses_external_data(tensor):
            continue
        _check_location(tensor, folder, where)
        try:
            external_data_helper.load_external_data_for_tensor(tensor, str(folder))
            tensor.data_location = onnx.TensorProto.DEFAULT
            del tensor.external_data[:]
        except Exception as error:  # missing, too short, offsets that are no numbers, ...
            raise ModelImportError(
                f"the data of {tensor.name!r}, stored outside the model, cannot be read: {error}",
                where,
                "put the complete data file next to the model",
            ) from error


def _check_location(tensor: onnx.TensorProto, folder: Path, where: str) -> None:
    """The file must be within the folder of the model, also after links are followed."""
    location = next((e.value for e in tensor.external_data if e.key == "location"), "")
    parts = PurePosixPath(location.replace("\\", "/")).parts
    absolute = location.startswith(("/", "\\")) or PureWindowsPath(location).is_absolute()
    leaves = not location or absolute or ".." in parts or "\0" in location
    if not leaves:
        steps = [folder.joinpath(*parts[: count + 1]) for count in range(len(parts))]
        leaves = any(step.is_symlink() for step in steps)
    if leaves:
        raise ModelImportError(
            f"the data of {tensor.name!r} is said to be in {location!r}, which is not within the "
            "model's folder",
            where,
            "put the data file (no link) next to the model and store its relative path",
        )
