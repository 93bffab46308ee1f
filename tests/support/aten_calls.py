"""A call of every ATen operator that becomes a part of a network directly; loads torch."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import torch
from torch.nn import functional

from autosched.torch_frontend.fourier_operator import fourier_operator
from tests.support.aten_inputs import (
    BOOLS,
    BYTES,
    FEW,
    HEADS,
    INTEGERS,
    MAPS,
    POSITIVE,
    VOLUMES,
    WORDS,
    Calls,
    X,
    Y,
    numbers,
)
from tests.support.aten_scatters import SCATTERING
from tests.support.aten_view_calls import SAMPLING, VIEWS

aten = torch.ops.aten


def _with(operator: Any, number: float, x: Any) -> Any:
    return operator(x, number)


def _with_both(operator: Any, number: float, x: Any, y: Any) -> Any:
    return operator(x, number), operator(y, number)


def _twice(operator: Any, *operands: Any) -> Any:
    return operator(*operands[:2]), operator(*operands[2:])


_INSIDE: Final = ("asin", "acos", "atanh")
_POSITIVE: Final = ("log", "log1p", "sqrt", "acosh", "rsqrt", "reciprocal")
_PLAIN: Final = (
    "relu", "sigmoid", "exp", "expm1", "erf", "abs", "neg", "floor", "ceil", "round", "sin", "cos",
    "tan", "atan", "sinh", "cosh", "tanh", "asinh",
    "isnan", "isinf", "alias", "detach", "clone",
)  # fmt: skip


def _unary() -> Calls:
    operand = dict.fromkeys(_PLAIN, X) | dict.fromkeys(_POSITIVE, POSITIVE + 1)
    operand |= dict.fromkeys(_INSIDE, X.sigmoid() * 0.9)
    return {f"{name}.default": (getattr(aten, name).default, (x,)) for name, x in operand.items()}


def _binary() -> Calls:
    calls: dict[str, Any] = {}
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        packet = getattr(aten, name)
        of_truth = (BOOLS, Y > 0) if name in ("eq", "ne") else (X.round(), Y.round())
        given = X.round(), Y.round(), *of_truth
        calls[f"{name}.Tensor"] = partial(_twice, packet.Tensor), given
        calls[f"{name}.Scalar"] = partial(_with, packet.Scalar, 0.5), (INTEGERS,)
    for name in ("add", "sub", "rsub"):
        packet = getattr(aten, name)
        calls[f"{name}.Tensor"] = lambda x, y, call=packet.Tensor: call(x, y, alpha=3), (X, Y)
        calls[f"{name}.Scalar"] = partial(_with, packet.Scalar, 2.5), (INTEGERS,)
    for name in ("mul", "div", "remainder", "fmod"):
        packet = getattr(aten, name)
        calls[f"{name}.Tensor"] = packet.Tensor, (INTEGERS, POSITIVE[0, 0, 0, 0])
        calls[f"{name}.Scalar"] = partial(_with, packet.Scalar, 3), (X,)
    for name in ("logical_and", "logical_or", "logical_xor"):
        calls[f"{name}.default"] = getattr(aten, name).default, (BOOLS, Y > 0)
    calls["maximum.default"] = torch.maximum, (X, Y)
    calls["minimum.default"] = torch.minimum, (X, Y)
    return calls


def _bits() -> Calls:
    """Of uint8, int32 and truth values; amounts of shifts are less than 0 and too large, too."""
    calls: dict[str, Any] = {}
    amounts = torch.arange(-1, 10).to(torch.uint8)
    for name in ("and", "or", "xor"):
        own = getattr(aten, f"bitwise_{name}")
        calls[f"bitwise_{name}.Tensor"] = partial(_twice, own.Tensor), (BOOLS, Y > 0, BYTES, WORDS)
        calls[f"bitwise_{name}.Scalar"] = partial(_with, own.Scalar, 0xF0), (BYTES,)
        calls[f"bitwise_{name}.Scalar_Tensor"] = partial(own.Scalar_Tensor, 0x55), (BYTES,)
    for side in ("left", "right"):
        own, sign = getattr(aten, f"bitwise_{side}_shift"), getattr(aten, f"__{side[0]}shift__")
        for overload, operator in ((f"bitwise_{side}_shift", own), (f"__{side[0]}shift__", sign)):
            given = BYTES[:11].clone(), amounts, WORDS[:11].clone(), amounts.int() * 4
            calls[f"{overload}.Tensor"] = partial(_twice, operator.Tensor), given
        scalar = partial(_with_both, own.Tensor_Scalar, 3)
        calls[f"bitwise_{side}_shift.Tensor_Scalar"] = scalar, (BYTES, WORDS)
        calls[f"__{side[0]}shift__.Scalar"] = partial(_with_both, sign.Scalar, 3), (BYTES, WORDS)
        calls[f"bitwise_{side}_shift.Scalar_Tensor"] = partial(own.Scalar_Tensor, 77), (amounts,)
    return calls


ELEMENTWISE: Final[Calls] = {
    **_unary(),
    **_binary(),
    **_bits(),
    "_to_copy.default": (
        lambda x, i: (x.double() + i, (x.relu() * 0.1).bool()),
        (X, INTEGERS[0, :3]),
    ),
    "bitwise_not.default": (lambda b, i: (~b, ~i), (BOOLS, BYTES)),
    "clamp.default": (
        lambda x, i: (x.clamp(min=0.1), x.clamp(-0.3, 0.2), x.clamp(2, -2), i.clamp(-2, 3)),
        (X, INTEGERS[1]),
    ),
    "clamp.Tensor": (lambda x, y: x.clamp(min=y, max=y + 0.5), (X, Y)),
    "clamp_max.Tensor": (torch.clamp_max, (X, Y)),
    "clamp_min.Tensor": (torch.clamp_min, (INTEGERS, INTEGERS[0])),
    "copy.default": (lambda x, i: (aten.copy(x, x[:1] * 2), aten.copy(x, i[0, 0])), (X, INTEGERS)),
    "fill.Scalar": (lambda x: aten.fill.Scalar(x, 2.5) + x, (X,)),
    "full_like.default": (lambda x: torch.full_like(x, 2.5) + x, (X,)),
    "ones_like.default": (lambda x: torch.ones_like(x) + x, (X,)),
    "zeros_like.default": (lambda x: torch.zeros_like(x, dtype=torch.int64) + x, (X,)),
    "pow.Scalar": (lambda x: 2.5**x, (X,)),
    "pow.Tensor_Tensor": (torch.pow, (POSITIVE, X)),
    "hardtanh.default": (functional.hardtanh, (X,)),
    "logical_not.default": (torch.logical_not, (BOOLS,)),
    "masked_fill.Scalar": (lambda x, m: x.masked_fill(m, -2), (X, BOOLS)),
    "masked_fill.Tensor": (lambda x, m: x.masked_fill(m, torch.tensor(3.0)), (X, BOOLS)),
    "pow.Tensor_Scalar": (lambda x: (x**2, x**3, x**-1.5, x**0.5), (POSITIVE,)),
    "sign.default": (lambda x, i: ((x / x.relu()).sign(), i.sign()), (X, INTEGERS)),
    "trunc.default": (torch.trunc, (X * 3,)),
    "where.self": (lambda m, x: torch.where(m, x, torch.tensor(7.0)), (BOOLS, X)),
}
SLOPES: Final = POSITIVE[0, :, 0, 0]
ACTIVATIONS: Final[Calls] = {
    "_prelu_kernel.default": (aten._prelu_kernel.default, (X, SLOPES.view(4, 1, 1))),
    "celu.default": (lambda x: (functional.celu(x, 0.7), functional.celu(x)), (X,)),
    "elu.default": (lambda x: (functional.elu(x, 0.7), functional.selu(x)), (X,)),
    "gelu.default": (
        lambda x: (functional.gelu(x), functional.gelu(x, approximate="tanh")),
        (X,),
    ),
    "hardsigmoid.default": (functional.hardsigmoid, (X,)),
    "hardswish.default": (functional.hardswish, (X,)),
    "leaky_relu.default": (lambda x: functional.leaky_relu(x, 0.3), (X,)),
    "log_sigmoid_forward.default": (functional.logsigmoid, (X,)),
    "mish.default": (functional.mish, (X,)),
    "silu.default": (functional.silu, (X,)),
    "softplus.default": (
        lambda x: (functional.softplus(x), functional.softplus(x, 2.5, 1)),
        (X,),
    ),
}
INDEXING: Final[Calls] = {
    "_embedding_bag.default": (
        lambda i, w: aten._embedding_bag(w, i.flatten(), torch.arange(0, i.numel(), i.shape[1]))[0],
        (INTEGERS % 8, MAPS[0, 0]),
    ),
    "_embedding_bag_forward_only.default": (
        lambda i, w: (
            *(functional.embedding_bag(i, w, mode=mode) for mode in ("sum", "mean", "max")),
            functional.embedding_bag(i, w, per_sample_weights=i + 0.5, mode="sum"),
        ),
        (INTEGERS % 8, MAPS[0, 0]),
    ),
    "_unsafe_index.Tensor": (
        lambda x, i: aten._unsafe_index(x, [None, None, i.view(-1, 1) % 6, i[0] % 3]),
        (X, INTEGERS),
    ),
    "index.Tensor": (
        lambda x, i: (
            x[:, i % 4],
            x[:, :, [2, 0]],
            x[i % 2, i.flip(0) % 4],
            x[:, i % 4, i[0] % 6],
            x[i[:, :1] % 2, :, :, i[0] % 3],
            x[:, -i % 4 - 4, :, i[:, :1] % 3],
            x[i[0] % 2, i[0] % 4, i[:, 1:2] % 6, i[0, :1] % 3],
            x[i[0, :1] % 2, i[0] % 4],
            x[..., i[None] % 6, i[:, None, :2].tile(1, 1, 2) % 3],
        ),
        (X, INTEGERS),
    ),
    "embedding.default": (lambda i, w: functional.embedding(i, w), (INTEGERS % 8, MAPS[0, 0])),
    "gather.default": (lambda x, i: x.gather(-2, i), (X, (INTEGERS % 6).view(1, 3, 4, 1))),
    "index_select.default": (lambda x, i: x.index_select(2, i), (X, INTEGERS[0] % 6)),
    "sort.default": (lambda x, i: (*x.sort(-2, descending=True), i.sort()[0]), (X, INTEGERS)),
    "sort.stable": (
        lambda i, x: (*(i % 3).sort(stable=True, dim=0), x.sort(stable=True, descending=True)[1]),
        (INTEGERS, torch.tensor([[1.0, torch.nan, -torch.inf, torch.inf, 0.0, torch.nan, 1.0]])),
    ),
    "topk.default": (
        lambda x, y: (*x.topk(2, 1), *x.topk(3, 2, largest=False), y.topk(4)[1], (-y).topk(3)[1]),
        (X, torch.tensor([[1.0, torch.nan, -torch.inf, torch.inf, 0.0, 2.0]])),
    ),
}
MOVEMENT: Final[Calls] = {
    "_unsafe_view.default": (lambda x: aten._unsafe_view.default(x, [8, -1]), (X,)),
    "cat.default": (lambda x, y: torch.cat([x, torch.ones(2, 1, 6, 3), x, y], -3), (X, -X)),
    "constant_pad_nd.default": (lambda x: functional.pad(x, (1, 2, 0, 3), value=1.5), (X,)),
    "expand.default": (lambda y: y.expand(5, 2, -1, 6, 3), (Y,)),
    "flip.default": (lambda x: x.flip(-1, 1), (X,)),
    "permute.default": (lambda x: x.permute(-1, 0, 2, 1), (X,)),
    "repeat.default": (lambda x: x.repeat(2, 1, 3, 1, 2), (X,)),
    "select.int": (lambda x: (x.select(2, -2), x[1]), (X,)),
    "slice.Tensor": (lambda x: (x[:, 1:-1, ::2], x[:, :, 2:100], x[..., -2:]), (X,)),
    "split.Tensor": (lambda x: x.split(4, 2), (X,)),
    "split_with_sizes.default": (lambda x: x.split([1, 3, 2], -2), (X,)),
    "squeeze.default": (aten.squeeze.default, (Y,)),
    "squeeze.dim": (lambda y: (y.squeeze(-2), y.squeeze(1)), (Y,)),
    "squeeze.dims": (lambda y: y.squeeze((0, 1, 2)), (Y,)),
    "stack.default": (lambda x: aten.stack.default([x, -x], -2), (X,)),
    "t.default": (lambda x: x[0, 0].t() + x[0, 0, 0].t()[:, None], (X,)),
    "transpose.int": (lambda x: x.transpose(1, -1), (X,)),
    "tril.default": (lambda x: x.tril(1), (X,)),
    "triu.default": (lambda x: x.triu(-1), (X,)),
    "unbind.int": (lambda x: x.unbind(-1), (X,)),
    "unsqueeze.default": (lambda x: x.unsqueeze(-2).unsqueeze(0), (X,)),
    "view.default": (lambda x: x.view(2, -1, 9), (X,)),
}
NORM: Final[Calls] = {
    "_log_softmax.default": (lambda x: x.log_softmax(-2), (X,)),
    "_native_batch_norm_legit.no_stats": (
        lambda x, w: aten._native_batch_norm_legit.no_stats(x, w, -w, True, 0.1, 0.01)[0],
        (X, POSITIVE[0, :, 0, 0]),
    ),
    "_native_batch_norm_legit_no_training.default": (
        lambda x, w: aten._native_batch_norm_legit_no_training.default(
            x, w, -w, w / 2, w + 1, 0.1, 0.01
        )[0],
        (X, POSITIVE[0, :, 0, 0]),
    ),
    "native_batch_norm.default": (
        lambda x, w: (
            aten.native_batch_norm(x, w, None, None, None, True, 0.1, 0.01)[0],
            aten.native_batch_norm(x, w, -w, w / 2, w + 1, False, 0.1, 0.01)[0],
        ),
        (X, POSITIVE[0, :, 0, 0]),
    ),
    "_softmax.default": (lambda x: x.softmax(1), (X,)),
    "all.default": (torch.all, (BOOLS,)),
    "all.dim": (lambda b, i: (b.all(-1, keepdim=True), i.all(1), i.byte().all(0)), (BOOLS, FEW)),
    "all.dims": (lambda b, i: (b.all((1, -1)), i.byte().all((0, 1), True)), (BOOLS, FEW)),
    "any.default": (torch.any, (BOOLS,)),
    "any.dim": (lambda b, i: (b.any(1), i.any(-1, True), i.byte().any(0)), (BOOLS, FEW)),
    "any.dims": (lambda b, i: (b.any((1, -1)), i.float().any((0, 1), True)), (BOOLS, FEW)),
    "cumprod.default": (lambda x, i: (x.cumprod(-1), (i % 3).cumprod(0)), (X, INTEGERS)),
    "cumsum.default": (lambda i: (i.cumsum(-1), (i > 0).cumsum(0)), (INTEGERS,)),
    "logsumexp.default": (lambda x: (x.logsumexp(1), x.logsumexp((0, 2), keepdim=True)), (X,)),
    "linalg_vector_norm.default": (
        lambda x: (functional.normalize(x, dim=1), x.norm(1), x.norm(dim=(1, 2), keepdim=True)),
        (X,),
    ),
    "max.default": (torch.max, (X,)),
    "min.default": (torch.min, (X,)),
    "prod.dim_int": (lambda x, i: (x.prod(1), i.prod(-1, keepdim=True)), (X, INTEGERS)),
    "var.correction": (lambda x: (x.var(1), x.var((0, 2), correction=0, keepdim=True)), (X,)),
    "var_mean.correction": (lambda x: torch.var_mean(x, (0, 2), keepdim=True), (X,)),
    "amax.default": (lambda x: (x.amax((1, -1), keepdim=True), x.amax()), (X,)),
    "amin.default": (lambda x: x.amin(2), (X,)),
    "argmax.default": (lambda x: (x.argmax(), x.argmax(1), x.argmax(-1, True)), (X,)),
    "argmin.default": (lambda x: x.argmin(2), (X,)),
    "max.dim": (lambda x: tuple(x.max(1)), (X,)),
    "mean.default": (torch.mean, (X,)),
    "mean.dim": (lambda x: (x.mean((2, 3)), x.mean(-3, keepdim=True)), (X,)),
    "min.dim": (lambda x: tuple(x.min(-1, keepdim=True)), (X,)),
    "native_group_norm.default": (
        lambda x, w: functional.group_norm(x, 2, w, -w, 0.01),
        (X, POSITIVE[0, :, 0, 0]),
    ),
    "native_layer_norm.default": (
        lambda x, w: (functional.layer_norm(x, (6, 3), w, -w), functional.layer_norm(x, (3,))),
        (X, POSITIVE[0, 0]),
    ),
    "sum.default": (torch.sum, (BOOLS,)),
    "sum.dim_IntList": (lambda i: (i.sum(1), i.sum((-1, 0), keepdim=True)), (INTEGERS,)),
}
PRODUCTS: Final[Calls] = {
    "_scaled_dot_product_flash_attention_for_cpu.default": (
        lambda q, k, m: (
            functional.scaled_dot_product_attention(q, k, k * 2, scale=0.3),
            functional.scaled_dot_product_attention(q, k, k, scale=0.0),
            functional.scaled_dot_product_attention(q, k[:, :, :4], -k[:, :, :4], is_causal=True),
            functional.scaled_dot_product_attention(q, k, k, attn_mask=m),
            functional.scaled_dot_product_attention(
                q.repeat(1, 2, 1, 1), k, -k, m, enable_gqa=True
            ),
        ),
        # the third query sees no key
        (HEADS, HEADS.flip(2), (numbers(5, 5) > -0.5) & (torch.arange(5) != 2)[:, None]),
    ),
    "addmm.default": (
        lambda a, b: (torch.addmm(torch.arange(4.0), a, b), torch.addmm(torch.ones(3, 1), a, b)),
        (numbers(3, 5), numbers(5, 4)),
    ),
    "baddbmm.default": (torch.baddbmm, (numbers(2, 1, 4), numbers(2, 3, 5), numbers(2, 5, 4))),
    "bmm.default": (
        lambda a, b: (torch.bmm(a[0], a[1].mT), a @ b.mT, (a @ b.mT[:, :1]).sum(0)),
        (numbers(2, 3, 4, 5), numbers(2, 3, 4, 5)),
    ),
    "mm.default": (torch.mm, (numbers(3, 5), numbers(5, 4))),
}
WINDOWS: Final[Calls] = {
    "_adaptive_avg_pool2d.default": (lambda x: functional.adaptive_avg_pool2d(x, (4, 3)), (MAPS,)),
    "_adaptive_avg_pool3d.default": (lambda x: functional.adaptive_avg_pool3d(x, 2), (VOLUMES,)),
    "adaptive_max_pool2d.default": (lambda x: functional.adaptive_max_pool2d(x, (2, 9)), (MAPS,)),
    "adaptive_max_pool3d.default": (lambda x: functional.adaptive_max_pool3d(x, 2), (VOLUMES,)),
    "avg_pool2d.default": (
        lambda x: (
            functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
            functional.avg_pool2d(x, (2, 3), ceil_mode=True),
        ),
        (MAPS,),
    ),
    "avg_pool3d.default": (lambda x: functional.avg_pool3d(x, 2, padding=1), (VOLUMES,)),
    "col2im.default": (
        lambda x, y, z: (
            functional.fold(x, (6, 7), (3, 2), padding=1),
            functional.fold(y, (6, 8), (2, 4), stride=(2, 4)),
            functional.fold(z, (1, 40), (1, 9), stride=(1, 4)),
        ),
        (numbers(2, 18, 48), numbers(1, 16, 6), numbers(2, 9, 8)),
    ),
    "convolution.default": (
        lambda x, w: (
            functional.conv2d(x, w[:, :2, :3, :3], torch.ones(2), (1, 2), (2, 1), 2, 2),
            functional.conv_transpose2d(x, w[0, :, None, :3, :2], None, (2, 3), 1, (1, 2)),
            functional.conv1d(x[0], w[0, :, :, :2], padding=1),
        ),
        (MAPS, MAPS),
    ),
    "max_pool2d_with_indices.default": (
        lambda x: (
            functional.max_pool2d(x, 3, 2, 1),
            functional.max_pool2d(x, 2, dilation=2),
            *functional.max_pool2d(x, 3, 2, 1, ceil_mode=True, return_indices=True),
        ),
        (MAPS,),
    ),
    "max_pool3d_with_indices.default": (
        lambda x: functional.max_pool3d(x, (1, 2, 3), ceil_mode=True),
        (VOLUMES,),
    ),
}
NOT_EXPORTED: Final = (
    "_embedding_bag.default", "_embedding_bag_forward_only.default",
    "_adaptive_avg_pool3d.default", "_upsample_nearest_exact1d.default",
    "_upsample_nearest_exact2d.default", "_upsample_nearest_exact3d.default",
    "copy.default", "diagonal_scatter.default", "grid_sampler_3d.default",
    "_prelu_kernel.default", "amax.default", "cumprod.default",
    "log_sigmoid_forward.default", "native_batch_norm.default", "rsub.Scalar", "squeeze.dim",
)  # fmt: skip
"""Calls whose like torch's exporter to ONNX does not know, or writes with larger errors."""
FOURIER: Final[Calls] = {
    "autosched.fourier.default": (
        lambda x, both: (
            fourier_operator()(x, 1, 8, 5, 1.0, False, False),
            fourier_operator()(both, 2, 6, 4, 0.5, True, False),
            fourier_operator()(both, 2, 7, 7, 0.5, True, True),
            fourier_operator()(both, 1, 9, 5, 1.0, False, False, 7, 6),
            fourier_operator()(both, 2, 96, 96, 1.0, True, False, 93, 2),
        ),
        (X[..., :1].reshape(2, 6, 4, 1), X[..., :2]),
    ),
}
TABLES: Final[Mapping[str, Calls]] = {
    "activation": ACTIVATIONS,
    "elementwise": ELEMENTWISE,
    "fourier": FOURIER,
    "indexing": INDEXING,
    "scattering": SCATTERING,
    "movement": MOVEMENT,
    "norm": NORM,
    "products": PRODUCTS,
    "sampling": SAMPLING,
    "views": VIEWS,
    "windows": WINDOWS,
}
