"""Importer of DynamicQuantizeLSTM: an LSTM whose products are those of bytes.

Data are quantised once, and states in every step, as DynamicQuantizeLinear does; gates and states
are floats.  Steps behind the end of the longest sequence do not count for the scale of data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from autosched.graph.errors import ModelImportError
from autosched.onnx.importer.composer import Composer, applied
from autosched.onnx.importer.contrib.products import integer_product
from autosched.onnx.importer.dynamic_quantize import import_dynamic_quantize
from autosched.onnx.importer.recurrent import Factors, Operand, import_recurrent
from autosched.onnx.importer.site import Site, UnsupportedError
from sketch.lang.dtypes import BYTES

_WEIGHTS: Final = ((1, 8), (2, 10))  # positions of bytes and of their scales; zero points follow
_SHARED: Final = 8  # how many inputs are those of an LSTM


@dataclass(frozen=True, slots=True)
class _Bytes:
    """Weights of all directions.

    Attributes:
        integers: int8 or uint8 ``[directions, columns, 4 * hidden]``.
        scales: float32 ``[directions, 1 or 4 * hidden]``.
        zeros: of the dtype of ``integers`` and the shape of ``scales``.
    """

    integers: NDArray[Any]
    scales: NDArray[np.float32]
    zeros: NDArray[Any]

    def floats(self) -> NDArray[np.float32]:
        """``[directions, 4 * hidden, columns]``, as an LSTM has them."""
        wide = self.integers.astype(np.float32) - self.zeros[:, None].astype(np.float32)
        return np.ascontiguousarray((wide * self.scales[:, None]).transpose(0, 2, 1))

    def operand(self, site: Site, number: int) -> Operand:
        """The matrix of a direction: its bytes, scales and zero points."""
        arrays = (self.integers[number], self.scales[number], self.zeros[number])
        roles = ("bytes", "scale", "zero")
        return [
            site.add_constant(role, np.squeeze(array, -1) if array.shape == (1,) else array)
            for role, array in zip(roles, arrays, strict=True)
        ]


def import_dynamic_quantize_lstm(site: Site) -> None:
    """DynamicQuantizeLSTM of constant weights."""
    weights = [_weight(site, place, scale) for place, scale in _WEIGHTS]
    names = list(site.node.input[:_SHARED])
    for (place, _), weight in zip(_WEIGHTS, weights, strict=True):
        names[place] = site.add_constant(f"weight{place}", weight.floats())
    data, states = (
        [weight.operand(site, number) for number in range(len(weight.integers))]
        for weight in weights
    )
    node = helper.make_node("LSTM", names, list(site.node.output))
    factors = Factors(_product, data, [[each] for each in states], joint=True)
    import_recurrent(replace(site, node=node), factors)


def _product(site: Site, value: str, matrix: Operand) -> str:
    quantised = applied(
        site, import_dynamic_quantize, "DynamicQuantizeLinear", [value], {}, outputs=3
    )
    return integer_product(Composer(site), quantised, matrix)


def _weight(site: Site, place: int, scale: int) -> _Bytes:
    """Input ``place``, whose scales are input ``scale``."""
    arrays = [site.constant(index) for index in (place, scale, scale + 1)]
    if any(array is None for array in arrays):
        raise UnsupportedError("weights without a scale or a zero point")
    integers, scales, zeros = (np.asarray(array) for array in arrays)
    if integers.ndim != len(("directions", "columns", "rows")) or str(integers.dtype) not in BYTES:
        raise UnsupportedError(f"weights {integers.dtype}{list(integers.shape)}")
    directions, rows = len(integers), integers.shape[-1]
    for array in (scales, zeros):
        if array.size not in (directions, directions * rows):
            raise ModelImportError(
                f"scales or zero points {list(array.shape)} for weights {list(integers.shape)}",
                f"node {site.label} ({site.node.op_type})",
                f"give one or {rows} for each direction",
            )
    return _Bytes(
        integers,
        scales.astype(np.float32).reshape(directions, -1),
        zeros.astype(integers.dtype).reshape(directions, -1),
    )
