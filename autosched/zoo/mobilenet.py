"""MobileNets: depthwise separable convolutions (Howard et al., 2017), inverted residuals
(Sandler et al., 2018).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from autosched.zoo.layers import LayerBuilder

_CLASSES: Final = 1000
_CALIBRATION: Final = (2, 3, 64, 64)
_SIZE: Final = 224

# Output channels and stride of each depthwise separable block of version 1.
_SEPARABLE: Final = (
    (64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2),
    (512, 1), (512, 1), (512, 1), (512, 1), (512, 1), (1024, 2), (1024, 1),
)  # fmt: skip


class _Inverted(NamedTuple):
    """A stage of version 2: how much its blocks expand, channels, blocks, stride of the first."""

    expansion: int
    channels: int
    blocks: int
    stride: int


_INVERTED: Final = (
    _Inverted(1, 16, 1, 1),
    _Inverted(6, 24, 2, 2),
    _Inverted(6, 32, 3, 2),
    _Inverted(6, 64, 4, 2),
    _Inverted(6, 96, 3, 1),
    _Inverted(6, 160, 3, 2),
    _Inverted(6, 320, 1, 1),
)


def add_mobilenet_v1(layers: LayerBuilder, batch: int, image: int | None) -> None:
    """Add MobileNet v1 for inputs ``[batch, 3, image, image]`` (224 pixels if None)."""
    x = _stem(layers, batch, image)
    for index, (channels, stride) in enumerate(_SEPARABLE):
        label = f"block{index + 1}"
        x = _depthwise(layers, x, f"{label}.depthwise", stride)
        x = _conv(layers, x, f"{label}.pointwise", channels, 1)
    layers.dense(layers.global_avg_pool(x, "pool"), "fc", _CLASSES)


def add_mobilenet_v2(layers: LayerBuilder, batch: int, image: int | None) -> None:
    """Add MobileNet v2 for inputs ``[batch, 3, image, image]`` (224 pixels if None)."""
    x = _stem(layers, batch, image)
    for number, stage in enumerate(_INVERTED):
        for block in range(stage.blocks):
            label = f"stage{number + 1}.{block}"
            x = _inverted_residual(layers, x, label, stage, stage.stride if block == 0 else 1)
    x = _conv(layers, x, "head", 1280, 1)
    layers.dense(layers.global_avg_pool(x, "pool"), "fc", _CLASSES)


def _inverted_residual(
    layers: LayerBuilder, x: str, label: str, stage: _Inverted, stride: int
) -> str:
    channels = layers.shape(x)[1]
    wide = x
    if stage.expansion > 1:
        wide = _conv(layers, x, f"{label}.expand", channels * stage.expansion, 1)
    wide = _depthwise(layers, wide, f"{label}.depthwise", stride)
    narrow = layers.conv_bn(wide, f"{label}.project", stage.channels, 1)
    if stride > 1 or channels != stage.channels:
        return narrow
    return layers.add(x, narrow, f"{label}.add")


def _stem(layers: LayerBuilder, batch: int, image: int | None) -> str:
    size = _SIZE if image is None else image
    return _conv(layers, layers.input((batch, 3, size, size), _CALIBRATION), "stem", 32, 3, 2)


def _depthwise(layers: LayerBuilder, x: str, label: str, stride: int) -> str:
    channels = layers.shape(x)[1]
    normalized = layers.conv_bn(x, label, channels, 3, stride, groups=channels)
    return layers.relu6(normalized, f"{label}.relu6")


def _conv(
    layers: LayerBuilder, x: str, label: str, channels: int, kernel: int, stride: int = 1
) -> str:
    return layers.relu6(layers.conv_bn(x, label, channels, kernel, stride), f"{label}.relu6")
