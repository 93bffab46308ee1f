"""Importers of matrix products and convolutions with something before or after them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from autosched.graph.ops.activation import Activation, ActivationFunction
from autosched.graph.ops.elementwise import Clip, LeakyRelu, UnaryFunction, UnaryOp
from autosched.onnx.importer.composer import Composer, Importer, applied, check_attributes
from autosched.onnx.importer.convolution import import_conv
from autosched.onnx.importer.dynamic_quantize import import_dynamic_quantize
from autosched.onnx.importer.matmul import emit_product, import_gemm, import_matmul
from autosched.onnx.importer.quantize import IMPORT_QUANTISED
from autosched.onnx.importer.site import Site, UnsupportedError

_UNARY: Final[Mapping[str, UnaryFunction]] = {
    "Relu": "relu",
    "Sigmoid": "sigmoid",
    "Tanh": "tanh",
}
# Other functions, with the number of their parameters.
_ACTIVATIONS: Final[Mapping[str, tuple[ActivationFunction, int]]] = {
    "Elu": ("elu", 1),
    "HardSigmoid": ("hard_sigmoid", 2),
    "HardSwish": ("hard_swish", 0),
    "Selu": ("selu", 2),
    "Softplus": ("softplus", 0),
    "Softsign": ("softsign", 0),
    "ThresholdedRelu": ("thresholded_relu", 1),
}
_CONV: Final = ("group", "pads", "strides", "dilations", "kernel_shape", "auto_pad")
_GEMM: Final = ("transA", "transB", "alpha", "beta")
_PARAMETERS: Final = ("activation_alpha", "activation_beta", "activation_gamma")


def _import_fused_matmul(site: Site) -> None:
    """FusedMatMul: ``alpha * A @ B``, both with their dimensions in another order if so said."""
    check_attributes(site, ("transA", "transB", "transBatchA", "transBatchB", "alpha"))
    make = Composer(site)
    lhs, rhs = (_turned(make, index, side) for index, side in enumerate("AB"))
    alpha = float(site.attributes.get("alpha", 1.0))
    if alpha == 1.0:
        emit_product(site, lhs, rhs)
        return
    (product,) = applied(site, import_matmul, "MatMul", [lhs, rhs], {})
    make.emit(make.scaled(product, alpha))


def _turned(make: Composer, index: int, side: str) -> str:
    """Input ``index`` as the rows and columns of a product; a vector has nothing to exchange.

    ``transBatch`` has the first dimension behind those of the batch, ``trans`` exchanges the last
    two then.
    """
    site, value = make.site, make.site.input(index)
    said = [name for name in ("transBatch", "trans") if site.attributes.get(f"{name}{side}", 0)]
    if not said or site.rank(index) == 1:
        return value
    if site.rank(1 - index) == 1:  # onnxruntime multiplies wrong elements
        raise UnsupportedError(f"{said[0]}{side} of a matrix next to a vector")
    if "transBatch" in said:
        value = make.moved(value, 0, -2)
    return make.swapped(value) if "trans" in said else value


def _import_fused_gemm(site: Site) -> None:
    """FusedGemm: Gemm, then an activation function."""
    check_attributes(site, (*_GEMM, "activation", *_PARAMETERS))
    attributes = _only(site, _GEMM)
    (value,) = applied(site, import_gemm, "Gemm", list(site.node.input), attributes)
    given = [float(site.attributes[name]) for name in _PARAMETERS if name in site.attributes]
    Composer(site).emit(_activated(site, value, given))


def _import_fused_conv(site: Site) -> None:
    """FusedConv: Conv, a residual added if there is one, then an activation function."""
    check_attributes(site, (*_CONV, "activation", "activation_params"))
    make = Composer(site)
    (value,) = applied(site, import_conv, "Conv", list(site.node.input[:3]), _only(site, _CONV))
    make.emit(_activated(site, make.sum(value, make.given(3)), _conv_parameters(site)))


def _import_nhwc_conv(site: Site) -> None:
    """NhwcConv: data and result have their channels last, and so have the filters.

    Its documentation says nothing else than that of Conv; the optimiser writes such filters.
    """
    _emit_channels_last(site, Composer(site).moved(site.input(1), -1, 1))


def _import_nhwc_fused_conv(site: Site) -> None:
    """NhwcFusedConv: data, residual and result have their channels last; filters are as of Conv."""
    _emit_channels_last(site, site.node.input[1])


def _emit_channels_last(site: Site, weight: str) -> None:
    """Emit convolution, residual and activation; ``weight`` is ``[outputs, inputs, *kernel]``."""
    check_attributes(site, (*_CONV, "activation", "activation_params"))
    make, bias = Composer(site), list(site.node.input[2:3])
    data = make.moved(site.input(0), -1, 1)
    (value,) = applied(site, import_conv, "Conv", [data, weight, *bias], _only(site, _CONV))
    last = make.moved(value, 1, -1)
    make.emit(_activated(site, make.sum(last, make.given(3)), _conv_parameters(site)))


def _conv_parameters(site: Site) -> list[float]:
    return [float(number) for number in site.attributes.get("activation_params", ())]


def _only(site: Site, names: Sequence[str]) -> dict[str, Any]:
    return {name: site.attributes[name] for name in names if name in site.attributes}


def _activated(site: Site, value: str, parameters: Sequence[float]) -> str:
    """The activation function that the node names, of ``value``.

    Raises:
        UnsupportedError: another function, or a wrong number of parameters.
    """
    name, numbers = site.attributes.get("activation", ""), tuple(parameters)
    if name == "":
        return value
    if name in _UNARY:
        return site.step(UnaryOp(_UNARY[name]), [value])
    if name == "LeakyRelu" and len(numbers) == 1:
        return site.step(LeakyRelu(*numbers), [value])
    if name == "Clip" and len(numbers) == 2:
        return site.step(Clip(*numbers), [value])
    function, count = _ACTIVATIONS.get(name, (None, 0))
    if function is None or len(numbers) != count:
        raise UnsupportedError(f"activation {name!r} with {len(numbers)} parameters")
    return site.step(Activation(function, numbers), [value])


def integer_product(make: Composer, lhs: Sequence[str], rhs: Sequence[str]) -> str:
    """``(a - zero) * scale @ (b - zero) * scale``, summed in int32; of the dtype of the scales.

    Args:
        make: of the node.
        lhs: names of bytes, scale and zero point (or empty), one of each.
        rhs: as ``lhs``; scales and zero points may be those of columns.
    """
    operands = (lhs[0], rhs[0], lhs[2], rhs[2])
    importer = IMPORT_QUANTISED["MatMulInteger"]
    (product,) = applied(make.site, importer, "MatMulInteger", operands, {})
    scale = make.binary("mul", lhs[1], rhs[1])
    exact = make.binary("mul", make.cast(product, "float32"), make.cast(scale, "float32"))
    return make.cast(exact, make.dtype(scale))


def quantised_operand(make: Composer, data: int, scale: int, zero: int) -> tuple[str, str, str]:
    """Names of bytes, scale and zero point, the last one empty if it is not given.

    Args:
        make: of the node.
        data: place of the bytes among the inputs.
        scale: place of their scale.
        zero: place of their zero point.
    """
    site = make.site
    return site.input(data), site.input(scale), site.input(zero) if site.has(zero) else ""


def _import_matmul_integer_to_float(site: Site) -> None:
    """MatMulIntegerToFloat: a product of bytes in floats, plus a bias."""
    check_attributes(site)
    make = Composer(site)
    for index in (2, 4):
        if site.has(index) and site.type(index).size != 1:
            raise UnsupportedError(f"scales or zero points {site.type(index)} of A")
    lhs, rhs = quantised_operand(make, 0, 2, 4), quantised_operand(make, 1, 3, 5)
    make.emit(make.sum(integer_product(make, lhs, rhs), make.given(6)))


def _import_dynamic_quantize_matmul(site: Site) -> None:
    """DynamicQuantizeMatMul: as DynamicQuantizeLinear, then MatMulIntegerToFloat."""
    check_attributes(site)
    make = Composer(site)
    bytes_, scale, zero = applied(
        site, import_dynamic_quantize, "DynamicQuantizeLinear", [site.input(0)], {}, outputs=3
    )
    rhs = quantised_operand(make, 1, 2, 3)
    make.emit(make.sum(integer_product(make, (bytes_, scale, zero), rhs), make.given(4)))


IMPORT_PRODUCTS: Final[dict[str, Importer]] = {
    "DynamicQuantizeMatMul": _import_dynamic_quantize_matmul,
    "FusedConv": _import_fused_conv,
    "FusedGemm": _import_fused_gemm,
    "FusedMatMul": _import_fused_matmul,
    "MatMulIntegerToFloat": _import_matmul_integer_to_float,
    "NhwcConv": _import_nhwc_conv,
    "NhwcFusedConv": _import_nhwc_fused_conv,
    "TransposeMatMul": _import_fused_matmul,
}
