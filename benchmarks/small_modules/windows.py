"""Convolutions, pools, and the blocks of image networks that they are parts of."""

from __future__ import annotations

from typing import Any, Final

import torch
import torch.nn.functional as F

from benchmarks.small_modules.case import Case, case, normal, weight

_IMAGE: Final = (1, 64, 56, 56)
_HALF: Final = (1, 64, 28, 28)
_SIGNAL: Final = (1, 128, 2000)


def _pools() -> list[Case]:
    image = normal(*_IMAGE)
    return [
        case("max_pool_3s2", lambda x: F.max_pool2d(x, 3, 2, 1), image),
        case("max_pool_5s1", lambda x: F.max_pool2d(x, 5, 1, 2), image),
        case("avg_pool_3s2", lambda x: F.avg_pool2d(x, 3, 2, 1), image),
        case("avg_pool_7s1", lambda x: F.avg_pool2d(x, 7, 1, 3), image),
        case("adaptive_avg_pool_7", lambda x: F.adaptive_avg_pool2d(x, 7), image),
        case("adaptive_avg_pool_5", lambda x: F.adaptive_avg_pool2d(x, 5), image),
        case("adaptive_max_pool_1d", lambda x: F.adaptive_max_pool1d(x, 8), normal(*_SIGNAL)),
        case("lp_pool", lambda x: F.lp_pool2d(x, 2, 2), image),
        case("max_pool_3d", lambda x: F.max_pool3d(x, 2), normal(1, 32, 16, 28, 28)),
        case("max_pool_indices", lambda x: F.max_pool2d(x, 2, return_indices=True)[1], image),
        case("spatial_pyramid",
             lambda x: torch.cat([F.adaptive_max_pool2d(x, k).flatten(1) for k in (1, 2, 4)], 1),
             normal(1, 256, 16, 16)),
        case("pyramid_pooling", _pyramid, normal(1, 64, 24, 24)),
    ]  # fmt: skip


def _pyramid(x: Any) -> Any:
    def level(size: int) -> Any:
        return F.interpolate(F.adaptive_avg_pool2d(x, size), x.shape[2:], mode="bilinear")

    return torch.cat([x, *(level(size) for size in (1, 2, 3, 6))], 1)


def _convolutions() -> list[Case]:
    image, square = normal(*_IMAGE), weight(64, 64, 3, 3)
    signal = normal(*_SIGNAL)
    return [
        case("conv_1d", lambda x, w: F.conv1d(x, w, padding=1), signal, weight(128, 128, 3)),
        case("conv_1d_depthwise_31", lambda x, w: F.conv1d(x, w, padding=15, groups=128), signal,
             weight(128, 1, 31)),
        case("conv_1d_transposed", lambda x, w: F.conv_transpose1d(x, w, stride=4, padding=2),
             signal, weight(128, 64, 8)),
        case("conv_1d_glu", lambda x, w: F.glu(F.conv1d(x, w, padding=1), 1), normal(1, 128, 500),
             weight(256, 128, 3)),
        case("conv_1d_separable",
             lambda x, w, v: F.conv1d(F.conv1d(x, w, padding=2, groups=128), v),
             normal(1, 128, 1000), weight(128, 1, 5), weight(64, 128, 1)),
        case("conv_3x3_given_weights", lambda x, w: F.conv2d(x, w, padding=1), image, square),
        case("conv_5x5_depthwise", lambda x, w: F.conv2d(x, w, padding=2, groups=64), image,
             weight(64, 1, 5, 5)),
        case("conv_dilated", lambda x, w: F.conv2d(x, w, padding=2, dilation=2), image, square),
        case("conv_grouped_4", lambda x, w: F.conv2d(x, w, padding=1, groups=4), image,
             weight(64, 16, 3, 3)),
        case("conv_transposed_2x2", lambda x, w: F.conv_transpose2d(x, w, stride=2), image,
             weight(64, 32, 2, 2)),
        case("conv_transposed_4x4", lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1),
             normal(*_HALF), weight(64, 32, 4, 4)),
        case("conv_transposed_depthwise",
             lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1, groups=64), image,
             weight(64, 1, 4, 4)),
        case("conv_3d_relu", lambda x, w: F.relu(F.conv3d(x, w, padding=1)),
             normal(1, 16, 8, 28, 28), weight(32, 16, 3, 3, 3)),
        case("conv_one_channel", lambda x, w: F.conv2d(x, w, padding=1), normal(1, 1, 112, 112),
             weight(16, 1, 3, 3)),
        case("conv_to_one_channel", lambda x, w: F.conv2d(x, w), image, weight(1, 64, 1, 1)),
        case("patches_16", lambda x, w: F.conv2d(x, w, stride=16), normal(1, 3, 224, 224),
             weight(384, 3, 16, 16)),
    ]  # fmt: skip


def _padded_convolutions() -> list[Case]:
    def padded(mode: str) -> Any:
        return lambda x, w: F.conv2d(F.pad(x, (1, 1, 1, 1), mode=mode), w)

    image, square = normal(*_IMAGE), weight(64, 64, 3, 3)
    return [
        case("conv_reflect", padded("reflect"), image, square),
        case("conv_replicate", padded("replicate"), image, square),
        case("conv_circular", padded("circular"), image, square),
        case("blur_pool",
             lambda x, w: F.conv2d(F.pad(x, (1, 1, 1, 1), mode="reflect"), w, stride=2, groups=64),
             image, weight(64, 1, 3, 3)),
        case("unshuffle_conv", lambda x, w: F.conv2d(F.pixel_unshuffle(x, 2), w, padding=1),
             normal(1, 16, 112, 112), square),
    ]  # fmt: skip


def _attentive() -> list[Case]:
    image, down, up = normal(*_IMAGE), weight(16, 64, 1, 1), weight(64, 16, 1, 1)

    def excited(x: Any, pooled: Any, w: Any, v: Any) -> Any:
        return F.conv2d(F.relu(F.conv2d(pooled, w)), v)

    return [
        case("squeeze_excite",
             lambda x, w, v: x * torch.sigmoid(excited(x, x.mean((2, 3), True), w, v)), image,
             down, up),
        case("channel_attention",
             lambda x, w, v: x * torch.sigmoid(excited(x, x.mean((2, 3), True), w, v)
                                               + excited(x, x.amax((2, 3), True), w, v)),
             image, down, up),
        case("spatial_attention",
             lambda x, w: x * torch.sigmoid(F.conv2d(
                 torch.cat([x.mean(1, True), x.amax(1, True)], 1), w, padding=3)),
             image, weight(1, 2, 7, 7)),
        case("efficient_channel_attention",
             lambda x, w: x * torch.sigmoid(F.conv1d(x.mean((2, 3))[:, None], w, padding=1))
             [:, 0][:, :, None, None],
             image, weight(1, 1, 3)),
        case("coordinate_attention",
             lambda x: x * torch.sigmoid(x.mean(3, True)) * torch.sigmoid(x.mean(2, True)), image),
        case("conv_norm_gelu",
             lambda x, w: F.gelu(F.instance_norm(F.conv2d(x, w, padding=1))), image,
             weight(64, 64, 3, 3)),
        case("maxout", lambda x: x.view(1, 32, 2, 56, 56).amax(2), image),
    ]  # fmt: skip


def _upsampled() -> list[Case]:
    half, image, wide = normal(*_HALF), normal(*_IMAGE), weight(64, 128, 3, 3)
    return [
        case("up_add", lambda x, y: F.interpolate(x, scale_factor=2.0) + y, half, image),
        case("up_concat_conv",
             lambda x, y, w: F.conv2d(torch.cat([F.interpolate(x, scale_factor=2.0), y], 1), w,
                                      padding=1),
             half, image, wide),
        case("bilinear_concat_conv",
             lambda x, y, w: F.conv2d(
                 torch.cat([F.interpolate(x, (56, 56), mode="bilinear", align_corners=True), y], 1),
                 w, padding=1),
             half, image, wide),
        case("segmentation_head",
             lambda x, w: F.interpolate(F.conv2d(x, w), scale_factor=4.0, mode="bilinear")
             .argmax(1),
             normal(1, 64, 64, 64), weight(21, 64, 1, 1)),
    ]  # fmt: skip


def cases() -> list[Case]:
    """All of them."""
    parts = _pools(), _convolutions(), _padded_convolutions(), _attentive(), _upsampled()
    return [found for part in parts for found in part]
