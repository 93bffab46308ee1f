"""Importers of quantised operators: the operator of floats between integers.

    QLinearAdd(a, b)   ->   QuantizeLinear(Add(DequantizeLinear(a), DequantizeLinear(b)))

What quantisers write where ONNX has no operator of bytes.  Graph passes compute on the integers
again, as they do where a model has the operators on the right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from onnx import helper

from autosched.graph.ops.elementwise import BinaryOp
from autosched.onnx.importer.activation import IMPORT_ACTIVATION
from autosched.onnx.importer.composer import Importer, applied
from autosched.onnx.importer.contrib.channels_last import ChannelsLast
from autosched.onnx.importer.elementwise import IMPORT_ELEMENTWISE
from autosched.onnx.importer.matmul import import_gemm
from autosched.onnx.importer.pooling import IMPORT_POOLING
from autosched.onnx.importer.quantize import import_dequantize, import_quantize
from autosched.onnx.importer.shape import import_concat
from autosched.onnx.importer.site import Site
from autosched.onnx.importer.softmax import IMPORT_SOFTMAX


@dataclass(frozen=True, slots=True)
class _InFloats:
    """An operator of floats between quantised values.

    Attributes:
        operator: of ONNX, which has the attributes of the quantised one.
        importer: of ``operator``.
        operands: places of the data among the inputs; a scale and a zero point follow each.
        result: place of the scale of the result; its zero point follows.
        plain: how many inputs before all others are handed on as they are.
    """

    operator: str
    importer: Importer
    operands: tuple[int, ...] = (0,)
    result: int = 3
    plain: int = 0

    def __call__(self, site: Site) -> None:
        given = list(site.node.input[: self.plain])
        given += [dequantised(site, _behind(place)) for place in self.operands]
        (value,) = applied(site, self.importer, self.operator, given, site.attributes)
        _quantised(site, value, self.result, site.type(self.operands[0]).dtype)


def _concat(site: Site) -> None:
    """QLinearConcat: the scale and zero point of the result are first, then those of each part."""
    parts = tuple(range(2, site.arity, 3))
    _InFloats("Concat", import_concat, parts, 0)(site)


def _softmax(site: Site) -> None:
    """QLinearSoftmax: as Softmax of the opset that it names."""
    opset = int(site.attributes.get("opset", site.opset))
    _InFloats("Softmax", IMPORT_SOFTMAX["Softmax"])(replace(site, opset=opset))


def _gemm(site: Site) -> None:
    """QGemm: the bias has the scale of the sums; floats are left where the result has none."""
    transposed = {name: site.attributes.get(name, 0) for name in ("transA", "transB")}
    alpha = float(site.attributes.get("alpha", 1.0))
    columns = {"axis": 0 if transposed["transB"] else 1}
    given = [dequantised(site, _behind(0)), dequantised(site, _behind(3), columns)]
    if site.has(6):
        scale = site.step(BinaryOp("mul"), [site.input(1), site.input(4)])
        if alpha != 1:
            scale = site.step(BinaryOp("mul"), [scale, site.scalar("alpha", alpha, "float32")])
        last = {"axis": site.rank(6) - 1}
        names = [site.node.input[6], scale]
        given += applied(site, import_dequantize, "DequantizeLinear", names, last)
    attributes = {**transposed, "alpha": alpha}
    if site.has(7):
        (value,) = applied(site, import_gemm, "Gemm", given, attributes)
        _quantised(site, value, 7, site.type(0).dtype)
    else:
        node = helper.make_node("Gemm", given, list(site.node.output))
        import_gemm(replace(site, node=node, attributes=attributes))


def dequantised(
    site: Site, places: Sequence[int], attributes: Mapping[str, Any] | None = None
) -> str:
    """The floats of an input; ``places``: of it, its scale and its zero point."""
    names = [site.node.input[place] if site.has(place) else "" for place in places]
    return applied(site, import_dequantize, "DequantizeLinear", names, attributes or {})[0]


def _behind(place: int) -> Sequence[int]:
    """A scale and a zero point follow input ``place``."""
    return range(place, place + 3)


def _quantised(site: Site, value: str, place: int, dtype: str) -> None:
    """Emit ``value`` as integers; ``dtype``: theirs where there is no zero point."""
    zero = place + 1
    point = site.node.input[zero] if site.has(zero) else site.scalar("zero", 0, dtype)
    node = helper.make_node(
        "QuantizeLinear", [value, site.node.input[place], point], list(site.node.output)
    )
    import_quantize(replace(site, node=node, attributes={}))


IMPORT_QUANTIZED: Final[dict[str, Importer]] = {
    "DequantizeLinear": import_dequantize,
    "QGemm": _gemm,
    "QLinearAdd": _InFloats("Add", IMPORT_ELEMENTWISE["Add"], (0, 3), 6),
    "QLinearAveragePool": ChannelsLast(
        "QLinearAveragePool", _InFloats("AveragePool", IMPORT_POOLING["AveragePool"])
    ),
    "QLinearConcat": _concat,
    "QLinearGlobalAveragePool": ChannelsLast(
        "QLinearGlobalAveragePool",
        _InFloats("GlobalAveragePool", IMPORT_POOLING["GlobalAveragePool"]),
    ),
    "QLinearLeakyRelu": _InFloats("LeakyRelu", IMPORT_ACTIVATION["LeakyRelu"]),
    "QLinearMul": _InFloats("Mul", IMPORT_ELEMENTWISE["Mul"], (0, 3), 6),
    "QLinearSigmoid": _InFloats("Sigmoid", IMPORT_ELEMENTWISE["Sigmoid"]),
    "QLinearSoftmax": _softmax,
    "QLinearWhere": _InFloats("Where", IMPORT_ELEMENTWISE["Where"], (1, 4), 7, plain=1),
    "QuantizeLinear": import_quantize,
}
