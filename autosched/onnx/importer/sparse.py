"""Sparse weights of a model, as dense ones: nothing computes with them as they are."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from autosched.host.node_names import nested_graphs, walk

_MOST_BYTES: Final = 1 << 31  # what the format has room for, too


def make_weights_dense(model: onnx.ModelProto) -> None:
    """Turn all sparse initializers, and Constants of sparse values, of ``model`` into dense ones.

    Raises:
        ValueError: indices do not fit a shape, or a dense array is too large.
    """
    nodes = list(walk(model.graph.node))
    for graph in (model.graph, *(graph for node in nodes for graph in nested_graphs(node))):
        graph.initializer.extend(map(_dense, graph.sparse_initializer))
        del graph.sparse_initializer[:]
    for attribute in (attribute for node in nodes for attribute in node.attribute):
        if attribute.name == "sparse_value":
            attribute.CopyFrom(helper.make_attribute("value", _dense(attribute.sparse_tensor)))


def _dense(sparse: onnx.SparseTensorProto) -> onnx.TensorProto:
    """Values at indices into the flattened array, or at one index for each dimension."""
    name, shape = sparse.values.name, tuple(sparse.dims)
    values = numpy_helper.to_array(sparse.values)
    if min(shape, default=0) < 0 or math.prod(shape) * max(values.itemsize, 1) > _MOST_BYTES:
        raise ValueError(f"sparse weight {name!r} has shape {shape}")
    absent = "" if values.dtype == object else 0
    array: NDArray[Any] = np.full(math.prod(shape), absent, values.dtype)
    array[_places(numpy_helper.to_array(sparse.indices), shape, values.shape)] = values
    return numpy_helper.from_array(array.reshape(shape), name)


def _places(
    indices: NDArray[Any], shape: tuple[int, ...], given: tuple[int, ...]
) -> NDArray[np.intp]:
    if indices.ndim > 1:
        # one array of indices a dimension; a wrong number of them is an error
        return np.asarray(np.ravel_multi_index(tuple(indices.T), shape))
    if indices.shape != given or not ((indices >= 0) & (indices < math.prod(shape))).all():
        raise ValueError(f"{indices.size} indices of {given} values do not fit shape {shape}")
    return indices
