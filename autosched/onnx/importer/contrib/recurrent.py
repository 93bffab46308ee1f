"""Importer of DynamicQuantizeLSTM: an LSTM of floats whose weights the file has as bytes.

onnxruntime quantises data and states in every step as well.  Here they stay floats: results differ
by what that costs it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from autosched.onnx.importer.recurrent import IMPORT_RECURRENT
from autosched.onnx.importer.site import Site, UnsupportedError

_WEIGHTS: Final = ((1, 8), (2, 10))  # positions of bytes and of their scales; zero points follow
_SHARED: Final = 8  # how many inputs are those of an LSTM


def import_dynamic_quantize_lstm(site: Site) -> None:
    """DynamicQuantizeLSTM of constant weights."""
    names = list(site.node.input[:_SHARED])
    for place, scale in _WEIGHTS:
        names[place] = site.add_constant(f"weight{place}", _weight(site, place, scale))
    node = helper.make_node("LSTM", names, list(site.node.output))
    IMPORT_RECURRENT["LSTM"](replace(site, node=node))


def _weight(site: Site, place: int, scale: int) -> NDArray[Any]:
    """``[directions, 4 * hidden, columns]`` in floats; the file has the columns first."""
    arrays = [site.constant(index) for index in (place, scale, scale + 1)]
    if any(array is None for array in arrays):
        raise UnsupportedError("weights without a scale or a zero point")
    integers, factors, zeros = (np.asarray(array) for array in arrays)
    directions = len(integers)
    wide, factor, zero = (
        array.astype(np.float32).reshape(directions, -1, array.shape[-1] if array.ndim > 1 else 1)
        for array in (integers, factors, zeros)
    )
    return np.ascontiguousarray(((wide - zero) * factor).transpose(0, 2, 1))
