"""Workloads as PyTorch modules with inputs in the layout that PyTorch prefers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks import wild_models
from benchmarks.onnx_models import onnx_model, to_nchw, to_nhwc, to_oihw
from benchmarks.rivals.torch_module import module_from_onnx
from benchmarks.workloads import (
    Attention,
    Conv,
    IntegerConv,
    IntegerMatmul,
    Matmul,
    Network,
    Operator,
    OuterProducts,
    SmallModule,
    Stencil,
    Workload,
)


@dataclass(frozen=True, slots=True)
class TorchModel:
    """A module, its inputs, and the names of its outputs."""

    module: Any
    inputs: tuple[Any, ...]
    output_names: tuple[str, ...]
    nhwc: bool

    def arrays(self, results: Any) -> Mapping[str, NDArray[np.float32]]:
        """The outputs as arrays in the workload's layout."""
        tensors = results if isinstance(results, tuple | list) else (results,)
        named = zip(self.output_names, tensors, strict=True)
        return {n: to_nhwc(t.numpy()) if self.nhwc else t.numpy() for n, t in named}


def configure(threads: int) -> None:
    """One intra-op thread a core, no inter-op threads."""
    torch.set_num_threads(threads)
    if torch.get_num_interop_threads() != 1:  # it can be set once
        torch.set_num_interop_threads(1)


def torch_model(workload: Workload) -> TorchModel:
    """Build the module; data and weights of images and videos are channels_last."""
    if isinstance(workload, SmallModule):
        return TorchModel(*workload.built(), workload.outputs, nhwc=False)
    arrays = {name: torch.from_numpy(a) for name, a in workload.arrays().items()}
    if not isinstance(workload, Network):
        return _operator_model(workload, arrays)
    if workload.in_torch:
        module = wild_models.build(workload.name).module
        return _channels_last(module, list(arrays.values()), workload.outputs, nhwc=False)
    module, names, outputs = module_from_onnx(onnx_model(workload))
    return _channels_last(module, [arrays[n] for n in names], tuple(outputs), nhwc=False)


def _operator_model(workload: Operator, arrays: Mapping[str, Any]) -> TorchModel:
    match workload:
        case Conv():
            host = workload.arrays()
            layer = torch.nn.Conv2d(
                workload.channels,
                workload.filters,
                workload.kernel,
                workload.stride,
                workload.padding,
                bias=False,
            )
            layer.weight.data = torch.from_numpy(to_oihw(host["W"]))
            data = torch.from_numpy(to_nchw(host["X"]))
            return _channels_last(layer, [data], ("Y",), nhwc=True)
        case Matmul(constant_b=True):
            linear = torch.nn.Linear(workload.k, workload.n, bias=False)
            linear.weight.data = arrays["B"].t().contiguous()
            return TorchModel(linear.eval(), (arrays["A"],), ("C",), nhwc=False)
        case Matmul():
            return TorchModel(_MatMul(), (arrays["A"], arrays["B"]), ("C",), nhwc=False)
        case IntegerMatmul() | IntegerConv():
            raise TypeError("no module multiplies uint8 by int8")  # see ``supports``
        case Attention():
            inputs = tuple(arrays[name] for name in "QKV")
            return TorchModel(_Attention(workload.causal), inputs, ("Y",), nhwc=False)
        case OuterProducts():
            return TorchModel(_OuterProducts(), (arrays["A"], arrays["B"]), ("C",), nhwc=False)
        case Stencil():
            return TorchModel(_Stencil(), (arrays["U"],), ("V",), nhwc=False)


def _channels_last(
    module: Any, inputs: list[Any], outputs: tuple[str, ...], nhwc: bool
) -> TorchModel:
    bound = tuple(_in_channels_last(tensor) for tensor in inputs)
    for parameter in module.parameters():
        parameter.data = _in_channels_last(parameter.data)
    return TorchModel(module.eval(), bound, outputs, nhwc)


def _in_channels_last(tensor: Any) -> Any:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    layout = formats.get(tensor.dim())
    return tensor if layout is None else tensor.to(memory_format=layout)


class _MatMul(torch.nn.Module):
    def forward(self, a: Any, b: Any) -> Any:
        return torch.mm(a, b)


class _Attention(torch.nn.Module):
    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, q: Any, k: Any, v: Any) -> Any:
        attend = torch.nn.functional.scaled_dot_product_attention
        return attend(q, k, v, is_causal=self.causal)


class _OuterProducts(torch.nn.Module):
    def forward(self, a: Any, b: Any) -> Any:
        return torch.bmm(a.transpose(1, 2), b)


class _Stencil(torch.nn.Module):
    def forward(self, u: Any) -> Any:
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        return 0.5 * u[1:-1, 1:-1] + 0.125 * around
