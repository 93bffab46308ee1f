"""Functions of single elements: of one tensor, of two, of whole numbers, and conversions."""

from __future__ import annotations

from typing import Final

import torch
import torch.nn.functional as F

from benchmarks.small_modules.case import Case, case, normal, positive, share, whole

_ROWS: Final = (256, 1024)
_OF_POSITIVE: Final = (
    "asinh",
    "cosh",
    "cos",
    "deg2rad",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "frac",
    "log",
    "log10",
    "log1p",
    "log2",
    "rad2deg",
    "reciprocal",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinc",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
)
_OF_SHARE: Final = ["acos", "asin", "atan", "atanh", "logit"]
_ACTIVATIONS: Final = (
    "celu",
    "elu",
    "gelu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "logsigmoid",
    "mish",
    "relu",
    "relu6",
    "selu",
    "silu",
    "softplus",
    "softshrink",
    "softsign",
    "tanhshrink",
)
_OF_TWO: Final = (
    "add",
    "mul",
    "div",
    "atan2",
    "fmod",
    "remainder",
    "pow",
    "maximum",
    "hypot",
    "copysign",
    "logaddexp",
    "xlogy",
    "floor_divide",
    "heaviside",
)


def _functions() -> list[Case]:
    of_positive = [case(n, getattr(torch, n), positive(*_ROWS)) for n in _OF_POSITIVE]
    of_share = [case(n, getattr(torch, n), share(*_ROWS)) for n in _OF_SHARE]
    return of_positive + of_share


def _activations() -> list[Case]:
    return [
        *(case(name, getattr(F, name), normal(*_ROWS)) for name in _ACTIVATIONS),
        case("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), normal(*_ROWS)),
        case("quick_gelu", lambda x: x * torch.sigmoid(1.702 * x), normal(*_ROWS)),
        case("glu", lambda x: F.glu(x, 1), normal(*_ROWS)),
        case("prelu", F.prelu, normal(1, 64, 56, 56), normal(64)),
        case("threshold", lambda x: F.threshold(x, 0.1, 0.2), normal(*_ROWS)),
    ]


def _of_two() -> list[Case]:
    pair = positive(*_ROWS), positive(*_ROWS)
    return [
        *(case(name, getattr(torch, name), *pair) for name in _OF_TWO),
        case("acosh", lambda x: torch.acosh(x + 1), positive(*_ROWS)),
        case("power_2.5", lambda x: x**2.5, positive(*_ROWS)),
        case("power_3", lambda x: x**3, normal(*_ROWS)),
        case("power_-0.5", lambda x: x**-0.5, positive(*_ROWS)),
        case("lerp", lambda x, y: torch.lerp(x, y, 0.3), *pair),
        case("addcmul", lambda x, y: torch.addcmul(x, x, y, value=0.5), *pair),
        case("where", lambda x, y: torch.where(x > y, x, y), *pair),
        case("row_scale", lambda x, y: x * y[:, None], normal(*_ROWS), normal(256)),
        case("column_shift", lambda x, y: x + y, normal(*_ROWS), normal(1024)),
        case("channel_affine", lambda x, y: x * y[:, None, None] + 1, normal(1, 64, 56, 56),
             normal(64)),
        case("clamp", lambda x: x.clamp(-1, 1), normal(*_ROWS)),
        case("clamp_tensors", torch.clamp, normal(*_ROWS), normal(*_ROWS), positive(*_ROWS)),
        case("nan_to_num", torch.nan_to_num, normal(*_ROWS)),
        case("isnan", torch.isnan, normal(*_ROWS)),
    ]  # fmt: skip


def _of_whole() -> list[Case]:
    short = whole(1000, *_ROWS, dtype=torch.int32)
    long = whole(1000, *_ROWS)
    byte = whole(255, *_ROWS, dtype=torch.uint8)
    return [
        case("int32_add", lambda x: x + 3, short),
        case("int32_multiply", lambda x: x * 7, short),
        case("int32_floor_divide", lambda x: x // 7, short),
        case("int32_remainder", lambda x: x % 7, short),
        case("int32_divide_tensors", lambda x, y: x // (y + 1), short, short),
        case("int32_remainder_tensors", lambda x, y: x % (y + 1), short, short),
        case("int32_and", lambda x: x & 5, short),
        case("int32_shift", lambda x: x << 2, short),
        case("int32_compare", lambda x: x > 500, short),
        case("int32_abs", torch.abs, short),
        case("int64_floor_divide", lambda x: x // 7, long),
        case("int64_remainder", lambda x: x % 7, long),
        case("int64_add", lambda x, y: x + y, long, long),
        case("int64_multiply", lambda x, y: x * y, long, long),
        case("int64_equal", lambda x: x == 3, long),
        case("uint8_add", lambda x, y: x + y, byte, byte),
        case("uint8_to_float", lambda x: x.float() / 255, byte),
        case("float_to_uint8", lambda x: (x.clamp(0, 1) * 255).to(torch.uint8), positive(*_ROWS)),
        case("float_to_int64", lambda x: x.long(), positive(*_ROWS)),
        case("int64_to_float", lambda x: x.float(), long),
        case("float_to_half", lambda x: x.half(), normal(*_ROWS)),
        case("through_bfloat16", lambda x: x.bfloat16().float(), normal(*_ROWS)),
        case("truth_to_float", lambda x: (x > 0).float(), normal(*_ROWS)),
        case("truth_and", lambda x: (x > 0) & (x < 1), normal(*_ROWS)),
    ]


def cases() -> list[Case]:
    """All of them."""
    return [*_functions(), *_activations(), *_of_two(), *_of_whole()]
