"""Running an extraction kernel by kernel in the interpreter, as a runtime would."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autosched.graph.extract import Extraction
from sketch.oracle.interpret import interpret

Arrays = dict[str, NDArray[Any]]


def run_kernels(extraction: Extraction, inputs: Mapping[str, NDArray[Any]]) -> Arrays:
    """All outputs; values live in flat buffers, those that are parts of others inside these."""
    graph = extraction.graph
    buffers: Arrays = {**inputs, **graph.constants}

    def at(value: str, shape: Sequence[int]) -> NDArray[Any]:
        part = extraction.parts.get(value)
        if part is None:
            return buffers[value].reshape(shape)
        kind = graph.types[part.whole]
        if part.whole not in buffers:
            buffers[part.whole] = np.full(kind.shape, np.nan, kind.dtype)
        whole = buffers[part.whole]
        steps = tuple(stride * whole.itemsize for stride in part.strides)
        return np.lib.stride_tricks.as_strided(whole.reshape(-1)[part.offset :], shape, steps)

    for call in extraction.subgraphs:
        shapes = {tensor.name: tensor.shape for tensor in call.dag.inputs}
        arrays = {n: at(value, shapes[n]) for n, value in call.inputs.items()}
        result = interpret(call.dag, arrays | dict(call.constants))[call.output_name]
        if call.output in extraction.parts:
            at(call.output, result.shape)[...] = result
        else:
            buffers[call.output] = result
    return {
        value.name: buffers[extraction.results[value.name]].reshape(value.shape)
        for value in extraction.outputs
    }
