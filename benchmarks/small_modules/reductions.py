"""Reductions, scans, sorts, normalisations and losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
import torch.nn.functional as F

from benchmarks.small_modules.case import Case, case, normal, positive, weight, whole

_ROWS: Final = (256, 1024)
_IMAGE: Final = (1, 64, 56, 56)
_TOKENS: Final = (1, 256, 512)
_CLASSES: Final = (1, 21, 128, 128)
_REDUCTIONS: Final = (
    "sum",
    "mean",
    "amax",
    "amin",
    "prod",
    "var",
    "std",
    "logsumexp",
    "argmax",
    "median",
    "all",
    "any",
)
_SOFT: Final = ["softmax", "log_softmax", "softmin"]


def _reduced(name: str, dim: int) -> Callable[..., Any]:
    return lambda x: getattr(torch, name)(x, dim)


def _softened(name: str, dim: int) -> Callable[..., Any]:
    return lambda x: getattr(F, name)(x, dim)


def _values(name: str, dim: int) -> Callable[..., Any]:
    return lambda x: getattr(torch, name)(x, dim)[0]


def _reductions() -> list[Case]:
    plain = [n for n in _REDUCTIONS if n != "median"]
    return [
        *(case(f"{n}_rows", _reduced(n, -1), normal(*_ROWS)) for n in plain),
        *(case(f"{n}_columns", _reduced(n, 0), normal(*_ROWS)) for n in plain),
        *(case(f"{n}_rows", _softened(n, -1), normal(*_ROWS)) for n in _SOFT),
        *(case(f"{n}_columns", _softened(n, 0), normal(*_ROWS)) for n in _SOFT),
        *(case(f"{n}_classes", _softened(n, 1), normal(*_CLASSES)) for n in _SOFT[:2]),
        case("median_rows", _values("median", -1), normal(*_ROWS)),
        case("max_rows_values", _values("max", -1), normal(*_ROWS)),
        case("norm_rows", lambda x: torch.linalg.vector_norm(x, dim=-1), normal(*_ROWS)),
        case("norm_columns", lambda x: torch.linalg.vector_norm(x, dim=0), normal(*_ROWS)),
        case("norm_1_rows", lambda x: torch.linalg.vector_norm(x, 1, dim=-1), normal(*_ROWS)),
        case("sum_all", torch.sum, normal(*_ROWS)),
        case("max_all", torch.max, normal(*_ROWS)),
        case("argmax_all", torch.argmax, normal(*_ROWS)),
        case("var_all", torch.var, normal(*_IMAGE)),
        case("norm_all", torch.linalg.vector_norm, normal(*_IMAGE)),
        case("argmax_classes", lambda x: x.argmax(1), normal(*_CLASSES)),
        case("mean_image", lambda x: x.mean((2, 3)), normal(*_IMAGE)),
        case("max_image", lambda x: x.amax((2, 3)), normal(*_IMAGE)),
        case("mean_channels", lambda x: x.mean(1), normal(*_IMAGE)),
        case("mean_width", lambda x: x.mean(3), normal(*_IMAGE)),
        case("mean_height", lambda x: x.mean(2), normal(*_IMAGE)),
        case("mean_batch", lambda x: x.mean(0), normal(16, 64, 28, 28)),
        case("count_nonzero", lambda x: (x > 0).sum(-1), normal(*_ROWS)),
        case("int64_sum", lambda x: x.sum(-1), whole(1000, *_ROWS)),
        case("uint8_sum", lambda x: x.sum(-1), whole(255, *_ROWS, dtype=torch.uint8)),
    ]


def _scans() -> list[Case]:
    return [
        case("cumsum_rows", lambda x: x.cumsum(-1), normal(*_ROWS)),
        case("cumsum_columns", lambda x: x.cumsum(0), normal(*_ROWS)),
        case("cumsum_mask", lambda x: (x.cumsum(1) * x).long(), whole(2, 1, 512)),
        case("cumprod", lambda x: (1 + x * 0.01).cumprod(-1), normal(*_ROWS)),
        case("cummax", _values("cummax", -1), normal(*_ROWS)),
        case("logcumsumexp", lambda x: x.logcumsumexp(-1), normal(*_ROWS)),
        case("diff", lambda x: x.diff(dim=-1), normal(*_ROWS)),
        case("sort", _values("sort", -1), normal(*_ROWS)),
        case("sort_columns", _values("sort", 0), normal(*_ROWS)),
        case("argsort_128", lambda x: x.argsort(-1), normal(2048, 128)),
        case("topk", lambda x: x.topk(8, -1)[0], normal(*_ROWS)),
        case("topk_gate", lambda x, w: (x @ w).softmax(-1).topk(2)[0], normal(*_TOKENS),
             weight(512, 8)),
        case("kth_value", lambda x: x.kthvalue(5, -1)[0], normal(*_ROWS)),
    ]  # fmt: skip


def _normalisations() -> list[Case]:
    return [
        case("layer_norm", lambda x, w, b: F.layer_norm(x, (512,), w, b), normal(*_TOKENS),
             normal(512), normal(512)),
        case("layer_norm_image",
             lambda x, w, b: F.layer_norm(x.permute(0, 2, 3, 1), (64,), w, b).permute(0, 3, 1, 2),
             normal(*_IMAGE), normal(64), normal(64)),
        case("rms_norm", lambda x, w: F.rms_norm(x, (512,), w), normal(*_TOKENS), normal(512)),
        case("batch_norm", lambda x, m, v: F.batch_norm(x, m, v), normal(*_IMAGE), normal(64),
             positive(64)),
        case("instance_norm", F.instance_norm, normal(*_IMAGE)),
        case("group_norm_silu", lambda x, w, b: F.silu(F.group_norm(x, 8, w, b)), normal(*_IMAGE),
             normal(64), normal(64)),
        case("group_norm_video", lambda x: F.group_norm(x, 4), normal(1, 32, 16, 28, 28)),
        case("local_response_norm", lambda x: F.local_response_norm(x, 5), normal(*_IMAGE)),
        case("normalize_channels", lambda x: F.normalize(x, dim=1), normal(*_IMAGE)),
        case("normalize_rows", lambda x: F.normalize(x, dim=-1), normal(*_TOKENS)),
        case("adaptive_instance_norm",
             lambda x, s, b: F.instance_norm(x) * s[:, :, None, None] + b[:, :, None, None],
             normal(*_IMAGE), normal(1, 64), normal(1, 64)),
        case("min_max_norm",
             lambda x: (x - x.amin(-1, True)) / (x.amax(-1, True) - x.amin(-1, True) + 1e-6),
             normal(*_TOKENS)),
        case("standardize_all", lambda x: (x - x.mean()) / x.std(), normal(*_IMAGE)),
        case("mean_and_deviation", lambda x: torch.cat([x.mean(2), x.std(2)], 1),
             normal(1, 256, 300)),
        case("generalized_mean", lambda x: x.pow(3).mean((2, 3)).pow(1 / 3), positive(*_IMAGE)),
    ]  # fmt: skip


def _losses() -> list[Case]:
    pair = normal(*_ROWS), normal(*_ROWS)
    return [
        case("mse_loss", F.mse_loss, *pair),
        case("l1_loss", F.l1_loss, *pair),
        case("smooth_l1_loss", F.smooth_l1_loss, *pair),
        case("cross_entropy", F.cross_entropy, normal(*_ROWS), whole(1000, 256)),
        case("bce_logits", lambda x, y: F.binary_cross_entropy_with_logits(x, y.sigmoid()), *pair),
        case("kl_divergence", F.kl_div, normal(*_ROWS), positive(*_ROWS)),
        case("cosine_similarity", lambda x, y: F.cosine_similarity(x, y, 1), *pair),
        case("pairwise_distance", F.pairwise_distance, *pair),
        case("dot", lambda x, y: (x * y).sum(), *pair),
        case("masked_mean", lambda x, m: (x * m[..., None]).sum(1) / m.sum(1, keepdim=True),
             normal(*_TOKENS), positive(1, 256)),
    ]  # fmt: skip


def cases() -> list[Case]:
    """All of them."""
    return [*_reductions(), *_scans(), *_normalisations(), *_losses()]
