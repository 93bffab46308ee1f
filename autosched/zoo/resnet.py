"""Residual networks (He et al., 2016), version 1.5: the stride sits in the 3x3 convolution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from autosched.zoo.layers import LayerBuilder

CLASSES: Final = 1000
_CALIBRATION: Final = (2, 3, 64, 64)


@dataclass(frozen=True, slots=True)
class ResNet:
    """Blocks per stage, and whether a block is a bottleneck (1x1, 3x3, 1x1 with 4x channels)."""

    blocks: tuple[int, int, int, int]
    bottleneck: bool


RESNET_18: Final = ResNet((2, 2, 2, 2), bottleneck=False)
RESNET_34: Final = ResNet((3, 4, 6, 3), bottleneck=False)
RESNET_50: Final = ResNet((3, 4, 6, 3), bottleneck=True)


def add_resnet(layers: LayerBuilder, net: ResNet, batch: int, image: int | None) -> None:
    """Add ``net`` for inputs ``[batch, 3, image, image]``.

    Args:
        layers: the graph so far.
        net: sizes of the network.
        batch: images.
        image: height and width, in pixels; None: 224.
    """
    size = 224 if image is None else image
    x = layers.input((batch, 3, size, size), _CALIBRATION)
    x = layers.relu(layers.conv_bn(x, "stem", 64, 7, 2), "stem.relu")
    x = layers.max_pool(x, "stem.pool", 3, 2)
    channels = 64
    for stage, blocks in enumerate(net.blocks):
        width = 64 << stage
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            label = f"stage{stage + 1}.{block}"
            add_block = _bottleneck if net.bottleneck else _basic
            out = width * 4 if net.bottleneck else width
            shortcut = x
            if stride > 1 or channels != out:
                shortcut = layers.conv_bn(x, f"{label}.shortcut", out, 1, stride)
            main = add_block(layers, x, label, width, stride)
            x = layers.relu(layers.add(main, shortcut, f"{label}.add"), f"{label}.out")
            channels = out
    layers.dense(layers.global_avg_pool(x, "pool"), "fc", CLASSES)


def _basic(layers: LayerBuilder, x: str, label: str, width: int, stride: int) -> str:
    x = layers.relu(layers.conv_bn(x, f"{label}.1", width, 3, stride), f"{label}.1.relu")
    return layers.conv_bn(x, f"{label}.2", width, 3, 1)


def _bottleneck(layers: LayerBuilder, x: str, label: str, width: int, stride: int) -> str:
    x = layers.relu(layers.conv_bn(x, f"{label}.1", width, 1, 1), f"{label}.1.relu")
    x = layers.relu(layers.conv_bn(x, f"{label}.2", width, 3, stride), f"{label}.2.relu")
    return layers.conv_bn(x, f"{label}.3", width * 4, 1, 1)
