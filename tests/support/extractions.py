"""Running an extraction kernel by kernel in the interpreter, as a runtime would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.graph.extract import Extraction
from sketch.oracle.interpret import interpret

Arrays = dict[str, NDArray[Any]]


def run_kernels(extraction: Extraction, inputs: Mapping[str, NDArray[Any]]) -> Arrays:
    """All outputs; values live in flat buffers, parts of a concatenation inside the whole."""
    graph = extraction.graph
    buffers: Arrays = {**inputs, **graph.constants}
    for call in extraction.subgraphs:
        shapes = {tensor.name: tensor.shape for tensor in call.dag.inputs}
        arrays = {n: buffers[value].reshape(shapes[n]) for n, value in call.inputs.items()}
        result = interpret(call.dag, arrays | dict(call.constants))[call.output_name]
        part = extraction.parts.get(call.output)
        if part is None:
            buffers[call.output] = result
            continue
        whole = buffers.setdefault(
            part.whole, np.full(graph.types[part.whole].shape, np.nan, result.dtype)
        )
        strides = tuple(stride * whole.itemsize for stride in part.strides)
        place = whole.reshape(-1)[part.offset :]
        np.lib.stride_tricks.as_strided(place, result.shape, strides)[...] = result
    return {
        value.name: buffers[extraction.results[value.name]].reshape(value.shape)
        for value in extraction.outputs
    }
